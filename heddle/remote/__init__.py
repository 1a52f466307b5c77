"""What flows reach beyond models: HTTP requests, and the tools of MCP servers.

The engine states what it needs (`heddle.engine.work.Remote`); `RemoteService` does it, over
the same connections, proxies and bounds as model calls. Importing this loads nothing slow.

    service         what the engine asks of the outside
    client          HTTP requests, one attempt each
    servers         tool servers and their sessions; `mcp_transports`: how they are reached
    errors          what can go wrong, one class each
"""

from heddle.remote.errors import (
    RemoteError,
    RemoteProtocolError,
    RemoteRefused,
    RemoteTimedOut,
    RemoteUnreachable,
)
from heddle.remote.service import RemoteService

__all__ = [
    "RemoteError",
    "RemoteProtocolError",
    "RemoteRefused",
    "RemoteService",
    "RemoteTimedOut",
    "RemoteUnreachable",
]
