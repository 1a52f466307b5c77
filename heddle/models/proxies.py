"""Which proxy a request goes through, as the environment says.

    https_proxy, HTTPS_PROXY   for https URLs: a tunnel (CONNECT)
    http_proxy, HTTP_PROXY     for http URLs: the request in absolute form
    all_proxy, ALL_PROXY       for both, where there is none of their own
    no_proxy, NO_PROXY         who is reached directly: names (and all below them),
                               addresses, networks, each with or without a port; or *

The lower-case name wins. Nothing is exempt by itself, not even this machine.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from heddle.models.endpoint import Origin, Scheme, Secret, origin_of, userinfo_of
from heddle.models.errors import EndpointInvalid

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Proxy(Struct, frozen=True, cache_hash=True):
    """An HTTP proxy; ``userinfo`` is the ``user:password`` it is given."""

    origin: Origin
    userinfo: Secret | None = None


class Exemption(Struct, frozen=True):
    """One entry of NO_PROXY: a name, or a network when it is an address."""

    name: str
    network: Network | None = None
    port: int | None = None

    def covers(self, origin: Origin) -> bool:
        """Whether ``origin`` is reached directly because of this entry."""
        if self.port is not None and self.port != origin.port:
            return False
        host = origin.host.lower()
        if self.network is None:
            return self.name == "*" or host == self.name or host.endswith(f".{self.name}")
        try:
            return ipaddress.ip_address(host) in self.network
        except ValueError:
            return False


class Proxies(Struct, frozen=True):
    """The proxies of one environment, one a scheme."""

    by_scheme: Mapping[Scheme, Proxy]
    exemptions: tuple[Exemption, ...] = ()

    def proxy_for(self, origin: Origin) -> Proxy | None:
        """The proxy on the way to ``origin``, or None for the direct way."""
        proxy = self.by_scheme.get(origin.scheme)
        if proxy is None or any(rule.covers(origin) for rule in self.exemptions):
            return None
        return proxy


def read_proxies(environ: Mapping[str, str]) -> Proxies:
    """The proxies that ``environ`` names.

    Raises:
        EndpointInvalid: A variable holds no URL of an HTTP proxy.
    """
    schemes: tuple[Scheme, ...] = ("http", "https")
    found: dict[Scheme, Proxy] = {}
    for scheme in schemes:
        for variable in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", *_FOR_ALL):
            value = environ.get(variable, "").strip()
            if value:
                found[scheme] = _proxy(value, variable)
                break
    listed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    entries = [entry for entry in re.split(r"[,\s]+", listed) if entry]
    return Proxies(found, tuple(_exemption(entry) for entry in entries))


_FOR_ALL: Final = ("all_proxy", "ALL_PROXY")


def _proxy(value: str, variable: str) -> Proxy:
    text = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(text)
        origin = origin_of(parts.scheme, parts.hostname, parts.port)
    except ValueError as error:
        # The value may hold a password: it is not quoted.
        raise EndpointInvalid(
            f"is not the URL of an HTTP proxy: {error}",
            where=f"environment variable {variable}",
            fix="Write it like http://proxy.example:3128.",
        ) from None
    return Proxy(origin, userinfo_of(parts))


def _exemption(entry: str) -> Exemption:
    name, port = entry.lower(), None
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(\d+))?", name)
    plain = re.fullmatch(r"([^:]*):(\d+)", name)
    if bracketed:
        name, port = bracketed[1], bracketed[2] and int(bracketed[2])
    elif plain:
        name, port = plain[1], int(plain[2])
    try:
        network = ipaddress.ip_network(name, strict=False)
    except ValueError:
        name = name if name == "*" else name.removeprefix("*").lstrip(".")
        return Exemption(name, None, port or None)
    return Exemption(name, network, port or None)
