"""A WebSocket opened, and closed when its block is left, whatever happened in it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from trio_websocket import (
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
)

from heddle.client.exchange import CONNECT, IS_IT_THERE, Exchange
from heddle.client.faults import ClientFault, Unreachable, refusal
from heddle.client.socket import RunSocket
from heddle.http import MAX_BODY

SUBPROTOCOL: Final = "heddle.v1"

QUEUE: Final = 4
"""Messages of up to 256 KiB that are read ahead."""

CLOSING: Final = 1.0
"""Seconds for a close to be answered."""


@asynccontextmanager
async def open_socket(exchange: Exchange, *, refill: bool) -> AsyncIterator[RunSocket]:
    """A socket, until the block is left; runs that it started and did not detach end then.

    Raises:
        Refused: The server wants none.
        Unreachable: There is no connection.
    """
    address = exchange.address
    where = f"{address.shown}/v1/stream"
    stream = await exchange.dial(where)
    headers = [(b"User-Agent", b"heddle-client")]
    if exchange.authorization is not None:
        headers.append((b"Authorization", exchange.authorization.encode("latin-1")))
    failed: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                ws = await _shake_hands(nursery, stream, exchange, headers, where)
                socket = RunSocket(ws, where, refill=refill)
                nursery.start_soon(socket.read)
                nursery.start_soon(socket.write)
                try:
                    yield socket
                finally:
                    socket.end(Unreachable("this side closed the socket", where=where))
                    with trio.move_on_after(CLOSING, shield=True):
                        await ws.aclose()
            except Exception as error:  # noqa: BLE001  raised below, outside of the group
                failed = error
            nursery.cancel_scope.cancel()
    except* HandshakeError as group:
        # Raised by the library's own task, beside the one that waits for the handshake.
        failed = _rejected(group, where)
    finally:
        with trio.move_on_after(CLOSING, shield=True):
            await trio.aclose_forcefully(stream)
    if failed is not None:
        raise failed


async def _shake_hands(
    nursery: trio.Nursery,
    stream: Any,
    exchange: Exchange,
    headers: list[tuple[bytes, bytes]],
    where: str,
) -> WebSocketConnection:
    address = exchange.address
    with trio.move_on_after(CONNECT):
        return await wrap_client_stream(
            nursery,
            stream,
            address.authority,
            f"{address.prefix}/v1/stream",
            subprotocols=[SUBPROTOCOL],
            extra_headers=headers,
            message_queue_size=QUEUE,
            max_message_size=MAX_BODY,
        )
    raise Unreachable(f"no socket within {CONNECT:g} s", where=where, fix=IS_IT_THERE)


def _rejected(group: BaseExceptionGroup[HandshakeError], where: str) -> ClientFault:
    """Why there is no socket."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ConnectionRejected):
        headers = {name.lower(): value for name, value in error.headers}
        body = error.body or b""
        return refusal(error.status_code, headers, body, where=where, runs=False)
    return Unreachable(
        "the server closed the connection instead of opening a socket",
        where=where,
        fix=IS_IT_THERE,
    )
