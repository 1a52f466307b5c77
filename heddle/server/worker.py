"""One worker of several: a whole server that its parent tells when to begin and to end.

    load everything  ->  say Loaded  ->  wait for GO and the sockets  ->  serve  ->  end

A parent that is gone leaves an end to read, and then the worker waits for nothing.
"""

import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio
from msgspec import Struct

from heddle.server.http import Listener
from heddle.server.logs import ServerLog
from heddle.server.serve import Loaded, Orders, serve
from heddle.server.workers import Peers
from heddle.server.workers import control as wire
from plugins_host import Fault

if TYPE_CHECKING:
    import ssl

Load = Callable[[], tuple[Loaded, "ssl.SSLContext | None"]]
"""Reads everything that the flags name, anew."""


class Given(Struct):
    """What a worker gets from its parent by being forked from it."""

    load: Load
    control: socket.socket
    peers: Peers
    lock: int
    json_logs: bool


def run_worker(given: Given) -> int:
    """Be a worker; the exit status."""
    # Who presses Ctrl-C or hangs up means the server, and the parent says what follows.
    # A handler, for what is ignored would be ignored by plugins too.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        loaded, tls = given.load()
    except Fault as fault:
        wire.say(given.control, wire.Broken(str(fault)))
        return 1
    log = ServerLog(json=given.json_logs, lock=given.lock, worker=given.peers.row)
    root = logging.getLogger()
    root.addHandler(log)
    worker = Worker(given, loaded, tls)
    status = 0
    try:
        trio.run(partial(worker.run, log))
    except* Fault as group:
        wire.say(given.control, wire.Broken(str(_one(group))))
        status = 1
    finally:
        root.removeHandler(log)
        log.close()
    return status


class Worker:
    """A worker whose flags have been read."""

    def __init__(self, given: Given, loaded: Loaded, tls: "ssl.SSLContext | None") -> None:
        self._control = given.control
        self._peers = given.peers
        self._loaded = loaded
        self._tls = tls
        self._listeners: list[Listener] = []
        self._going = trio.Event()

    async def run(self, log: ServerLog) -> None:
        """Serve, once the parent says so."""
        with trio.open_signal_receiver(
            signal.SIGTERM, signal.SIGINT, signal.SIGHUP
        ) as arrivals:
            await serve(
                self._loaded,
                self._bind,
                log,
                ready=self._ready,
                watch=partial(self._watch, arrivals),
                peers=self._peers,
            )

    async def _bind(self) -> Sequence[Listener]:
        wire.say(self._control, wire.Loaded(tuple(self._loaded.installed.warnings)))
        await self._going.wait()
        return self._listeners

    def _ready(self, _: Sequence[Listener]) -> None:
        wire.say(self._control, wire.Serving())

    async def _watch(self, arrivals: AsyncIterator[int], orders: Orders) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_signals, arrivals, orders)
            await self._obey(orders)

    async def _obey(self, orders: Orders) -> None:
        await trio.lowlevel.wait_readable(self._control)
        given, ended = wire.take_over(self._control)
        if ended:
            orders.hurry()
            return
        self._listeners = [
            Listener(sock, host=place.host, path=place.path, tls=self._tls, owned=False)
            for place, sock in given
        ]
        self._going.set()
        while True:
            await trio.lowlevel.wait_readable(self._control)
            try:
                said = self._control.recv(16)
            except ConnectionError:
                said = b""
            for order in said or wire.HURRY:
                _ORDERS[bytes((order,))](orders)
            if not said:
                return


async def _watch_signals(arrivals: AsyncIterator[int], orders: Orders) -> None:
    """One worker alone is told to end: others take over."""
    async for number in arrivals:
        if number == signal.SIGTERM:
            orders.retire()


_ORDERS = {
    wire.DRAIN: Orders.drain,
    wire.RETIRE: Orders.retire,
    wire.HURRY: Orders.hurry,
}


def _one(group: BaseExceptionGroup[Fault]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
