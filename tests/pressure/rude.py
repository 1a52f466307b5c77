"""Clients as nobody wants them: each holds on to what it can for as long as a step lasts.

What they start is theirs alone. It ends when they are gone, and the log says so as of any
other run.
"""

import json
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

import trio

from tests.pressure.plan import Step
from tests.pressure.stage import Stage

EACH: Final = 3
"""How many of each kind there are at a time."""

Rude: TypeAlias = Callable[[trio.SocketStream, str], Awaitable[None]]


def post(path: str, body: dict[str, Any]) -> bytes:
    """A request with a body, as bytes."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def _inputs(nonce: str, **more: str) -> dict[str, str]:
    return {"nonce": nonce, "who": "Py", "does": "slow", "mode": "slow", **more}


async def half_head(stream: trio.SocketStream, _: str) -> None:
    """The beginning of a request, and no more."""
    await stream.send_all(b"POST /v1/runs HTTP/1.1\r\nHost: local")
    await trio.sleep_forever()


async def half_body(stream: trio.SocketStream, nonce: str) -> None:
    """A request that never ends."""
    whole = post("/v1/runs", {"flowPath": "straight.json", "inputs": _inputs(nonce)})
    await stream.send_all(whole[:-9])
    await trio.sleep_forever()


async def reset(stream: trio.SocketStream, nonce: str) -> None:
    """A reset while the answer comes."""
    body = {"flowPath": "agent.json", "inputs": _inputs(nonce)}
    await stream.send_all(post("/v1/runs?stream=true", body))
    await stream.receive_some(200)
    linger = struct.pack("ii", 1, 0)
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    stream.socket.close()


async def never_read(stream: trio.SocketStream, nonce: str) -> None:
    """Events that nobody takes."""
    inputs = _inputs(nonce, text="x" * 200_000)
    body = {"flowPath": "tool.json", "inputs": inputs}
    await stream.send_all(post("/v1/runs?stream=true", body))
    await trio.sleep_forever()


async def babble(stream: trio.SocketStream, nonce: str) -> None:
    """What is no HTTP."""
    await stream.send_all(b"\x16\x03\x01\x02\x00" + nonce.encode() + b"\r\n" * 50)
    while await stream.receive_some(4096):
        pass


async def pile_up(stream: trio.SocketStream, nonce: str) -> None:
    """Many requests at once, and gone before the answers are there."""
    body = {"flowPath": "straight.json", "inputs": _inputs(nonce)}
    await stream.send_all(post("/v1/runs", body) * 20)
    await stream.receive_some(10)


async def silent_socket(stream: trio.SocketStream, nonce: str) -> None:
    """A WebSocket that starts runs and reads nothing."""
    await stream.send_all(
        b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    await stream.receive_some(4096)
    inputs = _inputs(nonce, text="x" * 50_000)
    for ref in range(5):
        said = {"type": "run", "ref": str(ref), "flowPath": "tool.json", "inputs": inputs}
        await stream.send_all(masked(json.dumps(said).encode()))
    await trio.sleep_forever()


async def bad_frames(stream: trio.SocketStream, _: str) -> None:
    """A WebSocket whose frames are none."""
    await stream.send_all(
        b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n\xff\xff\xff\xff"
    )
    while await stream.receive_some(4096):
        pass


RUDE: Final[tuple[Rude, ...]] = (
    half_head,
    half_body,
    reset,
    never_read,
    babble,
    pile_up,
    silent_socket,
    bad_frames,
)


def masked(text: bytes) -> bytes:
    """A text as a client's frame; the mask is zeros."""
    length = len(text)
    if length < 126:
        head = struct.pack("!BB", 0x81, 0x80 | length)
    elif length < 1 << 16:
        head = struct.pack("!BBH", 0x81, 0x80 | 126, length)
    else:
        head = struct.pack("!BBQ", 0x81, 0x80 | 127, length)
    return head + bytes(4) + text


async def be_rude(stage: Stage, step: Step) -> str:
    """Some of each kind for as long as the step lasts."""
    with trio.move_on_after(step.seconds):
        async with trio.open_nursery() as nursery:
            for number, rude in enumerate(RUDE * EACH):
                # Those of one step have the same nonces in each campaign of its seed.
                nonce = f"nonce-rude{step.at}-{number}-z".replace(".", "")
                nursery.start_soon(_one, stage, rude, nonce)
    return f"{len(RUDE) * EACH} of {len(RUDE)} kinds"


async def _one(stage: Stage, rude: Rude, nonce: str) -> None:
    with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        async with await trio.open_tcp_stream("127.0.0.1", stage.port) as stream:
            await rude(stream, nonce)
