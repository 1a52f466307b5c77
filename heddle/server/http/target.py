"""What a request is for: the target of its first line, decoded once and safely.

    /v1/runs/a%20b?stream=true   ->  path "/v1/runs/a b", query stream=true
    *                            ->  path "*" (OPTIONS alone)
    http://host/v1/runs          ->  path "/v1/runs", authority "host"

A path that could mean something else to the next reader is refused rather than cleaned
up: dot segments, backslashes, slashes and control characters in disguise.
"""

import re
from typing import Final

from heddle.server.http.fields import Fields
from heddle.server.http.refusals import Refusal

# RFC 3986: the characters of a path and a query, and what may stand for a byte.
_PATH: Final = re.compile(rb"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)+")
_QUERY: Final = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
# Browsers leave these in a query as they are typed, and nobody reads them differently.
_ALSO_IN_QUERY: Final = bytes.maketrans(b'"<>[\\]^`{|}', b"-----------")
_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_ABSOLUTE: Final = re.compile(rb"(https?)://([^/?#@]+)(|[/?].*)", re.IGNORECASE)
AUTHORITY: Final = re.compile(
    rb"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::[0-9]{0,5})?"
    rb"|\[[0-9A-Fa-f:.]+\](?::[0-9]{0,5})?"
)
"""What a Host header may be, which may be empty."""

_DEFAULT_PORT: Final = {b"http": b":80", b"https": b":443"}


class Target:
    """A request's target.

    ``authority`` is that of an absolute target, in lower case and without the port that
    goes without saying; None of any other.
    """

    __slots__ = ("authority", "path", "query", "scheme")

    def __init__(
        self,
        path: str,
        query: Fields,
        authority: bytes | None = None,
        scheme: bytes = b"http",
    ) -> None:
        self.path = path
        self.query = query
        self.authority = authority
        self.scheme = scheme

    def agrees_with(self, host: bytes) -> bool:
        """Whether a Host header names the same server as an absolute target does."""
        return self.authority is None or self.authority == _plain(host, self.scheme)


def read_target(raw: bytes, *, options: bool) -> Target:
    """Read a request's target.

    Args:
        raw: The second word of the request line: visible ASCII.
        options: Whether the method is OPTIONS, which may be about the whole server.

    Raises:
        Refusal: It is none, or its path is not unambiguous; 400.
    """
    if raw == b"*" and options:
        return Target("*", Fields())
    if raw.startswith(b"/"):
        return Target(*_path_and_query(raw))
    absolute = _ABSOLUTE.fullmatch(raw)
    if absolute is None:
        raise Refusal(400, "the request's target is neither a path nor a URL")
    scheme, authority, rest = absolute.groups()
    scheme = scheme.lower()
    if not AUTHORITY.fullmatch(authority):
        raise Refusal(400, "the request's target has no valid host")
    if not rest.startswith(b"/"):
        rest = b"/" + rest
    path, query = _path_and_query(rest)
    return Target(path, query, _plain(authority, scheme), scheme)


def _path_and_query(raw: bytes) -> tuple[str, Fields]:
    path, _, query = raw.partition(b"?")
    return _read_path(path), _read_query(query)


def _read_path(raw: bytes) -> str:
    if not _PATH.fullmatch(raw):
        raise Refusal(400, "the path has characters that a URL must escape")
    if b"%2f" in raw.lower():
        raise Refusal(400, "the path has an escaped slash")
    path = _text(raw, "the path")
    if _FORBIDDEN.search(path):
        raise Refusal(400, "the path has a control character or a backslash")
    if any(segment in {".", ".."} for segment in path.split("/")):
        raise Refusal(400, "the path has a '.' or '..' segment")
    return path


def _read_query(raw: bytes) -> Fields:
    if not raw:
        return Fields()
    if not _QUERY.fullmatch(raw.translate(_ALSO_IN_QUERY)):
        raise Refusal(400, "the query has characters that a URL must escape")
    pairs = []
    for part in raw.replace(b"+", b" ").split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((_text(name, "the query"), _text(value, "the query")))
    return Fields(tuple(pairs))


def _text(raw: bytes, what: str) -> str:
    """Escapes undone, once, as UTF-8."""
    if b"%" in raw:
        raw = _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), raw)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Refusal(400, f"{what} is not UTF-8") from error


def _plain(authority: bytes, scheme: bytes) -> bytes:
    """An authority as two of them can be compared."""
    lower = authority.lower()
    return lower.removesuffix(_DEFAULT_PORT[scheme]).removesuffix(b":")
