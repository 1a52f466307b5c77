"""The floor of a server of flows: a bare relay from a request to a model and back.

Sockets, httptools and msgspec as in heddle, and nothing else: no engine, no events kept,
nothing of what `bare` leaves out. It reads the same request, asks the same model the same
question, decodes the answer and writes the same answer; where a stream is asked for, each
piece of the model's as one event.
"""

import socket
import sys
from typing import Any, Final

import httptools
import msgspec
import trio

from bench.bare import Bare, receive, serve

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode

_HEAD: Final = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: relay\r\n"
    b"Accept: application/json, text/event-stream\r\nAccept-Encoding: identity\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
)
_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class _Upstream:
    """A kept connection to the model."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.parser = httptools.HttpResponseParser(self)
        self.pieces: list[bytes] = []
        self.complete = False

    def on_body(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def on_header(self, name: bytes, value: bytes) -> None:
        pass

    def on_message_complete(self) -> None:
        self.complete = True

    def ask(self, messages: list[dict[str, str]], *, stream: bool) -> None:
        body = _encode({"model": "stub", "messages": messages, "stream": stream})
        self.sock.send(_HEAD % (self.port, len(body), body))

    async def more(self) -> bytes:
        self.parser.feed_data(await receive(self.sock))
        data = b"".join(self.pieces)
        self.pieces.clear()
        return data


class _Client(Bare):
    """One connection of a caller."""

    def __init__(self, sock: socket.socket, port: int, idle: list[_Upstream]) -> None:
        super().__init__(sock)
        self.port = port
        self.idle = idle

    async def answer(self, body: bytes) -> None:
        upstream = self.idle.pop() if self.idle else _Upstream(self.port)
        stream = b"stream=true" in self.url
        await self._relay(upstream, _decode(body), stream=stream)
        upstream.complete = False
        self.idle.append(upstream)

    async def _relay(self, upstream: _Upstream, asked: Any, *, stream: bool) -> None:
        upstream.ask(
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": asked["inputs"]["question"]},
            ],
            stream=stream,
        )
        if stream:
            await self._stream(upstream)
            return
        body = b""
        while not upstream.complete:
            body += await upstream.more()
        said = _decode(body)["choices"][0]["message"]["content"]
        answer = _encode({"flow": "flow", "state": {**asked["inputs"], "answer": said}})
        self.sock.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(answer), answer)
        )

    async def _stream(self, upstream: _Upstream) -> None:
        rest, number = b"", 0
        begun = False
        while not upstream.complete:
            *events, rest = (rest + await upstream.more()).split(b"\n\n")
            told = []
            for event in events:
                if event == b"data: [DONE]":
                    continue
                delta = _decode(event[6:])["choices"][0]["delta"]
                number += 1
                text = _encode({"type": "token", "text": delta.get("content", "")})
                told.append(b"id: %d\nevent: token\ndata: %b\n\n" % (number, text))
            data = b"".join(told)
            if data:
                piece = b"%x\r\n%b\r\n" % (len(data), data)
                self.sock.send(piece if begun else _STREAM + piece)
                begun = True
        self.sock.send(b"0\r\n\r\n")


async def _serve(model: int) -> None:
    idle: list[_Upstream] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, lambda sock: _Client(sock, model, idle))
        await trio.lowlevel.wait_readable(0)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(_serve, int(sys.argv[1]))
