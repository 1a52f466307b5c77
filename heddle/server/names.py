"""The names a server goes by, when only programs of its own machine are to reach it.

A stranger's page can have its own name point at this machine (DNS rebinding): its browser
then takes the server for a part of that page's site, and lets it ask and read. What such
a request cannot choose is its Host header, which says the page's name.
"""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import urlsplit

from heddle.server.http import Refusal
from heddle.server.settings import Settings, is_loopback

_ALWAYS: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
"""No name at all is what old and simple clients send, and no browser."""


class Bound(Protocol):
    """Where a server listens: what was asked for, and the URL that came of it."""

    host: str
    address: str


class Names:
    """The hosts that requests may name: addresses, those of this machine, and ``known``."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = _ALWAYS.union(each.lower().rstrip(".") for each in known)

    def check(self, host: str | None) -> None:
        """See that a request is meant for this server.

        Args:
            host: Its Host header, whose form is good.

        Raises:
            Refusal: 403; it is meant for a server of another name.
        """
        name = _name(host or "")
        if name in self._known or name.endswith(".localhost") or _is_address(name):
            return
        raise Refusal(
            403,
            f"this server does not go by the name {name[:80]!r}",
            fix="Ask for localhost, or have whoever runs the server allow the name: "
            f"--cors-origin http://{name[:80]}.",
        )


def names_of(settings: Settings, bound: Sequence[Bound]) -> Names | None:
    """The names to insist on; None where a page gains nothing by borrowing one.

    With a token it would need that, too. Where all pages may call, or other machines, it
    need not pretend. No page reaches a Unix socket, and a proxy in front of one hands on
    whatever name it was called by.
    """
    if settings.auth_token is not None or "*" in settings.cors_origins:
        return None
    if not all(is_loopback(_host_of(each.address)) for each in bound):
        return None
    origins = map(_host_of, settings.cors_origins)
    return Names((*origins, *(each.host for each in bound)))


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _name(host: str) -> str:
    """What a Host header says before the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    """An address has no owner who could point it elsewhere."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
