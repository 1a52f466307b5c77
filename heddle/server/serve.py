"""One server's life: everything loaded, the port opened, runs served, then drained.

load and start plugins, look at tools  ->  bind  ->  accept
first signal                ->  refuse runs, wait for those going on  ->  end
second signal               ->  do not wait
"""

import gc
import math
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio
from msgspec import Struct
from msgspec.structs import replace

from heddle import launch
from heddle.engine.faults import RunFailed
from heddle.http.bursts import open_bursts
from heddle.installation import Installed
from heddle.launch import RunOptions
from heddle.policy_counts import PolicyCounts
from heddle.remote import RemoteService
from heddle.server.endings import Completed, Stop, concealing
from heddle.server.following.sse import Pulse
from heddle.server.http import Limits, Listener, Refusal, Request, Server
from heddle.server.logs import RunLine, ServerLog
from heddle.server.names import names_of
from heddle.server.routes.table import Front
from heddle.server.runs.folders import open_run_folders
from heddle.server.runs.handle import RunHandle
from heddle.server.runs.registry import Runs
from heddle.server.service import Engines, Service
from heddle.server.settings import Settings
from heddle.server.submitted.code import reading as code
from heddle.server.submitted.egress import Checker, Reach, SubmittedModels
from heddle.services import ModelService
from heddle.spec import NOTHING_SUPPLIED, Supplied
from plugins_host import shortage

if TYPE_CHECKING:
    from heddle.server.workers import Peers

GRACE: Final = 5.0
"""Seconds that answers get to be read once the last run has ended."""

NO_GRACE: Final = 0.5
"""The same after a second signal."""

TOLD_EVERY: Final = 10.0
"""Seconds between two lines that tell that connections can't be accepted."""

COLLECTED_EVERY: Final = (20_000, 10, 25)
"""Thresholds of the collector. A run leaves hardly anything that has to be looked for, and
looking through what a thousand others have on their hands takes tens of milliseconds, in
which nothing else goes on. Twenty thousand objects are a few megabytes."""


class Loaded(Struct, frozen=True):
    """What a server is made of. Nothing of it has been started."""

    settings: Settings
    options: RunOptions
    installed: Installed
    max_concurrent: int = 64
    supplied: Supplied = NOTHING_SUPPLIED


class Reporter:
    """What the HTTP front tells the log."""

    def __init__(
        self, log: ServerLog, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._clock = clock
        self._not_accepted = 0
        self._quiet_until = -math.inf

    def refused(self, refusal: Refusal, client: str) -> None:
        """A request that no handler saw."""
        self._log.say(
            "info", "refused", status=refusal.status, reason=refusal.what, client=client
        )

    def crashed(self, request: Request | None, error: Exception) -> None:
        """A bug of ours."""
        import traceback

        self._log.say(
            "error",
            "answering failed",
            request="" if request is None else request.id,
            path="" if request is None else request.path,
            traceback="".join(traceback.format_exception(error)),
        )

    def accept_failed(self, error: OSError) -> None:
        """Out of files or memory. Told now and then: it may go on twenty times a second."""
        self._not_accepted += 1
        now = self._clock()
        if now < self._quiet_until:
            return
        self._quiet_until = now + TOLD_EVERY
        short = shortage(error)
        self._log.say(
            "error",
            "accepting failed",
            reason=str(short) if short else os.strerror(error.errno or 0),
            times=self._not_accepted,
        )
        self._not_accepted = 0


@asynccontextmanager
async def open_service(
    loaded: Loaded, log: ServerLog, peers: "Peers | None" = None
) -> AsyncIterator[Service]:
    """All that requests need, with every plugin started, until the context is left.

    Raises:
        Fault: Something of it can't be used.
    """
    settings, installed = loaded.settings, loaded.installed
    async with AsyncExitStack() as stack:
        counts = PolicyCounts()
        models = _Models(loaded, stack)
        # Left last: what works in it is ended first by whoever started it.
        folders = stack.enter_context(open_run_folders())
        engine = await stack.enter_async_context(
            launch.open_engine(
                # The time of runs is kept where they are cancelled.
                replace(loaded.options, timeout=math.inf),
                installed=installed,
                plugin_log=log.plugin,
                start_plugins=True,
                watch=counts,
                within=folders.path,
            )
        )
        engines = models.engines(engine)
        conceal = concealing([*_folders(loaded), folders.path])
        runs = await stack.enter_async_context(
            Runs(
                engines,
                max_concurrent=loaded.max_concurrent,
                conceal=conceal,
                on_end=lambda run: _log_run(log, run),
                room=None if peers is None else peers.room,
                prefix="" if peers is None else peers.prefix,
                timeout=loaded.options.timeout,
            )
        )
        pulse = Pulse()
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(pulse.run)
        stack.callback(nursery.cancel_scope.cancel)
        yield Service(
            settings=settings,
            installed=installed,
            supplied=loaded.supplied,
            engines=engines,
            runs=runs,
            conceal=conceal,
            pulse=pulse,
            counts=counts,
            facts=_facts(loaded, engine),
            folders=folders if settings.allow_request_code else None,
            peers=peers,
        )


class _Models:
    """The models that runs reach: all for the operator's flows, and within
    ``--allow-net`` for those that callers submit. Closed with ``stack``."""

    def __init__(self, loaded: Loaded, stack: AsyncExitStack) -> None:
        self._patience = loaded.options.plugin_timeout
        self._reach = Reach(loaded.settings.allow_net)
        self._operator = ModelService(os.environ)
        stack.push_async_callback(self._operator.aclose)
        own = loaded.installed.models.values()
        self._guarded = SubmittedModels(self._reach, self._operator, own)
        stack.push_async_callback(self._guarded.aclose)
        self._guarded_remote = RemoteService(
            {}, permit=self._reach.permits, patience=loaded.options.tool_timeout
        )
        stack.push_async_callback(self._guarded_remote.aclose)

    def engines(self, engine: launch.Engine) -> Engines:
        """Both engines, each with its models."""
        return Engines(
            engine.with_models(self._operator),
            engine.with_models(self._guarded, self._guarded_remote),
            Checker(self._reach),
            patience=self._patience,
        )


def _folders(loaded: Loaded) -> list[str]:
    """What no caller needs to know: where things are on this machine."""
    named = [
        loaded.options.tools_dir,
        loaded.settings.flows_root,
        *(
            str(Path(each).parent)
            for each in (*loaded.options.plugins, *loaded.settings.components)
        ),
        tempfile.gettempdir(),
        str(Path.cwd()),
        str(Path.home()),
    ]
    folders = {
        made
        for each in named
        if each
        for made in (os.path.abspath(each), os.path.realpath(each))  # noqa: PTH100  without following links
    }
    return sorted(folders - {"/"})


def _facts(loaded: Loaded, engine: launch.Engine) -> Mapping[str, Any]:
    """What capabilities show and does not change."""
    options = loaded.options
    return {
        "tools": engine.tool_names(),
        "limits": {
            "maxConcurrent": loaded.max_concurrent,
            "maxBody": loaded.settings.max_body,
            "maxIterations": options.max_iterations,
            "maxNodeAttempts": options.max_node_attempts,
            "timeoutMs": round(options.timeout * 1000),
            "pluginTimeoutMs": round(options.plugin_timeout * 1000),
            "maxTools": code.MAX_TOOLS,
            "maxPlugins": code.MAX_PLUGINS,
            "maxSource": code.MAX_SOURCE,
            "maxCode": code.MAX_CODE,
        },
    }


def _log_run(log: ServerLog, run: RunHandle) -> None:
    """One line a run."""
    seconds = round(run.seconds, 4)
    line = RunLine(
        time.time(), run.id, run.flow, run.status, seconds, run.nodes, run.request
    )
    if isinstance(run.ending, Completed):
        log.run(line)
        return
    fields: dict[str, Any] = {**line._asdict(), "error": type(run.error).__name__}
    # What ended a run may quote its data; who wants it finds it in the run.
    if not isinstance(run.error, RunFailed):
        fields["reason"] = str(run.error)
    log.say("info", "run", **fields)


async def serve(
    loaded: Loaded,
    bind: Callable[[], Awaitable[Sequence[Listener]]],
    log: ServerLog,
    *,
    ready: Callable[[Sequence[Listener]], None],
    watch: "Callable[[Orders], Awaitable[None]]",
    peers: "Peers | None" = None,
) -> None:
    """Serve until it is told to end, and all has ended.

    Args:
        loaded: From the flags.
        bind: Opens the port. Called when everything else is there.
        log: Told what goes on.
        ready: Called when requests are accepted.
        watch: Passes on what the operator wants; cancelled at the end.
        peers: The other workers.

    Raises:
        Fault: It can't be started.
    """
    orders = Orders()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, orders)
        with orders.starting, open_bursts():
            async with open_service(loaded, log, peers) as service:
                await _serve(service, bind, log, ready, orders)
        nursery.cancel_scope.cancel()
    if peers is None or orders.started:
        # A worker that never served is no news beside the reason for it.
        log.say("info", "stopped")


class Orders:
    """What the operator wants of a server, or the parent of a worker.

    Attributes:
        starting: Cancelled by what comes before there is anything to drain.
        started: Whether there is.
        retiring: Whether others take over: no run has to be refused.
        to_leave: Set by the first order to end.
        to_hurry: Set by the second one.
    """

    def __init__(self) -> None:
        self.starting = trio.CancelScope()
        self.started = False
        self.retiring = False
        self.to_leave = trio.Event()
        self.to_hurry = trio.Event()

    def drain(self) -> None:
        """End with the runs that go on; asked again, do not wait for them."""
        if not self.started:
            self.starting.cancel()
        if self.to_leave.is_set():
            self.to_hurry.set()
        self.to_leave.set()

    def retire(self) -> None:
        """Accept no more; end when all who are connected have what they came for."""
        self.retiring = not self.to_leave.is_set()
        if self.retiring:
            self.drain()

    def hurry(self) -> None:
        """End, and wait for nothing."""
        self.drain()
        self.to_hurry.set()


async def _serve(
    service: Service,
    bind: Callable[[], Awaitable[Sequence[Listener]]],
    log: ServerLog,
    ready: Callable[[Sequence[Listener]], None],
    orders: Orders,
) -> None:
    listeners = await bind()
    limits = Limits(body=service.settings.max_body)
    server = Server(
        Front(service, names_of(service.settings, listeners)),
        listeners,
        limits=limits,
        report=Reporter(log),
        share=None if service.peers is None else service.peers.share,
    )
    # What is there now stays to the end: never look through it for garbage.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_EVERY)
    gc.enable()
    async with trio.open_nursery() as nursery:
        gone, closing, closed = trio.Event(), trio.Event(), trio.Event()
        await nursery.start(_run_server, server, gone)
        if service.peers is not None:
            await nursery.start(_serve_siblings, service, log, closing, closed)
        orders.started = True
        ready(listeners)
        await orders.to_leave.wait()
        service.leaving.set()
        nursery.start_soon(_hurry, service, server, orders)
        if orders.retiring:
            await _retire(service, server, log, gone)
        else:
            log.say("info", "draining", runs=service.runs.active)
            service.draining.set()
            service.runs.refuse()
            server.end_keep_alive()
            await service.runs.drain(service.settings.drain_timeout)
        server.stop(grace=GRACE)
        await gone.wait()
        closing.set()
        if service.peers is not None:
            await closed.wait()
        nursery.cancel_scope.cancel()


async def _retire(
    service: Service, server: Server, log: ServerLog, gone: trio.Event
) -> None:
    """Others take over: what is here ends where it began, for as long as a drain lasts."""
    log.say("info", "retiring", runs=service.runs.active)
    server.retire()
    with trio.move_on_after(service.settings.drain_timeout) as scope:
        # Who is connected still may begin another run.
        await gone.wait()
    left = scope.deadline - trio.current_time()
    await service.runs.drain(max(0.0, left))


async def _serve_siblings(
    service: Service,
    log: ServerLog,
    closing: trio.Event,
    closed: trio.Event,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer other workers, until the end of all else."""
    from heddle.server.inner import Inner, serve_siblings

    inner = Server(Inner(service), report=Reporter(log))
    async with trio.open_nursery() as nursery:
        await nursery.start(inner.run)
        task_status.started()
        await serve_siblings(service, inner, closing, grace=GRACE)
        closed.set()
        nursery.cancel_scope.cancel()


async def _run_server(
    server: Server,
    gone: trio.Event,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve, and tell when all clients are gone."""
    await server.run(task_status=task_status)
    gone.set()


async def _hurry(service: Service, server: Server, orders: Orders) -> None:
    """A second signal: do not wait for runs, nor long for their readers."""
    await orders.to_hurry.wait()
    service.runs.refuse()
    service.runs.hurry()
    service.runs.cancel_all(Stop.DRAINED)
    # Who follows a run is told how it ended, however long its cleaning up takes.
    await service.runs.wait_empty()
    server.stop(grace=NO_GRACE)
