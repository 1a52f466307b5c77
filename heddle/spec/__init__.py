"""Agent Spec documents: read, typed, linked, checked.

`read_document` turns bytes into a `Document`, or says everything that is wrong with them.
`render`, `convert`, `check` and `is_subtype` are what running one needs: placeholders
filled, values converted where they flow, types compared. All of it is pure.

a text, and the data in it
    source         limits; how one that breaks them is refused
    formats        which there are; `syntax`: bytes to data, from any of them
    json_syntax    JSON; `repeated_keys`: keys that are there twice
    yaml_syntax    YAML; `line_breaks`: those that it alone knows
data, and the components in it
    reader         the way from one to the other
    catalogue      component types by name; `component`: what all share
    flows, llms, tools, datastores    the types themselves
    foreign        types that are none of Agent Spec's
    references     definitions found by id; `identities`: every component has its own
    supplied       what is kept apart from a document
    versions       what came with which version
    parameters     generation parameters of a model
    written        a component as its author wrote it
what is wrong
    problems       all of it, where its author finds it; `places`: on which line
    checks         what must hold in a flow as it is written
    mismatches     why a value does not fit a struct
values
    properties     inputs and outputs, as declared; `keywords`: what JSON Schemas may say
    types          conversion and comparison; `validation`: whether a value fits
    full_schemas   schemas of every kind; `patterns`: regular expressions in bounded time
    effort         how much work looking at a value may be
    templates      placeholders in texts
"""

from heddle.spec.catalogue import (
    COMPONENTS,
    NEWEST_VERSION,
    VERSIONS,
)
from heddle.spec.component import (
    Component,
    ComponentWithIO,
    PluginComponent,
    Property,
    ProvidedType,
    RetryPolicy,
)
from heddle.spec.datastores import (
    AnyDatastore,
    AnyOracleConnectionConfig,
    InMemoryCollectionDatastore,
    MTlsOracleDatabaseConnectionConfig,
    OracleDatabaseDatastore,
    PostgresDatabaseDatastore,
    TlsOracleDatabaseConnectionConfig,
    TlsPostgresDatabaseConnectionConfig,
)
from heddle.spec.effort import (
    Effort,
    EffortExceeded,
    effort,
    schema_places,
    spend_on_checking,
    spending,
)
from heddle.spec.flows import (
    NEXT_BRANCH,
    A2AAgent,
    A2AConnectionConfig,
    A2ASessionParameters,
    Agent,
    AgentNode,
    AgentSpecializationParameters,
    AnyAgenticComponent,
    AnyControlFlowEdge,
    AnyDataFlowEdge,
    AnyFlow,
    AnyMessageTransform,
    AnyNode,
    ApiNode,
    BranchingNode,
    CatchExceptionNode,
    ControlFlowEdge,
    ConversationSummarizationTransform,
    DataFlowEdge,
    EndNode,
    Flow,
    FlowNode,
    InputMessageNode,
    LlmNode,
    ManagerWorkers,
    MapNode,
    MessageSummarizationTransform,
    Node,
    OciAgent,
    OutputMessageNode,
    ParallelFlowNode,
    ParallelMapNode,
    Reduction,
    SpecializedAgent,
    StartNode,
    Swarm,
    ToolNode,
)
from heddle.spec.formats import (
    FORMATS,
    FormatRefused,
    Formats,
    InputFormat,
    format_of,
)
from heddle.spec.llms import (
    AnyLlmConfig,
    AnyOciClientConfig,
    DbmsVectorChainLlmConfig,
    GeminiAIStudioAuthConfig,
    GeminiConfig,
    GeminiVertexAIAuthConfig,
    LlmConfig,
    LlmGenerationConfig,
    Model,
    OciClientConfigWithApiKey,
    OciClientConfigWithInstancePrincipal,
    OciClientConfigWithResourcePrincipal,
    OciClientConfigWithSecurityToken,
    OciGenAiConfig,
    OllamaConfig,
    OpenAiCompatibleConfig,
    OpenAiConfig,
    VllmConfig,
)
from heddle.spec.patterns import problem_with
from heddle.spec.problems import (
    MAX_PROBLEMS,
    DocumentError,
    Problem,
)
from heddle.spec.properties import (
    read_properties,
    schema_flaw,
)
from heddle.spec.reader import (
    Document,
    read_document,
)
from heddle.spec.source import (
    MAX_DOCUMENT,
    MAX_NESTING,
)
from heddle.spec.supplied import NOTHING_SUPPLIED, Supplied, read_supplied
from heddle.spec.templates import (
    TextTooLong,
    as_text,
    placeholders,
    render,
    render_briefly,
)
from heddle.spec.tools import (
    AnyAuthConfig,
    AnyClientTransport,
    AnyTool,
    AnyToolBox,
    BuiltinTool,
    ClientTool,
    MCPTool,
    MCPToolBox,
    MCPToolSpec,
    OAuthClientConfig,
    OAuthConfig,
    OAuthEndpoints,
    PKCEPolicy,
    RemoteTool,
    RemoteTransport,
    ServerTool,
    SessionParameters,
    SSEmTLSTransport,
    SSETransport,
    StdioTransport,
    StreamableHTTPmTLSTransport,
    StreamableHTTPTransport,
    Tool,
)
from heddle.spec.types import (
    TypeConversionError,
    convert,
    is_subtype,
)
from heddle.spec.validation import check

__all__ = [
    "COMPONENTS",
    "FORMATS",
    "MAX_DOCUMENT",
    "MAX_NESTING",
    "MAX_PROBLEMS",
    "NEWEST_VERSION",
    "NEXT_BRANCH",
    "NOTHING_SUPPLIED",
    "VERSIONS",
    "A2AAgent",
    "A2AConnectionConfig",
    "A2ASessionParameters",
    "Agent",
    "AgentNode",
    "AgentSpecializationParameters",
    "AnyAgenticComponent",
    "AnyAuthConfig",
    "AnyClientTransport",
    "AnyControlFlowEdge",
    "AnyDataFlowEdge",
    "AnyDatastore",
    "AnyFlow",
    "AnyLlmConfig",
    "AnyMessageTransform",
    "AnyNode",
    "AnyOciClientConfig",
    "AnyOracleConnectionConfig",
    "AnyTool",
    "AnyToolBox",
    "ApiNode",
    "BranchingNode",
    "BuiltinTool",
    "CatchExceptionNode",
    "ClientTool",
    "Component",
    "ComponentWithIO",
    "ControlFlowEdge",
    "ConversationSummarizationTransform",
    "DataFlowEdge",
    "DbmsVectorChainLlmConfig",
    "Document",
    "DocumentError",
    "Effort",
    "EffortExceeded",
    "EndNode",
    "Flow",
    "FlowNode",
    "FormatRefused",
    "Formats",
    "GeminiAIStudioAuthConfig",
    "GeminiConfig",
    "GeminiVertexAIAuthConfig",
    "InMemoryCollectionDatastore",
    "InputFormat",
    "InputMessageNode",
    "LlmConfig",
    "LlmGenerationConfig",
    "LlmNode",
    "MCPTool",
    "MCPToolBox",
    "MCPToolSpec",
    "MTlsOracleDatabaseConnectionConfig",
    "ManagerWorkers",
    "MapNode",
    "MessageSummarizationTransform",
    "Model",
    "Node",
    "OAuthClientConfig",
    "OAuthConfig",
    "OAuthEndpoints",
    "OciAgent",
    "OciClientConfigWithApiKey",
    "OciClientConfigWithInstancePrincipal",
    "OciClientConfigWithResourcePrincipal",
    "OciClientConfigWithSecurityToken",
    "OciGenAiConfig",
    "OllamaConfig",
    "OpenAiCompatibleConfig",
    "OpenAiConfig",
    "OracleDatabaseDatastore",
    "OutputMessageNode",
    "PKCEPolicy",
    "ParallelFlowNode",
    "ParallelMapNode",
    "PluginComponent",
    "PostgresDatabaseDatastore",
    "Problem",
    "Property",
    "ProvidedType",
    "Reduction",
    "RemoteTool",
    "RemoteTransport",
    "RetryPolicy",
    "SSETransport",
    "SSEmTLSTransport",
    "ServerTool",
    "SessionParameters",
    "SpecializedAgent",
    "StartNode",
    "StdioTransport",
    "StreamableHTTPTransport",
    "StreamableHTTPmTLSTransport",
    "Supplied",
    "Swarm",
    "TextTooLong",
    "TlsOracleDatabaseConnectionConfig",
    "TlsPostgresDatabaseConnectionConfig",
    "Tool",
    "ToolNode",
    "TypeConversionError",
    "VllmConfig",
    "as_text",
    "check",
    "convert",
    "effort",
    "format_of",
    "is_subtype",
    "placeholders",
    "problem_with",
    "read_document",
    "read_properties",
    "read_supplied",
    "render",
    "render_briefly",
    "schema_flaw",
    "schema_places",
    "spend_on_checking",
    "spending",
]
