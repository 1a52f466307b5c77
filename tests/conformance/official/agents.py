"""Agents, and the tools and models that they use, built with pyagentspec's own classes.

Every kind that Agent Spec has is among them.
"""

from typing import Any, Final

from pyagentspec import (
    A2AAgent,
    A2AConnectionConfig,
    Agent,
    Component,
    ManagerWorkers,
    OciAgent,
    RetryPolicy,
    Swarm,
)
from pyagentspec import A2ASessionParameters as Session
from pyagentspec.auth import OAuthClientConfig, OAuthConfig, OAuthEndpoints, PKCEPolicy
from pyagentspec.datastores import (
    InMemoryCollectionDatastore,
    MTlsOracleDatabaseConnectionConfig,
    OracleDatabaseDatastore,
    PostgresDatabaseDatastore,
    TlsOracleDatabaseConnectionConfig,
    TlsPostgresDatabaseConnectionConfig,
)
from pyagentspec.llms import (
    DbmsVectorChainLlmConfig,
    GeminiConfig,
    LlmConfig,
    LlmGenerationConfig,
    OciGenAiConfig,
    OllamaConfig,
    OpenAiCompatibleConfig,
    OpenAiConfig,
    VllmConfig,
)
from pyagentspec.llms.geminiauthconfig import (
    GeminiAIStudioAuthConfig,
    GeminiVertexAIAuthConfig,
)
from pyagentspec.llms.ociclientconfig import (
    OciClientConfigWithApiKey,
    OciClientConfigWithInstancePrincipal,
    OciClientConfigWithResourcePrincipal,
    OciClientConfigWithSecurityToken,
)
from pyagentspec.llms.openaicompatibleconfig import OpenAIAPIType
from pyagentspec.mcp import (
    MCPTool,
    MCPToolBox,
    MCPToolSpec,
    SessionParameters,
    SSEmTLSTransport,
    SSETransport,
    StdioTransport,
    StreamableHTTPmTLSTransport,
    StreamableHTTPTransport,
)
from pyagentspec.property import (
    IntegerProperty,
    ListProperty,
    StringProperty,
)
from pyagentspec.specialized_agent import AgentSpecializationParameters, SpecializedAgent
from pyagentspec.swarm import HandoffMode
from pyagentspec.tools import BuiltinTool, ClientTool, RemoteTool, ServerTool
from pyagentspec.transforms import (
    ConversationSummarizationTransform,
    MessageSummarizationTransform,
)

TEXT: Final = StringProperty(title="text")
COUNT: Final = IntegerProperty(title="count", default=3)

PATIENT: Final = RetryPolicy(
    max_attempts=4,
    request_timeout=2.5,
    initial_retry_delay=0.25,
    jitter=None,
    recoverable_statuses={"418": ["I'm a teapot"]},
)

MODEL: Final = OpenAiCompatibleConfig(
    name="model",
    model_id="m1",
    url="http://127.0.0.1:1/v1",
    default_generation_parameters=LlmGenerationConfig(
        max_tokens=64, temperature=0.5, stop=["."], seed=7
    ),
)

COUNT_WORDS: Final = ServerTool(
    name="count_words",
    description="Counts the words of a text.",
    inputs=[TEXT],
    outputs=[COUNT],
    metadata={"made_by": {"team": "words"}},
)


def models() -> list[LlmConfig]:
    """One of each kind."""
    return [
        MODEL,
        OpenAiConfig(name="openai", model_id="gpt", api_type=OpenAIAPIType.RESPONSES),
        VllmConfig(name="vllm", model_id="v", url="127.0.0.1:1", retry_policy=PATIENT),
        OllamaConfig(name="ollama", model_id="o", url="127.0.0.1:2", ca_file="ca.pem"),
        GeminiConfig(
            name="gemini", model_id="g", auth=GeminiAIStudioAuthConfig(name="studio")
        ),
        GeminiConfig(
            name="vertex",
            model_id="g",
            auth=GeminiVertexAIAuthConfig(name="cloud", project_id="p", location="eu"),
        ),
        LlmConfig(
            name="bare", model_id="x", api_provider="anthropic", url="http://127.0.0.1:3"
        ),
        *(
            OciGenAiConfig(
                name=f"oci{number}", model_id="c", compartment_id="c", client_config=client
            )
            for number, client in enumerate(oci_clients())
        ),
        DbmsVectorChainLlmConfig(
            name="chain",
            model_id="d",
            provider="ollama",
            url="http://127.0.0.1:4",
            host="local",
        ),
        DbmsVectorChainLlmConfig(
            name="in_database",
            credential_name="c",
            model_id="d",
            provider="p",
            url="http://127.0.0.1:4",
            connection_config=TlsOracleDatabaseConnectionConfig(
                name="tls", user="u", password="p", dsn="d"
            ),
        ),
    ]


def oci_clients() -> list[Component]:
    """One of each."""
    at = {"service_endpoint": "http://127.0.0.1:5"}
    file = {"auth_profile": "DEFAULT", "auth_file_location": "~/.oci/config"}
    return [
        OciClientConfigWithApiKey(name="key", **at, **file),
        OciClientConfigWithSecurityToken(name="token", **at, **file),
        OciClientConfigWithInstancePrincipal(name="instance", **at),
        OciClientConfigWithResourcePrincipal(name="resource", **at),
    ]


def remote_tool() -> RemoteTool:
    """A tool with all that a request may have."""
    return RemoteTool(
        name="look_up",
        description="Looks a word up.",
        url="http://127.0.0.1:6/words/{{word}}",
        http_method="POST",
        data={"lines": ["{{word}}", 2, None, {"{{word}}": True}]},
        query_params={"q": "{{ word }}"},
        headers={"X-Word": "{{word}}"},
        sensitive_headers={"Authorization": "Bearer t"},
        url_allow_list=["http://127.0.0.1:6/words"],
        retry_policy=PATIENT,
        inputs=[StringProperty(title="word")],
        outputs=[StringProperty(title="meaning")],
        requires_confirmation=True,
    )


def transports() -> list[Any]:
    """One of each way to a server of tools."""
    files = {"key_file": "key.pem", "cert_file": "cert.pem", "ca_file": "ca.pem"}
    quick = SessionParameters(read_timeout_seconds=5)
    oauth = OAuthConfig(
        name="oauth",
        endpoints=OAuthEndpoints(
            authorization_endpoint="http://127.0.0.1:7/a", token_endpoint="http://x/t"
        ),
        client=OAuthClientConfig(
            name="client", type="pre_registered", client_id="i", client_secret="s"
        ),
        redirect_uri="http://127.0.0.1:7/back",
        scopes=["read", "write"],
        pkce=PKCEPolicy(required=False),
    )
    return [
        StdioTransport(
            name="stdio", command="serve", args=["-v"], env={"A": "1"}, cwd="/srv"
        ),
        SSETransport(name="sse", url="http://127.0.0.1:8", headers={"A": "1"}),
        SSEmTLSTransport(name="sse_mtls", url="https://127.0.0.1:8", **files),
        StreamableHTTPTransport(
            name="http",
            url="http://127.0.0.1:9/mcp",
            session_parameters=quick,
            sensitive_headers={"Authorization": "Bearer t"},
            retry_policy=PATIENT,
            auth=oauth,
        ),
        StreamableHTTPmTLSTransport(name="http_mtls", url="https://127.0.0.1:9", **files),
    ]


def mcp_agent() -> Agent:
    """An agent whose tools are on servers."""
    stdio, *others = transports()
    return Agent(
        name="mcp_agent",
        llm_config=MODEL,
        system_prompt="Use what there is.",
        tools=[
            MCPTool(
                name=f"tool_{one.name}",
                client_transport=one,
                inputs=[TEXT],
                outputs=[StringProperty(title="answer")],
                retry_policy=PATIENT,
            )
            for one in others
        ],
        toolboxes=[
            MCPToolBox(name="all", client_transport=stdio),
            MCPToolBox(
                name="some",
                client_transport=stdio,
                requires_confirmation=True,
                tool_filter=[
                    "plain",
                    MCPToolSpec(
                        name="described",
                        description="Better said.",
                        inputs=[TEXT],
                        requires_confirmation=True,
                    ),
                ],
            ),
        ],
    )


def agent(name: str = "helper", **fields: Any) -> Agent:
    """An agent with a tool of each kind that is no server's."""
    return Agent(
        name=name,
        description=f"The {name}.",
        llm_config=MODEL,
        system_prompt="Help {{ who }} with {{what}}.",
        tools=[
            COUNT_WORDS,
            ClientTool(name="ask", inputs=[TEXT], outputs=[TEXT]),
            remote_tool(),
            BuiltinTool(
                name="search",
                tool_type="web_search",
                configuration={"depth": 2},
                executor_name=["a", "b"],
                tool_version="1",
            ),
        ],
        **fields,
    )


def transformed() -> Agent:
    """An agent whose conversation is kept short."""
    kind = MessageSummarizationTransform
    tables = {kind.DEFAULT_COLLECTION_NAME: kind.get_entity_definition()}
    stores = [
        InMemoryCollectionDatastore(name="memory", datastore_schema=tables),
        OracleDatabaseDatastore(
            name="oracle",
            datastore_schema=tables,
            connection_config=MTlsOracleDatabaseConnectionConfig(
                name="mtls",
                user="u",
                password="p",
                dsn="d",
                wallet_location="w",
                wallet_password="wp",
            ),
        ),
        PostgresDatabaseDatastore(
            name="postgres",
            datastore_schema=tables,
            connection_config=TlsPostgresDatabaseConnectionConfig(
                name="pg", user="u", password="p", url="127.0.0.1:1/db"
            ),
        ),
    ]
    return agent(
        "transformed",
        human_in_the_loop=False,
        outputs=[COUNT, ListProperty(title="words", item_type=TEXT)],
        transforms=[
            *(kind(name=f"short_{one.name}", llm=MODEL, datastore=one) for one in stores),
            ConversationSummarizationTransform(
                name="few", llm=MODEL, max_num_messages=20, min_num_messages=5
            ),
        ],
    )


def specialized() -> SpecializedAgent:
    """An agent made from another."""
    return SpecializedAgent(
        name="special",
        agent=agent(),
        agent_specialization_parameters=AgentSpecializationParameters(
            name="more",
            additional_instructions="Be {{ mood }}.",
            additional_tools=[ServerTool(name="sing", inputs=[], outputs=[])],
            human_in_the_loop=False,
        ),
    )


def swarm(handoff: HandoffMode) -> Swarm:
    """Three agents, two of which know the third."""
    first, second, third = (agent(one) for one in ("first", "second", "third"))
    return Swarm(
        name="swarm",
        first_agent=first,
        relationships=[(first, second), (second, first), (first, third), (second, third)],
        handoff=handoff,
    )


def team() -> ManagerWorkers:
    """A manager, a worker, and a swarm that works."""
    return ManagerWorkers(
        name="team",
        group_manager=agent("manager"),
        workers=[agent("worker"), swarm(HandoffMode.NEVER)],
    )


def elsewhere() -> list[Component]:
    """Agents that others run."""
    return [
        A2AAgent(
            name="a2a",
            agent_url="http://127.0.0.1:1",
            connection_config=A2AConnectionConfig(
                name="connection", timeout=5, headers={"A": "1"}, retry_policy=PATIENT
            ),
            session_parameters=Session(timeout=1, poll_interval=0.5, max_retries=2),
        ),
        OciAgent(name="oci", agent_endpoint_id="e", client_config=oci_clients()[2]),
    ]
