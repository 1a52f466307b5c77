"""One server's life: everything loaded, the port opened, runs served, then drained.

load and start plugins, look at tools  ->  bind  ->  accept
first signal                ->  refuse runs, wait for those going on  ->  end
second signal               ->  do not wait
"""

import gc
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio
from msgspec import Struct

from heddle import launch
from heddle.engine.faults import RunFailed
from heddle.installation import Installed
from heddle.launch import RunOptions
from heddle.policy_counts import PolicyCounts
from heddle.server import code
from heddle.server.code_folders import open_code_folders
from heddle.server.egress import Checker, Reach, SubmittedModels
from heddle.server.endings import Completed, concealing
from heddle.server.http import Limits, Listener, Refusal, Request, Server
from heddle.server.logs import ServerLog
from heddle.server.names import names_of
from heddle.server.routes import Front
from heddle.server.runs import RunHandle, Runs
from heddle.server.service import Engines, Service
from heddle.server.settings import Settings
from heddle.server.sse import Pulse
from heddle.services import ModelService

GRACE: Final = 5.0
"""Seconds that answers get to be read once the last run has ended."""

NO_GRACE: Final = 0.5
"""The same after a second signal."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Loaded(Struct, frozen=True):
    """What a server is made of. Nothing of it has been started."""

    settings: Settings
    options: RunOptions
    installed: Installed
    max_concurrent: int = 64


class Reporter:
    """What the HTTP front tells the log."""

    def __init__(self, log: ServerLog) -> None:
        self._log = log

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
        """Out of files or memory."""
        self._log.say("error", "accepting failed", reason=os.strerror(error.errno or 0))


@asynccontextmanager
async def open_service(loaded: Loaded, log: ServerLog) -> AsyncIterator[Service]:
    """All that requests need, with every plugin started, until the context is left.

    Raises:
        Fault: Something of it can't be used.
    """
    settings, installed = loaded.settings, loaded.installed
    async with AsyncExitStack() as stack:
        counts = PolicyCounts()
        operator = ModelService(os.environ)
        stack.push_async_callback(operator.aclose)
        reach = Reach(settings.allow_net)
        guarded = SubmittedModels(reach, operator, installed.models.values())
        stack.push_async_callback(guarded.aclose)
        engine = await stack.enter_async_context(
            launch.open_engine(
                loaded.options,
                installed=installed,
                plugin_log=log.plugin,
                start_plugins=True,
                watch=counts,
            )
        )
        folders = None
        if settings.allow_request_code:
            folders = stack.enter_context(open_code_folders())
        engines = Engines(
            engine.with_models(operator),
            engine.with_models(guarded),
            Checker(reach).check,
            patience=loaded.options.plugin_timeout,
        )
        conceal = concealing(
            [*_folders(loaded), *([] if folders is None else [folders.path])]
        )
        runs = await stack.enter_async_context(
            Runs(
                engines,
                max_concurrent=loaded.max_concurrent,
                conceal=conceal,
                on_end=lambda run: _log_run(log, run),
            )
        )
        pulse = Pulse()
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(pulse.run)
        stack.callback(nursery.cancel_scope.cancel)
        yield Service(
            settings=settings,
            installed=installed,
            engines=engines,
            runs=runs,
            conceal=conceal,
            pulse=pulse,
            counts=counts,
            facts=_facts(loaded, engine),
            folders=folders,
        )


def _folders(loaded: Loaded) -> list[str]:
    """What no caller needs to know: where things are on this machine."""
    named = [
        loaded.options.tools_dir,
        loaded.settings.flows_root,
        *(str(Path(each).parent) for each in loaded.options.plugins),
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
    fields: dict[str, Any] = {
        "run": run.id,
        "flow": run.flow,
        "status": run.status.value,
        "seconds": round(run.seconds, 4),
        "nodes": run.nodes,
    }
    if not isinstance(run.ending, Completed):
        fields["error"] = type(run.error).__name__
        # What ended a run may quote its data; who wants it finds it in the run.
        if not isinstance(run.error, RunFailed):
            fields["reason"] = str(run.error)
    log.say("info", "run", **fields)


async def serve(
    loaded: Loaded,
    bind: Callable[[], Sequence[Listener]],
    log: ServerLog,
    *,
    ready: Callable[[Sequence[Listener]], None],
    signals: Sequence[int] = SIGNALS,
) -> None:
    """Serve until a signal asks to end, and all has ended.

    Args:
        loaded: From the flags.
        bind: Opens the port. Called when everything else is there.
        log: Told what goes on.
        ready: Called when requests are accepted.
        signals: Those that ask to end.

    Raises:
        Fault: It can't be started.
    """
    with trio.open_signal_receiver(*signals) as arrivals:
        async with trio.open_nursery() as nursery:
            asked = Asked()
            nursery.start_soon(asked.watch, arrivals)
            with asked.starting:
                async with open_service(loaded, log) as service:
                    await _serve(service, bind, log, ready, asked)
            nursery.cancel_scope.cancel()
    log.say("info", "stopped")


class Asked:
    """What signals have asked for.

    Attributes:
        starting: Cancelled by a signal that comes before there is anything to drain.
        to_drain: Set by the first signal.
        to_hurry: Set by the second one.
    """

    def __init__(self) -> None:
        self.starting = trio.CancelScope()
        self.started = False
        self.to_drain = trio.Event()
        self.to_hurry = trio.Event()

    async def watch(self, arrivals: AsyncIterator[int]) -> None:
        """Go on until cancelled."""
        async for _ in arrivals:
            if not self.started:
                self.starting.cancel()
            if self.to_drain.is_set():
                self.to_hurry.set()
            self.to_drain.set()


async def _serve(
    service: Service,
    bind: Callable[[], Sequence[Listener]],
    log: ServerLog,
    ready: Callable[[Sequence[Listener]], None],
    asked: Asked,
) -> None:
    listeners = bind()
    server = Server(
        Front(service, names_of(service.settings, listeners)),
        listeners,
        limits=Limits(body=service.settings.max_body),
        report=Reporter(log),
    )
    # What is there now stays to the end: never look through it for garbage.
    gc.collect()
    gc.freeze()
    gc.enable()
    async with trio.open_nursery() as nursery:
        await nursery.start(_run_server, server, nursery.cancel_scope)
        asked.started = True
        ready(listeners)
        await asked.to_drain.wait()
        log.say("info", "draining", runs=service.runs.active)
        service.draining.set()
        service.runs.refuse()
        server.end_keep_alive()
        nursery.start_soon(_hurry, service, server, asked)
        await service.runs.drain(service.settings.drain_timeout)
        server.stop(grace=GRACE)


async def _run_server(
    server: Server,
    scope: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve, and end what goes on beside it once all clients are gone."""
    await server.run(task_status=task_status)
    scope.cancel()


async def _hurry(service: Service, server: Server, asked: Asked) -> None:
    """A second signal: do not wait for runs, nor long for their readers."""
    await asked.to_hurry.wait()
    service.runs.hurry()
    # Who follows a run is told how it ended, however long its cleaning up takes.
    await service.runs.wait_empty()
    server.stop(grace=NO_GRACE)
