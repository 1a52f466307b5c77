"""A server made of bytes: each request is answered by the next script, then cut or kept."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio
from trio.testing import wait_all_tasks_blocked
from trio_websocket import ConnectionClosed

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nHeddle-Run: r1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"


def frame(number: int, event: str) -> bytes:
    """An event of a stream."""
    return chunk(f"id: {number}\nevent: x\ndata: {event}\n\n".encode())


def chunk(data: bytes) -> bytes:
    """A piece of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def lagged(first: int, last: int) -> bytes:
    """Events that were not sent."""
    data = f'{{"type":"lagged","missed":[{first},{last}]}}'
    return chunk(f"event: lagged\ndata: {data}\n\n".encode())


def tokens(first: int, last: int) -> bytes:
    """Events that are pieces of text: their own numbers."""
    return b"".join(
        frame(n, f'{{"type":"token_delta","nodeName":"a","delta":"{n}"}}')
        for n in range(first, last + 1)
    )


def complete(number: int) -> bytes:
    """The last event of a run that ended well, and the end of the answer."""
    return frame(number, '{"type":"flow_complete","state":{"n":1}}') + END


def answer(status: int, body: str, *headers: str) -> bytes:
    """A whole answer."""
    lines = [
        f"HTTP/1.1 {status} Nope",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


class ByteServer:
    """What was asked, head by head."""

    def __init__(self, scripts: Sequence[bytes]) -> None:
        self.heads: list[str] = []
        self.url = ""
        self._scripts = list(scripts)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer requests; an answer that was not written to its end is cut."""
        script = END
        while script.endswith(END) or b"Content-Length" in script:
            head = b""
            while b"\r\n\r\n" not in head:
                data = await stream.receive_some(65536)
                if not data:
                    return
                head += data
            self.heads.append(head.decode())
            script = self._scripts.pop(0)
            await stream.send_all(script)
        await stream.aclose()

    def asked(self) -> list[str]:
        """Request lines, with the event behind which they go on."""
        found = []
        for head in self.heads:
            line, *rest = head.split("\r\n")
            behind = [each[15:] for each in rest if each.startswith("Last-Event-ID: ")]
            found.append(" ".join([*line.split(" ")[:2], *behind]))
        return found


@asynccontextmanager
async def scripted(*scripts: bytes) -> AsyncIterator[ByteServer]:
    """A server that answers as many requests as there are scripts."""
    server = ByteServer(scripts)
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, server.serve, 0, host="127.0.0.1")
        [listener] = await nursery.start(serve)
        server.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        yield server
        nursery.cancel_scope.cancel()


class FakeSocket:
    """A WebSocket that says these, and is closed then."""

    def __init__(self, said: list[bytes]) -> None:
        self._said = said
        self.sent: list[str] = []

    async def send_message(self, message: str) -> None:
        """Goes nowhere."""
        await trio.lowlevel.checkpoint()
        self.sent.append(message)

    async def get_message(self) -> str | bytes:
        """The next one, once everybody waits."""
        await wait_all_tasks_blocked()
        if not self._said:
            raise ConnectionClosed(None)
        said = self._said.pop(0)
        try:
            return said.decode()
        except UnicodeDecodeError:
            return said
