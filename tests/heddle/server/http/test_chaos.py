"""Clients and handlers that do anything at any time, and a server that stands it."""

import socket
import struct
from contextlib import suppress
from random import Random

import pytest
import trio
from trio.abc import Stream

from heddle.server.http import (
    Answer,
    Limits,
    Refusal,
    Request,
    Response,
    StreamedResponse,
    Upgrade,
    Writer,
)
from tests.heddle.server.http.support import GET, HOST, post, serving, until

LIMITS = Limits(
    header_timeout=0.3,
    idle_timeout=0.4,
    body_timeout=0.3,
    write_timeout=0.3,
    linger_timeout=0.1,
    transfer_rate=1_000_000,
    connections=60,
)


class Deliberate(Exception):
    """What a handler raises because it was told to."""


class Handler:
    """Does what its dice say."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.running = 0
        self.calm = False

    async def __call__(self, request: Request) -> Answer:
        self.running += 1
        try:
            return await self.answer(request)
        finally:
            self.running -= 1

    async def answer(self, request: Request) -> Answer:
        dice = self.dice
        if self.calm:
            return Response(200, (), b"calm")
        if dice.random() < 0.5:
            await request.read()
        if dice.random() < 0.3:
            await trio.sleep(dice.random() * 0.05)
        match dice.randrange(8):
            case 0:
                raise Deliberate
            case 1:
                raise Refusal(429, "too many")
            case 2 | 3:
                return StreamedResponse(200, (), self.write)
            case 4 if request.upgrade:
                return Upgrade(self.talk)
            case 5:
                return Response(200, (), b"x" * dice.randrange(3_000_000))
            case _:
                return Response(dice.choice((200, 204, 404)))

    async def write(self, writer: Writer) -> None:
        dice = self.dice
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, dice.random() * 0.02)
            for _ in range(dice.randrange(30)):
                await writer.write(b"x" * dice.randrange(100_000))
                if dice.random() < 0.02:
                    raise Deliberate

    async def talk(self, stream: Stream) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"x" * self.dice.randrange(1_000_000))
            nursery.start_soon(stream.send_all, b"y" * self.dice.randrange(1000))
            await stream.receive_some(self.dice.randrange(1, 100))


SENT = [
    *(GET, GET * 5, GET[:20], post(b"body"), post(b"x" * 200_000), post(b"x" * 500)[:-9]),
    b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"Connection: upgrade\r\nUpgrade: x\r\n\r\n",
    b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    *(b"nonsense\r\n\r\n", b"\x00", b"a" * 20_000),
]


async def misbehave(port: int, dice: Random) -> None:
    """One client."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with suppress(trio.BrokenResourceError):
            for _ in range(dice.randrange(6)):
                match dice.randrange(5):
                    case 0:
                        await trio.sleep(dice.random() * 0.1)
                    case 1:
                        with trio.move_on_after(dice.random() * 0.05):
                            await stream.receive_some(dice.randrange(1, 100_000))
                    case 2 if dice.random() < 0.2:
                        await stream.send_eof()
                        break
                    case _:
                        with trio.move_on_after(0.05):
                            await stream.send_all(dice.choice(SENT))
            if dice.random() < 0.3:
                with trio.move_on_after(0.5):
                    while await stream.receive_some():
                        pass
        if dice.random() < 0.4:
            linger = struct.pack("ii", 1, 0)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]


@pytest.mark.parametrize("seed", range(3))
async def test_a_server_stands_everything_and_is_as_new_afterwards(seed: int) -> None:
    dice = Random(seed)
    handler = Handler(dice)
    async with serving(handler, limits=LIMITS, crashes=True) as served:
        with trio.move_on_after(1.2):
            while True:
                async with trio.open_nursery() as nursery:
                    for _ in range(70):
                        nursery.start_soon(misbehave, served.port, dice)
        await until(lambda: served.server.connections == 0)
        assert handler.running == 0
        assert served.server.keeps_alive
        crashes = [leaf for error in served.report.crashes for leaf in leaves(error)]
        unexpected = [
            leaf
            for leaf in crashes
            # What a handler reads from its own upgraded stream is its own business.
            if not isinstance(leaf, Deliberate | trio.BrokenResourceError)
        ]
        assert unexpected == []
        assert crashes
        assert served.report.refusals
        handler.calm = True
        async with served.connect() as peer:
            for _ in range(3):
                await peer.send(GET)
                assert (await peer.answer()).body == b"calm"
