"""What a worker answers to its siblings, who have already seen that the caller may ask.

GET /v1/runs                   the runs of this worker alone
*   /v1/runs/{id}…             as everybody is answered
GET /-/follow/{id}?from=N      its events as WebSocket frames, for a sibling's socket
GET /-/numbers                 publish what there is to count; which worker did
GET /-/status                  what the status page shows of this worker
"""

from typing import Final

import msgspec
import trio

from heddle.server import numbers
from heddle.server.failures import failure_response, unknown_run
from heddle.server.following.log import Batch
from heddle.server.following.reader import Item, Lagged, Reader
from heddle.server.http import (
    JSON,
    Answer,
    Request,
    Response,
    Server,
    StreamedResponse,
    Writer,
)
from heddle.server.routes import runs as run_routes
from heddle.server.routes.table import find
from heddle.server.service import Service
from heddle.server.sockets import frames as socket_frames
from heddle.server.status.board import part_of
from heddle.server.workers import END, MORE, pack
from plugins_host import Fault

_FOLLOW: Final = "/-/follow/"
_encode: Final = msgspec.json.Encoder().encode


class Inner:
    """The handler of siblings' requests."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, request: Request) -> Answer:
        """Answer one."""
        try:
            return await self._answer(request)
        except Fault as error:
            return failure_response(error, self._service.conceal)

    async def _answer(self, request: Request) -> Answer:
        service, path = self._service, request.path
        if path == "/v1/runs":
            return Response(
                200, JSON, _encode({"runs": run_routes.own_runs(service, request)})
            )
        if path == "/-/numbers":
            numbers.publish(service)
            return Response(200, JSON, _encode(service.peers and service.peers.row))
        if path == "/-/status":
            return Response(200, JSON, _encode(part_of(service)))
        if path.startswith(_FOLLOW):
            return _follow(service, request, path[len(_FOLLOW) :])
        routes, parameter = find(path)
        return await routes[request.method].handle(service, request, parameter)


def _follow(service: Service, request: Request, identity: str) -> Answer:
    run = service.runs.get(identity)
    if run is None:
        raise unknown_run()
    start = run_routes.count(request, "from") or 1
    log = run.log

    async def write(writer: Writer) -> None:
        with Reader(log, start) as reader:
            async for item in reader:
                await writer.write(_packed(log.run, item))

    return StreamedResponse(200, JSON, write)


def _packed(run: str, item: Item) -> bytes:
    match item:
        case Batch():
            return pack(MORE, item.framed(socket_frames.events))
        case Lagged(first=first, last=last):
            text = socket_frames.plain(type="lagged", run=run, missed=[first, last])
            return pack(MORE, socket_frames.frame(text))
        case ending:
            return pack(END, socket_frames.frame(socket_frames.ended(run, ending)))


async def serve_siblings(
    service: Service, server: Server, closing: trio.Event, *, grace: float
) -> None:
    """Answer siblings until this process closes, and what goes on then a little longer.

    Args:
        service: What is asked about.
        server: One of `Inner`, which runs.
        closing: Set when all else has ended.
        grace: Seconds for those who follow runs to read how they ended.
    """
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as clients:
            accepting = trio.CancelScope()
            clients.start_soon(_accept, service, server, clients, accepting)
            await closing.wait()
            accepting.cancel()
            scope.deadline = trio.current_time() + grace


async def _accept(
    service: Service, server: Server, clients: trio.Nursery, scope: trio.CancelScope
) -> None:
    assert service.peers is not None
    with scope:
        while True:
            sock = await service.peers.receive()
            clients.start_soon(server.serve_socket, sock)
