"""A service made of test code, on this machine: it answers as told, and remembers.

async with http_stub(lambda asked: Answer({"path": asked.path})) as stub:
    stub.url       http://127.0.0.1:40123
    stub.asked     what arrived, in order
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import h11
import trio
from msgspec import Struct


class Asked(Struct):
    """A request as it arrived; names of headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)


class Answer(Struct):
    """What is sent: ``body`` as JSON unless it is bytes. ``hang`` sends nothing at all,
    ``cut`` the beginning alone."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = {}
    hang: bool = False
    cut: bool = False


class Stub:
    """What a test sees of it. ``open`` is how many connections are open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.open = 0
        self.connections = 0
        self.arrived = trio.Event()


@asynccontextmanager
async def http_stub(answer: Callable[[Asked], Answer]) -> AsyncIterator[Stub]:
    """Serve until the block is left."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        stub = Stub(listeners[0].socket.getsockname()[1])

        async def serve(stream: trio.SocketStream) -> None:
            stub.open += 1
            stub.connections += 1
            try:
                async with stream:
                    await _connection(stream, stub, answer)
            except trio.BrokenResourceError:
                pass
            finally:
                stub.open -= 1

        await nursery.start(trio.serve_listeners, serve, listeners)
        yield stub
        nursery.cancel_scope.cancel()


async def _connection(
    stream: trio.SocketStream, stub: Stub, answer: Callable[[Asked], Answer]
) -> None:
    connection = h11.Connection(h11.SERVER)
    while True:
        head: h11.Request | None = None
        body = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                data = await stream.receive_some()
                connection.receive_data(data)
                continue
            if isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                break
        if head is None:
            return
        asked = Asked(
            head.method.decode(),
            head.target.decode(),
            {name.decode(): value.decode("latin-1") for name, value in head.headers},
            body,
        )
        stub.asked.append(asked)
        stub.arrived.set()
        told = answer(asked)
        if told.hang:
            while await stream.receive_some():
                pass
            return
        content = (
            told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
        )
        headers = [("content-length", str(len(content))), *told.headers.items()]
        out = connection.send(h11.Response(status_code=told.status, headers=headers)) or b""
        if asked.method != "HEAD" and content:
            out += connection.send(h11.Data(data=content)) or b""
        if told.cut:
            await stream.send_all(out[:-1])
            return
        out += connection.send(h11.EndOfMessage()) or b""
        await stream.send_all(out)
        if connection.our_state is not h11.DONE:
            return
        connection.start_next_cycle()
