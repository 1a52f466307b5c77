"""The components that an agent or a node can call, and the ways to reach them."""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Struct, field

from heddle.spec.component import (
    SECRET,
    Component,
    ComponentWithIO,
    PluginComponent,
    RetryPolicy,
    Secret,
    new_in,
)


class OAuthClientConfig(Component, frozen=True, kw_only=True):
    """Who we are to an authorization server."""

    since: ClassVar[str] = "26.1.2"

    type: Literal["pre_registered", "client_id_metadata_document", "dynamic_registration"]
    client_id: Secret | None = None
    client_secret: Secret | None = None
    client_id_metadata_url: str | None = None
    registration_endpoint: str | None = None
    token_endpoint_auth_method: str | None = None
    min_agentspec_version: str = "26.1.2"


class OAuthEndpoints(Struct, frozen=True):
    """Where an authorization server listens."""

    authorization_endpoint: str
    token_endpoint: str
    refresh_endpoint: str | None = None
    revocation_endpoint: str | None = None
    userinfo_endpoint: str | None = None


class PKCEPolicy(Struct, frozen=True):
    """How an authorization code is bound to who asked for it."""

    required: bool = True
    method: Literal["plain", "S256"] = "S256"


class OAuthConfig(Component, frozen=True, kw_only=True):
    """Access to a remote server by OAuth."""

    since: ClassVar[str] = "26.1.2"

    client: OAuthClientConfig | PluginComponent
    redirect_uri: str
    issuer: str | None = None
    endpoints: OAuthEndpoints | None = None
    scopes: str | tuple[str, ...] | None = None
    scope_policy: Literal["use_challenge_or_supported", "fixed"] | None = None
    pkce: PKCEPolicy | None = None
    resource: str | None = None
    min_agentspec_version: str = "26.1.2"


AnyAuthConfig: TypeAlias = OAuthConfig | PluginComponent


class SessionParameters(Struct, frozen=True):
    """How long a session with a tool server waits for an answer."""

    read_timeout_seconds: float = 60.0


class StdioTransport(Component, frozen=True, kw_only=True):
    """A tool server that is started as a process."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] | None = None
    cwd: str | None = None
    session_parameters: SessionParameters = SessionParameters()


class RemoteTransport(Component, frozen=True, kw_only=True):
    """What transports over HTTP share."""

    url: str
    headers: dict[str, str] | None = None
    sensitive_headers: Annotated[dict[str, Secret] | None, new_in("25.4.2")] = None
    auth: Annotated[AnyAuthConfig | None, new_in("26.1.2")] = None
    retry_policy: Annotated[RetryPolicy | None, new_in("26.1.2")] = None
    session_parameters: SessionParameters = SessionParameters()


class SSETransport(RemoteTransport, frozen=True, kw_only=True):
    """A tool server over server-sent events."""


class SSEmTLSTransport(RemoteTransport, frozen=True, kw_only=True):
    """A tool server over server-sent events, with certificates on both sides."""

    key_file: str
    cert_file: str
    ca_file: str


class StreamableHTTPTransport(RemoteTransport, frozen=True, kw_only=True):
    """A tool server over streamable HTTP."""


class StreamableHTTPmTLSTransport(RemoteTransport, frozen=True, kw_only=True):
    """A tool server over streamable HTTP, with certificates on both sides."""

    key_file: str
    cert_file: str
    ca_file: str


AnyClientTransport: TypeAlias = (
    StdioTransport
    | SSETransport
    | SSEmTLSTransport
    | StreamableHTTPTransport
    | StreamableHTTPmTLSTransport
    | PluginComponent
)


class Tool(ComponentWithIO, frozen=True, kw_only=True):
    """What all tools share."""

    requires_confirmation: Annotated[bool, new_in("25.4.2")] = False


class ServerTool(Tool, frozen=True, kw_only=True):
    """A tool that whoever runs the flow has registered under this name."""


class ClientTool(Tool, frozen=True, kw_only=True):
    """A tool that the caller of the run executes."""


class BuiltinTool(Tool, frozen=True, kw_only=True):
    """A tool that the runtime brings along."""

    since: ClassVar[str] = "25.4.2"

    tool_type: str
    configuration: dict[str, Any] | None = None
    executor_name: str | tuple[str, ...] | None = None
    tool_version: str | None = None


class RemoteTool(Tool, frozen=True, kw_only=True):
    """A tool that is one HTTP request."""

    url: str
    http_method: str
    api_spec_uri: str | None = None
    data: Any = field(default_factory=dict)
    query_params: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, Any] = field(default_factory=dict)
    sensitive_headers: Annotated[dict[str, Any], new_in("25.4.2"), SECRET] = field(
        default_factory=dict
    )
    url_allow_list: Annotated[tuple[str, ...] | None, new_in("26.1.2")] = None
    retry_policy: Annotated[RetryPolicy | None, new_in("26.1.2")] = None


class MCPTool(Tool, frozen=True, kw_only=True):
    """One tool of a tool server."""

    client_transport: AnyClientTransport
    retry_policy: Annotated[RetryPolicy | None, new_in("26.3.1")] = None


class MCPToolSpec(Tool, frozen=True, kw_only=True):
    """What a tool of a tool server is expected to look like."""

    since: ClassVar[str] = "25.4.2"


AnyTool: TypeAlias = (
    ServerTool | ClientTool | BuiltinTool | RemoteTool | MCPTool | PluginComponent
)


class MCPToolBox(Component, frozen=True, kw_only=True):
    """The tools of a tool server; no ``tool_filter`` means all."""

    since: ClassVar[str] = "25.4.2"

    client_transport: AnyClientTransport
    tool_filter: tuple[MCPToolSpec | str, ...] | None = None
    requires_confirmation: Annotated[bool, new_in("26.1.2")] = False
    retry_policy: Annotated[RetryPolicy | None, new_in("26.3.1")] = None


AnyToolBox: TypeAlias = MCPToolBox | PluginComponent
