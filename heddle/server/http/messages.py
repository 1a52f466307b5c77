"""What a handler is given and what it answers.

    async def handler(request: Request) -> Answer:
        body = await request.read()
        return Response(200, JSON, body)

    Response          all of it at once
    StreamedResponse  a head, and a function that writes the body piece by piece
    Upgrade           the connection itself, for another protocol

The front writes Date, Server, Connection, Content-Length and Transfer-Encoding; a
handler that names one of them is a bug of ours, and so is a header with a line end in it.
"""

from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from os import register_at_fork, urandom
from typing import Final, Protocol, TypeAlias

from msgspec import Struct
from trio.abc import Stream

from heddle.server.http.body import Body
from heddle.server.http.fields import Fields, Headers
from heddle.server.http.head import Head
from heddle.server.own_scope import OwnScope

HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]

JSON: Final[HeaderPairs] = (("Content-Type", "application/json"),)

# Ids that clients send are written to logs and events as they are.
_LONGEST_ID: Final = 128
_ID_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+=@"
)
_boot = urandom(6).hex()
_numbers: Final = count(1)


def _boot_again() -> None:
    """Processes that are forked from one must not give out the same ids."""
    global _boot
    _boot = urandom(6).hex()


register_at_fork(after_in_child=_boot_again)


class Request(Struct):
    """A request whose head has arrived. Its body is read on demand.

    ``scope`` is what its handler runs in, for the handler to use as its own: it may be
    cancelled, by the handler's doing, and the answer still be sent, once the handler has
    ended without waiting for anything more. A scope for each request costs a tenth of a
    short run. None where a handler has to open its own.
    """

    head: Head
    body: Body
    client: str
    _id: str = ""
    scope: OwnScope | None = None

    @property
    def method(self) -> str:
        """The method, as it was sent."""
        return self.head.method

    @property
    def path(self) -> str:
        """The path, decoded once; ``*`` for OPTIONS about the whole server."""
        return self.head.target.path

    @property
    def query(self) -> Fields:
        """The parameters after the ``?``, decoded."""
        return self.head.target.query

    @property
    def headers(self) -> Headers:
        """The headers."""
        return self.head.headers

    @property
    def upgrade(self) -> str | None:
        """The protocol that the client would rather speak; None if an `Upgrade` is no
        possible answer."""
        return self.head.upgrade

    @property
    def id(self) -> str:
        """The client's ``X-Request-ID`` if that is a plain word, else one of our own."""
        if not self._id:
            given = self.headers.get("x-request-id")
            if given and len(given) <= _LONGEST_ID and _ID_CHARACTERS.issuperset(given):
                self._id = given
            else:
                self._id = f"{_boot}-{next(_numbers)}"
        return self._id

    def read(self, limit: int | None = None) -> Coroutine[None, None, bytes]:
        """Read the whole body; to be awaited.

        Args:
            limit: Bytes, where fewer are wanted than the front admits.

        Raises:
            Refusal: 413 when it is longer, 400 when it is malformed. Let it pass.
        """
        return self.body.read(limit)

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.path} from {self.client}>"


class Response(Struct, frozen=True):
    """An answer that is there as a whole.

    ``close`` ends the connection after it. What HEAD, 204 and 304 must not send is left
    out by the front. ``own`` are headers of this one answer, where ``headers`` come again
    and again and are encoded once for many answers.
    """

    status: int
    headers: HeaderPairs = ()
    body: bytes = b""
    close: bool = False
    own: HeaderPairs = ()


class Writer(Protocol):
    """The writing side of a streamed answer."""

    async def write(self, data: bytes) -> None:
        """Send ``data``; back when the system has taken it.

        Everything that is waiting belongs into one call. A client that is gone cancels the
        handler, and so does one that takes nothing for too long. A task that is not below
        the handler, or is shielded, gets a `Gone` instead. A write that was cancelled half
        way is the end of the answer.
        """
        ...

    def write_last(self, data: bytes) -> None:
        """Have ``data`` sent together with what ends the body, once the handler returns."""
        ...


class StreamedResponse(Struct, frozen=True):
    """An answer whose body is written while it comes to be.

    Args:
        status: 200 and above, of those that have a body.
        headers: As of `Response`.
        write: Writes the body; when it returns the answer is complete. When it raises,
            the connection is cut, so that the client doesn't take the half for the whole.
            Not called for HEAD.
        head_first: Send the head before ``write`` is called. Without it the head travels
            with what is written first, which saves a system call and keeps the client
            waiting for both.
        own: As of `Response`.
    """

    status: int
    headers: HeaderPairs
    write: Callable[[Writer], Awaitable[None]]
    head_first: bool = True
    own: HeaderPairs = ()


class Upgrade(Struct, frozen=True):
    """The connection, for a protocol that is not HTTP. No head is sent.

    Args:
        run: Is given the stream, which replays the request's head and whatever followed
            it; the connection is closed when it returns.
    """

    run: Callable[[Stream], Awaitable[None]]


Answer: TypeAlias = Response | StreamedResponse | Upgrade
Handler: TypeAlias = Callable[[Request], Awaitable[Answer]]
