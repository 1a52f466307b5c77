"""Tries a plugin: all that its manifest promises is asked of it, as heddle would ask.

    def report(finding):
        finding.outcome, finding.asked, finding.said, finding.frames

    all_is_well = await check_plugin(loaded, report)

The plugin runs under heddle's own host, with its time-outs, refusals and checks; what is
said on the pipes is on tape, and a fault comes with the frames that show it. What a
plugin may do besides answering, cancelling a call or ending in time, is tried as well.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import trio
import trio.lowlevel
from msgspec import Raw, Struct

from plugins_host.checking.promises import Consultation, Promise, promises, together
from plugins_host.checking.tape import Tape
from plugins_host.checking.verbs import Verb
from plugins_host.consulting.chain import Chain
from plugins_host.consulting.links import Asker, Asking, Link
from plugins_host.consulting.outcomes import (
    Failed,
    MiddlewareFailure,
    Passed,
    PolicyWarning,
    Proceeded,
    Rejected,
    Replaced,
    RetryGranted,
)
from plugins_host.conversation import ModelRequest, ModelResponse
from plugins_host.faults import Fault, sentence
from plugins_host.inprocess import InProcessPlugin
from plugins_host.loading.installed import InProcess, LoadedPlugins, Plugin
from plugins_host.payload import EMPTY
from plugins_host.plugin_log import PluginLine
from plugins_host.processes.fleet import Fleet
from plugins_host.processes.open_calls import CANCEL_PATIENCE
from plugins_host.processes.process import PluginProcess

# A question of an example takes a policy no time; a plugin that calls out may need some.
PATIENCE: Final = 10.0

# Enough to see that answers find their questions.
AT_ONCE: Final = 50

# A plugin may answer before it is told to stop; then it is asked again, so often.
CANCEL_TRIES: Final = 20


class Outcome(StrEnum):
    """How a try went."""

    OK = "ok"
    ODD = "odd"
    FAULT = "fault"


class Finding(Struct, frozen=True):
    """One try: what was asked, what came of it, and the frames that show a fault."""

    outcome: Outcome
    asked: str
    said: str
    frames: tuple[str, ...] = ()


Report = Callable[[Finding], None]


async def check_plugin(
    loaded: LoadedPlugins, report: Report, *, patience: float = PATIENCE
) -> bool:
    """Ask one loaded plugin everything that it promises.

    Args:
        loaded: The plugin with its settings, from `load_plugins`.
        report: Told of each try, in order.
        patience: How long one answer may take. Seconds.

    Returns:
        Whether nothing was wrong.
    """
    (plugin,) = loaded.plugins
    checking = _Checking(loaded, plugin, report, patience)
    await checking.run()
    return not checking.faults


class _Checking:
    """One check of one plugin."""

    def __init__(
        self, loaded: LoadedPlugins, plugin: Plugin, report: Report, patience: float
    ) -> None:
        self.faults = 0
        self._plugin = plugin
        self._settings = {
            each.component.component_type: each.settings for each in loaded.middleware
        }
        self._report = report
        self._patience = patience
        self._tape = Tape()
        self._services = _ExampleServices()
        self._strays: list[str] = []
        self._refusals: list[str] = []

    async def run(self) -> None:
        """Everything, in order."""
        home = self._plugin.home
        if isinstance(home, InProcess):
            capabilities = frozenset(
                each.value for each in self._plugin.manifest.capabilities
            )
            asker = InProcessPlugin(
                self._plugin.name,
                home.handlers,
                capabilities=capabilities,
                log=self._log,
                tools=home.tools,
                list_tools=home.list_tools,
            )
            await self._ask_all(asker)
        elif home.program is not None:
            fleet = Fleet([home.program], log=self._log, spawn=self._tape.spawn)
            async with fleet:
                process = fleet[self._plugin.name]
                if not await self._start(process):
                    return
                await self._ask_all(process)
                await self._try_the_rest(process)
                mark, ended = self._tape.mark(), len(self._tape.statuses)
            self._see_its_end(mark, self._tape.statuses[ended:])
        else:
            self._tell(Outcome.OK, "program", "none is needed")

    def _log(self, line: PluginLine) -> None:
        if line.source == "stdout":
            self._strays.append(line.text)
        elif isinstance(self._plugin.home, InProcess):
            self._refusals.append(line.text)

    def _tell(
        self, outcome: Outcome, asked: str, said: str, frames: Sequence[str] = ()
    ) -> None:
        self.faults += outcome is Outcome.FAULT
        shown = tuple(frames) if outcome is Outcome.FAULT else ()
        self._report(Finding(outcome, asked, said, shown))

    async def _start(self, process: PluginProcess) -> bool:
        mark = self._tape.mark()
        began = time.perf_counter()
        try:
            features = await process.start()
        except Fault as fault:
            self._fault("start", fault, mark)
            return False
        spent = time.perf_counter() - began
        known = f", features: {', '.join(sorted(features))}" if features else ""
        self._tell(Outcome.OK, "start", f"it answers init after {spent:.2f} s{known}")
        return True

    def _fault(self, asked: str, fault: Fault, mark: int) -> None:
        cause = fault.cause if isinstance(fault, MiddlewareFailure) else fault
        said = sentence(cause.what, fix=cause.fix)
        self._tell(Outcome.FAULT, asked, said, self._tape.since(mark))

    # --- what the manifest promises -----------------------------------------------------

    async def _ask_all(self, asker: Asker | PluginProcess | InProcessPlugin) -> None:
        with TemporaryDirectory(prefix="heddle-") as workspace:
            for promise in promises(self._plugin.manifest, workspace=workspace):
                await self._try(asker, promise)
        for promise in together(self._plugin.manifest):
            await self._try(asker, promise)

    async def _try(self, asker: Any, promise: Promise) -> None:
        mark = self._tape.mark()
        try:
            match promise:
                case Consultation():
                    said = await self._consult(asker, promise)
                case Verb():
                    raw = await asker.request(
                        promise.verb,
                        msgspec.json.encode(promise.params),
                        services=self._services,
                        components=(promise.component_type,),
                        patience=self._patience,
                        on_partial=promise.on_partial,
                    )
                    encoded = raw if isinstance(raw, Raw) else msgspec.json.encode(raw)
                    said = promise.read(Raw(encoded))
        except Fault as fault:
            self._fault(promise.label, fault, mark)
        else:
            self._tell(Outcome.OK, promise.label, said)
        # What was refused without anybody waiting for it is written in the next turn.
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        self._see_refusals(promise.label, mark)
        self._see_strays(promise.label)

    async def _consult(self, asker: Asker, promise: Consultation) -> str:
        links = [
            Link(
                each.component_type,
                self._plugin.name,
                msgspec.json.encode(self._settings[each.component_type]),
                each.seams,
                asker,
            )
            for each in promise.components
        ]
        warnings: list[PolicyWarning] = []
        asking = Asking(
            self._services,
            warnings.append,
            max_attempts=3,
            patience=self._patience,
        )
        chain = Chain(links)
        outcome: object
        if promise.outcome is None:
            assert promise.given is not None
            outcome = await chain.before(
                promise.seam, promise.subject, promise.given, asking
            )
        else:
            outcome = await chain.after(
                promise.seam,
                promise.subject,
                promise.outcome,
                asking,
                given=EMPTY if promise.given is None else promise.given,
            )
        return _worded(outcome, promise)

    # --- what is expected of every process ------------------------------------------------

    async def _try_the_rest(self, process: PluginProcess) -> None:
        manifest = self._plugin.manifest
        asked = list(promises(manifest))
        first = next((each for each in asked if isinstance(each, Consultation)), None)
        # Sessions are kept: what is asked of a store is not asked fifty times.
        others = (each for each in asked if isinstance(each, Verb) and each.repeatable)
        promise = first or next(others, None)
        if promise is not None:
            await self._try_many(process, promise)
            await self._try_unknown_field(process, promise)
            await self._try_cancelling(process, promise)

    async def _put(self, asker: Any, promise: Promise) -> None:
        """Ask again what has been asked; any answer will do for what is no verdict."""
        if isinstance(promise, Consultation):
            await self._consult(asker, promise)
        else:
            await asker.request(
                promise.verb,
                msgspec.json.encode(promise.params),
                services=self._services,
                components=(promise.component_type,),
                patience=self._patience,
            )

    async def _try_many(self, process: PluginProcess, promise: Promise) -> None:
        asked = f"{AT_ONCE} questions at once"
        mark = self._tape.mark()
        faults: list[Fault] = []

        async def ask() -> None:
            try:
                await self._put(process, promise)
            except Fault as fault:
                faults.append(fault)

        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(ask)
        if faults:
            self._fault(asked, faults[0], mark)
        else:
            self._tell(Outcome.OK, asked, "all are answered")

    async def _try_unknown_field(self, process: PluginProcess, promise: Promise) -> None:
        asked = "a field that it does not know"
        mark = self._tape.mark()
        try:
            await self._put(_Newer(process), promise)
        except Fault as fault:
            self._fault(asked, fault, mark)
        else:
            self._tell(Outcome.OK, asked, "it is ignored")

    async def _try_cancelling(self, process: PluginProcess, promise: Promise) -> None:
        asked = "cancel"
        # It may have ended for what it said last.
        with suppress(Fault):
            await process.start()
        retired = process.counts.retired
        mark = self._tape.mark()
        for _ in range(CANCEL_TRIES):
            await self._ask_and_cancel(process, promise)
            if any('"cancel"' in line for line in self._tape.since(mark)):
                break
        await trio.sleep(CANCEL_PATIENCE * 1.5)
        if process.counts.retired > retired:
            self._tell(
                Outcome.FAULT,
                asked,
                f"it did not answer within {CANCEL_PATIENCE:g} s, and would be replaced. "
                "Answer {} once the call that it names has stopped, or was not there.",
                self._tape.since(mark),
            )
        else:
            self._tell(Outcome.OK, asked, "it is answered")

    async def _ask_and_cancel(self, process: PluginProcess, promise: Promise) -> None:
        """Cancel a question as soon as it was written; a quick plugin may be quicker."""
        mark = self._tape.mark()

        async def ask() -> None:
            with suppress(Fault):
                await self._put(process, promise)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not self._tape.since(mark) and nursery.child_tasks:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        # What cancelling had to say is written by a task of its own.
        await trio.sleep(0.01)

    def _see_its_end(self, mark: int, statuses: Sequence[int]) -> None:
        status = next(iter(statuses), 0)
        if status == 0:
            self._tell(Outcome.OK, "shutdown", "it ends")
        elif status < 0:
            said = "it did not end within 1 s, and was killed. End when stdin is closed."
            self._tell(Outcome.FAULT, "shutdown", said, self._tape.since(mark))
        else:
            self._tell(Outcome.ODD, "shutdown", f"it ends with status {status}")

    def _see_refusals(self, asked: str, mark: int) -> None:
        refusals, self._refusals = self._refusals, []
        for line in self._tape.since(mark):
            if line.startswith("> ") and '"error":' in line and '"method":' not in line:
                refusals.append(msgspec.json.decode(line[2:])["error"]["message"])
        if refusals:
            said = f"heddle refuses what it asked for: {refusals[0]}"
            self._tell(Outcome.FAULT, asked, said, self._tape.since(mark))

    def _see_strays(self, asked: str) -> None:
        strays, self._strays = self._strays, []
        if strays:
            said = f"it printed on stdout, which carries the protocol: {strays[0]!r}"
            self._tell(Outcome.ODD, asked, said)


class _Newer:
    """Asks like a later heddle, with a field more in each question."""

    def __init__(self, asker: PluginProcess) -> None:
        self.name = asker.name
        self._asker = asker

    @property
    def features(self) -> frozenset[str] | None:
        """The plugin's."""
        return self._asker.features

    async def start(self) -> frozenset[str]:
        """The plugin's."""
        return await self._asker.start()

    async def request(self, verb: str, params: bytes, **keys: Any) -> object:
        """Ask."""
        after = b"" if params == b"{}" else b","
        newer = b'%b%b"x-future":{"anything":true}}' % (params[:-1], after)
        return await self._asker.request(verb, newer, **keys)


class _ExampleServices:
    """What a plugin may ask for, answered with examples."""

    async def run_tool(self, _name: str, _given: dict[str, Any], /) -> object:
        """Any tool gives nothing."""
        await trio.lowlevel.checkpoint()
        return {}

    async def call_model(
        self, _component_type: str, _request: ModelRequest, /
    ) -> ModelResponse:
        """Any model says the same."""
        await trio.lowlevel.checkpoint()
        return ModelResponse("Hello, too.")

    def emit_event(self, component_type: str, name: str, data: Any, /) -> None:
        """Nobody listens."""

    def log(self, component_type: str, level: str, message: str, /) -> None:
        """Nobody reads."""


def _worded(outcome: object, promise: Consultation) -> str:
    match outcome:
        case Proceeded(input=given):
            return "proceed" if given is promise.given else "modify"
        case Replaced():
            return "replace"
        case Rejected(reason=reason):
            return f"reject: {reason}"
        case Passed():
            return "pass"
        case RetryGranted(delay=delay):
            return f"retry after {delay:g} s"
        case Failed(reason=reason):
            return f"fail: {reason}"
        case _:  # pragma: no cover  a walk ends in no other way
            raise AssertionError(outcome)
