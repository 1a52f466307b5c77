"""URLs of requests: where one points, how its path is written, what an allow list covers.

    origin_of_url("HTTPS://Host./a")            ->  ("https", "host", 443)
    normal_path("/a/%7Eb/../c d")               ->  "/a/c%20d"
    allowed_entry("https://host/v1/").covers(("https", "host", 443), "/v1/x")   ->  True

What is sent is what was held against the allow list: the path with its dot segments
resolved, in one spelling.
"""

import re
from typing import Final, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from heddle.hosts import DEFAULT_PORTS, ascii_host, authority

Origin: TypeAlias = tuple[str, str, int]
"""Scheme, host and port."""

USERINFO: Final = "it has a user or a password in it"

NO_HOST: Final = re.compile(r"[\s/?#@\\\"<>^`{|}\x00-\x1f\x7f]")
"""What ends a host, or is in none."""

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_ENCODED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)
# What stands for itself in a path or a query; a percent sign was looked at before.
_SAFE_PATH: Final = "/%:@!$&'()*+,;=~"
_SAFE_QUERY: Final = _SAFE_PATH + "?"
# A path that is still encoded after this many decodings is a trick.
_DECODINGS: Final = 8


class Allowed(Struct, frozen=True):
    """An entry of an allow list: where it points, and what its paths begin with."""

    origin: Origin
    path: str
    decoded: str

    def covers(self, origin: Origin, path: str) -> bool:
        """Whether a request goes to where this points, however its path is read."""
        return (
            origin == self.origin
            and path.startswith(self.path)
            and decoded_path(path).startswith(self.decoded)
        )


def origin_of_url(url: str) -> Origin:
    """Scheme, host and port.

    Raises:
        ValueError: It is no HTTP URL; the text says why, and quotes nothing of it.
    """
    if CONTROL.search(url):
        raise ValueError("it has a control character in it")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("its host or port cannot be read") from None
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f"its scheme is {scheme!r}" if scheme else "it has no scheme")
    if "@" in parts.netloc:
        raise ValueError(f"{USERINFO}; secrets belong into 'sensitive_headers'")
    host = parts.hostname
    if not host:
        raise ValueError("it has no host")
    host = ascii_host(host)
    if NO_HOST.search(host) or "%" in host or len(host) > 255:
        raise ValueError("its host name has characters that no host has")
    port = DEFAULT_PORTS[scheme] if port is None else port
    return scheme, host.rstrip(".").lower(), port


def written_origin(origin: Origin) -> str:
    """An origin as a person writes it, without the port that goes without saying."""
    scheme, host, port = origin
    return f"{scheme}://{authority(scheme, host, port)}"


def normal_path(path: str) -> str:
    """The path that is sent: encoded in one way, without dot segments."""
    return resolve_dots(_safe(path, _SAFE_PATH))


def decoded_path(path: str) -> str:
    """The path as a server reads it that decodes again and again."""
    for _ in range(_DECODINGS):
        decoded = unquote(path)
        if decoded == path:
            break
        path = decoded
    return resolve_dots(path.replace("\\", "/"))


def resolve_dots(path: str) -> str:
    """A path without ``.`` and ``..``, from the root on (RFC 3986, 5.2.4)."""
    steps: list[str] = []
    parts = path.split("/")
    for step in parts[1:] if path.startswith("/") else parts:
        if step == "..":
            del steps[-1:]
        elif step != ".":
            steps.append(step)
    if parts[-1] in (".", "..") or not steps:
        steps.append("")
    return "/" + "/".join(steps)


def safe_query(query: str) -> str:
    """The query that is sent: encoded in one way."""
    return _safe(query, _SAFE_QUERY)


def allowed_entry(entry: str) -> Allowed | None:
    """An entry of an allow list as it is written; None when it is no HTTP URL."""
    if "{{" in entry:
        return None
    try:
        origin = origin_of_url(entry)
    except ValueError:
        return None
    path = normal_path(urlsplit(entry).path)
    return Allowed(origin, path, decoded_path(path))


def _safe(text: str, safe: str) -> str:
    """The text as it may stand in a URL; what is encoded in it stays, in one spelling."""

    def one(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        return character if character in _UNRESERVED else match[0].upper()

    plain = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text)
    return quote(_ENCODED.sub(one, plain), safe=safe)
