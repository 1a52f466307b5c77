"""A server of one process: it hears signals itself, and reads certificates again.

SIGTERM, SIGINT   drain; the second one does not wait
SIGHUP            with TLS, read the certificate again; without, as SIGTERM, for then it
                  says that the terminal is gone
"""

import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from heddle.server.http import Listener
from heddle.server.logs import ServerLog
from heddle.server.notify import notify
from heddle.server.serve import Loaded, Orders, serve
from plugins_host import Fault

if TYPE_CHECKING:
    import ssl

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def serve_alone(
    loaded: Loaded,
    bind: Callable[[], Sequence[Listener]],
    log: ServerLog,
    load: "Callable[[], tuple[Loaded, ssl.SSLContext | None]]",
) -> None:
    """Serve until a signal asks to end, and all has ended.

    Args:
        loaded: From the flags.
        bind: Opens the port.
        log: Told what goes on.
        load: Reads what the flags name again.

    Raises:
        Fault: It can't be started.
    """
    opened: list[Listener] = []

    async def open_port() -> Sequence[Listener]:
        opened.extend(bind())
        return opened

    def ready(listeners: Sequence[Listener]) -> None:
        for warning in loaded.installed.warnings:
            log.say("warning", warning)
        for listener in listeners:
            log.say("info", "listening", address=listener.address, pid=os.getpid())
        notify("READY=1")

    def renew() -> None:
        try:
            _, tls = load()
        except Fault as fault:
            log.say("error", "reload failed", reason=str(fault), kept="the certificate")
            return
        for listener in opened:
            listener.tls = tls
        log.say("info", "reloaded", what="the certificate")

    async def watch(arrivals: AsyncIterator[int], orders: Orders) -> None:
        async for number in arrivals:
            if number == signal.SIGHUP and any(each.tls for each in opened):
                renew()
                continue
            notify("STOPPING=1")
            orders.drain()

    with trio.open_signal_receiver(*SIGNALS) as arrivals:
        await serve(loaded, open_port, log, ready=ready, watch=partial(watch, arrivals))
