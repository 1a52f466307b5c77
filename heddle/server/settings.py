"""What the operator of a server decides, as the flags of ``heddle-server`` say it."""

from ipaddress import ip_address
from typing import Final

from msgspec import Struct

MAX_BODY: Final = 8 * 1024 * 1024


class Settings(Struct, frozen=True, kw_only=True):
    """How requests are treated. Times are in seconds.

    Attributes:
        flows_root: The folder of flows that callers may name; None for none.
        components: The files of what these flows may refer to.
        auth_token: What callers must show; None lets everybody in.
        cors_origins: Web origins whose pages may call; ``*`` for all.
        allow_net: Hosts that submitted flows may reach although they are private.
        allow_request_code: Whether callers may bring tools and plugins.
        allow_trace: Whether callers may ask for traced runs.
        max_body: Bytes of a request's body, and of a message on a socket.
    """

    flows_root: str | None = None
    components: tuple[str, ...] = ()
    auth_token: str | None = None
    cors_origins: frozenset[str] = frozenset()
    allow_net: tuple[str, ...] = ()
    allow_request_code: bool = False
    allow_trace: bool = False
    max_body: int = MAX_BODY
    drain_timeout: float = 30.0
    json_logs: bool = False


def is_loopback(host: str) -> bool:
    """Whether a server that binds to ``host`` is reached from this machine alone."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
