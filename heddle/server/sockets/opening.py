"""``GET /v1/stream``, from the request for a socket to its end.

    reading task   a message in  ->  runs begun, followed, cancelled (`Session`)
    writing task   what waits for the client, of all its runs, in one write (`Outgoing`)
    watching task  pings; the drain of the server

trio-websocket makes the handshake, answers pings and closes. The data frames are ours,
written to the same stream between its own (`heddle.server.sockets.frames`).
"""

from typing import Final

import trio
from trio.abc import Stream
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from heddle.server.http import Refusal, Request, Upgrade
from heddle.server.service import Service
from heddle.server.sockets.handshake import SUBPROTOCOL, check_handshake, check_origin
from heddle.server.sockets.session import Session
from heddle.server.sockets.stream import HANDSHAKE, NO_ANSWER, SharedStream
from heddle.server.tokens import authorise

ENVELOPE: Final = 64 * 1024
"""Bytes of a message beside the flow and inputs in it."""

PING_EVERY: Final = 30.0
"""Seconds, also the longest until its pong. Proxies give up silence after 60."""


def open_socket(service: Service, request: Request) -> Upgrade:
    """The socket that a request asks for.

    Raises:
        Refusal: It asks for none, or may not have one.
    """
    check_handshake(request)
    check_origin(service, request)
    known = service.settings.auth_token is None
    if not known and "authorization" in request.headers:
        authorise(service.settings.auth_token, request)
        known = True
    if service.leaving.is_set():
        raise Refusal(503, "this server is stopping")

    async def run(stream: Stream) -> None:
        service.sockets += 1
        try:
            await serve_socket(
                service, SharedStream(stream), known=known, request=request.id
            )
        finally:
            service.sockets -= 1

    return Upgrade(run)


async def serve_socket(
    service: Service, stream: SharedStream, *, known: bool, request: str = ""
) -> None:
    """Speak with a client until one of the two has left.

    Args:
        known: Whether it need not say who it is.
        request: The id of its request, or "".
    """
    try:
        async with trio.open_nursery() as nursery:
            with trio.fail_after(HANDSHAKE):
                asked = await wrap_server_stream(
                    nursery,
                    stream,
                    max_message_size=service.settings.max_body + ENVELOPE,
                    receive_buffer_size=ENVELOPE,
                )
                offered = SUBPROTOCOL in asked.proposed_subprotocols
                socket = await asked.accept(
                    subprotocol=SUBPROTOCOL if offered else None,
                    extra_headers=[(b"X-Request-ID", request.encode())] if request else [],
                )
            stream.opened(socket)
            session = Session(
                service, socket, stream, nursery, known=known, request=request
            )
            try:
                nursery.start_soon(session.outgoing.write)
                nursery.start_soon(session.watch_drain)
                nursery.start_soon(_watch_client, socket, stream)
                await session.read()
            except ConnectionClosed:
                # The library's own task, which closes the stream, ends with this one.
                await stream.end_broken()
                raise
            finally:
                session.end()
            nursery.cancel_scope.cancel()
    except* (
        ConnectionClosed,
        trio.BrokenResourceError,
        trio.ClosedResourceError,
        trio.TooSlowError,
    ):
        pass


async def _watch_client(socket: WebSocketConnection, stream: SharedStream) -> None:
    """Find out when the client is gone without having said so."""
    while True:
        await trio.sleep(PING_EVERY)
        with trio.move_on_after(PING_EVERY) as waiting:
            await socket.ping()
        if waiting.cancelled_caught:
            await stream.end(NO_ANSWER, "no pong came")
            raise trio.TooSlowError
