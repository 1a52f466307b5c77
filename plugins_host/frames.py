"""JSON Lines frames: bytes in, typed frames out, with no I/O in sight.

A frame is one JSON object on one line, UTF-8. Which keys it carries says what it is:

    {"id", "method", "params"}   a request
    {"id", "partial"}            progress on a call still open
    {"id", "error"}              a refusal
    {"id", "result"}             an answer; one without a result answers null

People print on stdout too, and plugins have bugs, so a line is one of four things:

    a frame        as above
    `Stray`        it does not begin with "{": somebody printed; it belongs in a log
    `Unreadable`   it names its call, and what it carries cannot be used (NaN, nesting
                   without end, text that is not UTF-8, too long): that one call fails
    `Broken`       it begins like a frame and is none: nothing after it can be trusted

`FrameReader` cuts bytes into lines, wherever they were cut before, and decodes all that
have arrived in one pass. Escapes of half a surrogate pair (a text cut inside an emoji)
become U+FFFD, as they could not be written down again.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct

from plugins_host.faults import Fault

# A model answer with long documents in it fits many times over. Bounds the memory that
# one misbehaving process can cost the host.
MAX_LINE: Final = 64 * 1024 * 1024

# How much of a broken line an error may quote.
MAX_QUOTE: Final = 200

# Looking for the id of a line that failed once already is worth this much work.
_MAX_SALVAGE: Final = 8 * 1024 * 1024

# Where a line that is too long to be kept is searched for its id.
_PREFIX: Final = 256

Id: TypeAlias = int | float | str


class FrameError(Fault):
    """A plugin wrote a line that begins like a frame and is none.

    Attributes:
        quote: The beginning of the line, at most `MAX_QUOTE` characters.
    """

    def __init__(self, what: str, *, where: str = "", quote: str = "") -> None:
        shown = f"{what}: {quote!r}" if quote else what
        super().__init__(
            shown,
            where=where,
            fix="stdout carries the protocol; write logs to stderr.",
        )
        self.quote = quote


class Request(Struct, frozen=True):
    """The other side asks for something. ``params`` is a JSON text, ``{}`` when absent."""

    id: Id
    method: str
    params: Raw


class Answer(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What came of a request, as a JSON text."""

    id: Id
    result: Raw


class Refusal(Struct, frozen=True):
    """Why nothing came of a request; the last three as they were written, unchecked."""

    id: Id
    name: str
    message: str
    status: Any = None
    retry_after_ms: Any = None
    retryable: Any = None


class Progress(Struct, frozen=True):
    """A call is alive; ``partial`` is a JSON text."""

    id: Id
    partial: Raw


class Stray(Struct, frozen=True):
    """A line that somebody printed."""

    text: str


class Unreadable(Struct, frozen=True):
    """A frame of a known call whose content is of no use. ``request`` when it asks."""

    id: Id
    why: str
    request: bool = False


class Broken(Struct, frozen=True):
    """The channel cannot be trusted from here on."""

    why: str
    quote: str

    def error(self, *, where: str) -> FrameError:
        """The same as an exception of its own."""
        return FrameError(self.why, where=where, quote=self.quote)


Frame: TypeAlias = Request | Answer | Refusal | Progress
Arrival: TypeAlias = Frame | Stray | Unreadable | Broken


class _Line(Struct, frozen=True, gc=False):
    """Any frame; an absent member is an empty `Raw`."""

    id: Id | None = None
    method: str | None = None
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()
    partial: Raw = Raw()


class _Error(Struct, frozen=True, rename="camel"):
    name: Any = None
    message: Any = None
    status: Any = None
    retry_after_ms: Any = None
    retryable: Any = None


_LINE: Final = msgspec.json.Decoder(_Line)
_ANSWER: Final = msgspec.json.Decoder(Answer)
_ERROR: Final = msgspec.json.Decoder(_Error)
_ANY: Final = msgspec.json.Decoder()
_ENCODE: Final = msgspec.json.Encoder().encode
_NULL: Final = Raw(b"null")
_NO_PARAMS: Final = Raw(b"{}")
_BROKEN: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

# Every escape of a JSON string, one match each, so that the second backslash of an
# escaped backslash never begins another. Groups 1 and 2: a high half and its low half.
_ESCAPES: Final = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?"
    rb"|u([dD][c-fC-F][0-9a-fA-F]{2})|.)"
)
_ID_FIRST: Final = re.compile(rb'\{\s*"id"\s*:\s*(-?\d+|"[^"\\]*")\s*[,}]')


def request(id: Id, method: str, params: bytes = b"{}") -> bytes:  # noqa: A002
    """The line of a request; ``params`` is a JSON text and is spliced as it is."""
    return b'{"id":%b,"method":%b,"params":%b}\n' % (_ENCODE(id), _ENCODE(method), params)


def answer(id: Id, result: bytes = b"{}") -> bytes:  # noqa: A002
    """The line of an answer; ``result`` is a JSON text and is spliced as it is."""
    return b'{"id":%b,"result":%b}\n' % (_ENCODE(id), result)


NOTHING_MORE: Final[Mapping[str, Any]] = {}


def refusal(
    id: Id,  # noqa: A002
    name: str,
    message: str,
    about: Mapping[str, Any] = NOTHING_MORE,
) -> bytes:
    """The line of a refusal; ``about`` is what else there is to say, by its word."""
    try:
        error = _ENCODE({"name": name, "message": message, **about})
    except UnicodeEncodeError:
        # Half a surrogate pair: messages quote file names and whatever programs print.
        name, message = (t.encode(errors="replace").decode() for t in (name, message))
        return refusal(id, name, message, about)
    return b'{"id":%b,"error":%b}\n' % (_ENCODE(id), error)


def progress(id: Id, partial: bytes) -> bytes:  # noqa: A002
    """The line of a progress frame; ``partial`` is a JSON text, spliced as it is."""
    return b'{"id":%b,"partial":%b}\n' % (_ENCODE(id), partial)


def decode(line: bytes, *, where: str) -> Frame:
    """Read one line that should be a frame.

    Raises:
        FrameError: It is none, for whatever reason.
    """
    arrival = _read_line(line)
    match arrival:
        case Request() | Answer() | Refusal() | Progress():
            return arrival
        case Broken():
            raise arrival.error(where=where)
        case Unreadable(why=why):
            raise FrameError(why, where=where, quote=_quote(line))
        case Stray():
            raise FrameError(
                "the line does not begin with {", where=where, quote=_quote(line)
            )


class FrameReader:
    """Cuts a stream of bytes into lines and reads them, all that are complete at once.

    How the bytes are cut changes nothing about what is read. After a `Broken` nothing
    more is: `broken` is true, and the rest of the stream is ignored.
    """

    def __init__(self, *, limit: int = MAX_LINE) -> None:
        self.broken = False
        self._limit = limit
        self._open: list[bytes] = []  # the pieces of a line whose end has not arrived
        self._held = 0  # their length in bytes
        self._skipped = 0  # the length so far of a line that is too long
        self._head = b""  # its beginning

    def feed(self, chunk: bytes) -> list[Arrival]:
        """Take the next bytes of the stream; what they completed, in order."""
        if self.broken:
            return []
        end = chunk.rfind(b"\n") + 1
        if end == len(chunk) and not self._open and not self._skipped:
            return self._until_broken(_read_lines(chunk, self._limit))
        if not end:
            return self._keep(chunk)
        arrivals: list[Arrival] = []
        if self._skipped:
            start = chunk.index(b"\n") + 1
            arrivals += self._skip(start - 1)
            self._skipped = 0
            lines = chunk[start:end]
        elif self._open:
            self._open.append(chunk[:end])
            lines = b"".join(self._open)
            self._open.clear()
            self._held = 0
        else:
            lines = chunk[:end]
        if lines and not self.broken:
            arrivals += self._until_broken(_read_lines(lines, self._limit))
        if end < len(chunk) and not self.broken:
            arrivals += self._keep(chunk[end:])
        return arrivals

    def end(self) -> list[Arrival]:
        """The stream has ended: a last line needs no line break to count."""
        return self.feed(b"\n") if self._open else []

    def _keep(self, piece: bytes) -> list[Arrival]:
        """Hold on to the beginning of a line, unless it gets too long to be one."""
        if self._skipped:
            return self._skip(len(piece))
        self._open.append(piece)
        self._held += len(piece)
        if self._held <= self._limit:
            return []
        self._head = b"".join(self._open)[: self._limit]
        self._open.clear()
        self._skipped, self._held = self._held, 0
        return self._until_broken(_too_long(self._head, self._skipped, self._limit))

    def _skip(self, length: int) -> list[Arrival]:
        """More of a line that was given up. Without end, it is no line."""
        self._skipped += length
        if self._skipped <= 2 * self._limit:
            return []
        return self._until_broken([_endless(self._head, self._limit)])

    def _until_broken(self, arrivals: Iterable[Arrival]) -> list[Arrival]:
        kept: list[Arrival] = []
        for arrival in arrivals:
            kept.append(arrival)
            if type(arrival) is Broken:
                self.broken = True
                self._open.clear()
                break
        return kept


def _read_lines(lines: bytes, limit: int) -> Sequence[Arrival]:
    """Read whole lines; ``lines`` ends with a line break."""
    count = _count_frames(lines)
    # The short way holds for frames alone: each line yields exactly one object. Anything
    # else, a value over two lines among it, is read line by line below.
    if count and len(lines) <= limit and (lines.isascii() or _is_utf8(lines)):
        # Most streams are answers and nothing else, which need no second look.
        try:
            answers: Sequence[Arrival] = _ANSWER.decode_lines(lines)
        except _BROKEN:
            answers = []
        if len(answers) == count:
            return answers
        try:
            read = _LINE.decode_lines(lines)
        except _BROKEN:
            read = []
        # One without an id is told of as it was written, which is not known here.
        if len(read) == count and all(line.id is not None for line in read):
            return [_classify(line, lines) for line in read]
    arrivals: list[Arrival] = []
    for line in lines[:-1].split(b"\n"):
        if len(line) > limit:
            arrivals += _too_long(line[:limit], len(line), limit)
        elif line.strip():
            arrivals.append(_read_line(line))
    return arrivals


def _count_frames(lines: bytes) -> int:
    """How many lines there are when each begins like a frame, else 0."""
    count = lines.count(b"\n")
    begun = lines.startswith(b"{") + lines.count(b"\n{")
    return count if begun == count else 0


def _read_line(line: bytes) -> Arrival:
    if not line.startswith(b"{"):
        return Stray(line.decode(errors="replace").rstrip("\r\n"))
    line = _ESCAPES.sub(_mend, line)
    if not line.isascii() and not _is_utf8(line):
        return _salvage(line, "a frame is not UTF-8")
    try:
        read = _LINE.decode(line)
    except RecursionError:
        return _salvage(line, "a frame is nested too deeply")
    except msgspec.ValidationError as error:
        return Broken(f"a line of JSON is no frame ({error})", _quote(line))
    except _BROKEN:
        return _salvage(line, "a frame is not valid JSON")
    return _classify(read, line)


def _classify(line: _Line, text: bytes) -> Arrival:
    if line.id is not None:
        if line.method is not None:
            return Request(line.id, line.method, line.params or _NO_PARAMS)
        if line.result and not line.error:
            return Answer(line.id, line.result)
        if line.partial:
            return Progress(line.id, line.partial)
        if line.error and not (bytes(line.error) == b"null" and line.result):
            return _read_refusal(line.id, line.error)
        return Answer(line.id, line.result or _NULL)
    return Broken("a line of JSON is no frame (it has no id)", _quote(text))


def _read_refusal(call: Id, raw: Raw) -> Arrival:
    """Plugins by hand write errors in many ways; each is told as well as it can be."""
    try:
        error = _ERROR.decode(raw)
    except _BROKEN:
        error = _Error(message=_bare_text(raw))
    name = error.name if isinstance(error.name, str) and error.name else "Error"
    message = error.message if isinstance(error.message, str) else _quote(bytes(raw))
    return Refusal(call, name, message, error.status, error.retry_after_ms, error.retryable)


def _bare_text(raw: Raw) -> str | None:
    try:
        text = _ANY.decode(raw)
    except _BROKEN:
        return None
    return text if isinstance(text, str) else None


def _salvage(line: bytes, why: str) -> Arrival:
    """What can still be said of a line that begins like a frame and cannot be read.

    Python's own reader is laxer than JSON: it takes NaN. What it can read is a frame
    whose end is known, so that the call it belongs to is the only one hurt.
    """
    try:
        read = (
            json.loads(line.decode(errors="replace")) if len(line) < _MAX_SALVAGE else None
        )
    except RecursionError:
        read = {"id": _id_first(line), "result": None}
    except ValueError:
        read = None
    if isinstance(read, dict) and isinstance(read.get("id"), int | float | str):
        return Unreadable(read["id"], why, isinstance(read.get("method"), str))
    return Broken(why, _quote(line))


def _id_first(line: bytes) -> Id | None:
    """The id that a line begins with; None when it begins otherwise, or with no JSON."""
    named = _ID_FIRST.match(line)
    if named is None:
        return None
    try:
        return cast("Id", _ANY.decode(named[1]))
    except _BROKEN:
        return None


def _too_long(head: bytes, length: int, limit: int) -> list[Arrival]:
    """A line over the limit costs its call, where it says which, and else the channel."""
    named = _id_first(head[:_PREFIX])
    if named is None:
        return [_endless(head, limit)]
    why = f"a frame is longer than {limit} bytes"
    arrivals: list[Arrival] = [Unreadable(named, why)]
    if length > 2 * limit:
        arrivals.append(_endless(head, limit))
    return arrivals


def _endless(head: bytes, limit: int) -> Broken:
    return Broken(f"a line is longer than {limit} bytes", _quote(head))


def _mend(escape: re.Match[bytes]) -> bytes:
    """Keep an escape, unless it is one half of a surrogate pair alone."""
    high, low, alone = escape.groups()
    lonely = alone is not None or (high is not None and low is None)
    return rb"\ufffd" if lonely else escape[0]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _quote(line: bytes) -> str:
    """The beginning of a line for an error, without its line break."""
    text = line[: 4 * MAX_QUOTE].decode(errors="replace").rstrip("\r\n")
    return text if len(text) <= MAX_QUOTE else f"{text[: MAX_QUOTE - 1]}…"
