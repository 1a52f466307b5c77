"""A server that is put under load by its URL: where it is, and what it offers.

Its port is spoken to by the load itself, so it is plain HTTP. Only servers of this machine
are driven, unless somebody says that the other one is theirs to put under load.
"""

import http.client
import ipaddress
import json
import re
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from bench.place import Place

PATIENCE: Final = 30.0
"""Seconds for one answer."""
_SHOWN: Final = 300
_FIX: Final = "Write it like http://127.0.0.1:4319."


class TargetError(Exception):
    """The server can't be driven: says why, and what to do."""


class Answered(Struct, frozen=True):
    """What came back of one request."""

    status: int
    kind: str
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether it is a success, whichever."""
        return 200 <= self.status < 300

    @property
    def json(self) -> Any:
        """The body decoded; None when it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def told(self) -> str:
        """Status and message, for people; no full stop behind."""
        found = self.json
        error = found.get("error") if isinstance(found, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        text = message if isinstance(message, str) else self.body.decode(errors="replace")
        return f"{self.status}: {' '.join(text.split())[:_SHOWN].rstrip('.')}"


class Target:
    """A server, by its place."""

    def __init__(self, place: Place, *, near: bool) -> None:
        self.place = place
        self.near = near
        """Whether it is on this machine."""

    def ask(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        patience: float = PATIENCE,
    ) -> Answered:
        """One request over a connection of its own.

        Raises:
            TargetError: There is no answer.
        """
        place = self.place
        headers = {"Host": place.host, "Accept": "*/*"}
        if place.token:
            headers["Authorization"] = f"Bearer {place.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(place.address, place.port, patience)
        try:
            connection.request(method, place.prefix + path, body, headers)
            response = connection.getresponse()
            kind = response.headers.get_content_type()
            return Answered(response.status, kind, response.read())
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise TargetError(
                f"{place.host} does not answer {method} {path}: {why}"
            ) from None
        finally:
            connection.close()

    def counted(self) -> Mapping[str, float]:
        """The numbers of ``/metrics`` without labels; none where it has no such page."""
        answered = self.ask("GET", "/metrics")
        if not answered.ok:
            return {}
        found = _COUNTED.findall(answered.body.decode(errors="replace"))
        return {name: float(value) for name, value in found}


_COUNTED: Final = re.compile(r"^([a-z_]+) ([0-9.eE+-]+)\s*$", re.MULTILINE)


def target(url: str, token: str = "", *, remote: bool = False) -> Target:
    """The server at a URL.

    Args:
        url: http://host:port, with a path where it is behind a proxy.
        token: What it wants to be shown; "" for nothing.
        remote: Whether it may be on another machine.

    Raises:
        TargetError: It is no such URL, or not to be driven.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise TargetError(f"--url {url!r} is no URL: {error}. {_FIX}") from None
    if parts.scheme == "https":
        raise TargetError(
            "--url: the load speaks plain HTTP; TLS would be measured with it. Name the"
            " port that the server itself listens on."
        )
    if parts.scheme != "http" or not host or parts.query or parts.fragment:
        raise TargetError(f"--url {url!r} is no URL of a server. {_FIX}")
    if parts.username is not None:
        raise TargetError("--url has a user in it: pass a token with --token")
    if not token.isprintable() or " " in token:
        raise TargetError("--token has characters that no token has")
    address = _address(host, port or 80, remote=remote)
    place = Place(port or 80, address, parts.netloc, parts.path.rstrip("/"), token)
    return Target(place, near=_is_near(address))


def _address(host: str, port: int, *, remote: bool) -> str:
    """The first address of a host that somebody listens at: what is checked is what is
    connected to afterwards, whatever the name means then.

    Raises:
        TargetError: There is none, or one of another machine that may not be driven.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise TargetError(f"--url: {host} has no address: {error}") from None
    why = ""
    for *_, (address, *_) in found:
        address = str(address)
        if not (remote or _is_near(address)):
            raise TargetError(
                f"--url: {host} is {address}, which is not this machine: a load is for"
                " servers that are yours to put under one. Say so with --allow-remote."
            )
        try:
            socket.create_connection((address, port), PATIENCE).close()
        except OSError as error:
            why = error.strerror or str(error)
            continue
        return address
    raise TargetError(f"--url: nobody answers at {host}:{port}: {why}")


def _is_near(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
