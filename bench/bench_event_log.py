"""What it costs a server to keep its runs and to let many follow them.

Question: does following a run slow it, and what does a run cost that nobody follows?
Workload: a run that reports 10,000 events of 200 bytes, one each time it is its turn, with
          0, 1 and 100 readers that make WebSocket text of each batch; a run of 13 events
          started, finished and kept; 1,000 runs that wait, with a reader each, then
          cancelled.
Answer:   µs an event unread; events/s delivered; how much slower the run is with 100
          readers than with 1; µs a run; KiB a waiting run; ms until the slot
          of a cancelled one is free.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import trio
from trio.testing import wait_all_tasks_blocked

from bench.harness import Answer, against_floor, alternate, median, time_calls
from heddle.events import (
    Event,
    FlowCompleted,
    FlowStarted,
    NodeCompleted,
    NodeStarted,
    TokenDelta,
)
from heddle.server.endings import Cancelled, ShownError, Stop
from heddle.server.following.as_json import EventEncoder
from heddle.server.following.log import Batch, EventLog
from heddle.server.following.pacer import Pacer
from heddle.server.following.reader import Reader
from heddle.server.runs.registry import Runs

EVENTS = 10_000
READERS = 100
WAITING = 1_000
ENDED = Cancelled(ShownError("RunCancelled", "the end"))
STATE = {"question": "why is the sky blue?", "answer": "because of the air " * 8}
SHORT: tuple[Event, ...] = (
    FlowStarted(),
    NodeStarted("start", "StartNode", STATE, 1),
    NodeCompleted("start", "StartNode", STATE, 1),
    NodeStarted("ask", "AgentNode", STATE, 1),
    *(TokenDelta("ask", "hello ") for _ in range(5)),
    NodeCompleted("ask", "AgentNode", STATE, 1),
    NodeStarted("end", "EndNode", STATE, 1),
    NodeCompleted("end", "EndNode", STATE, 1),
    FlowCompleted(STATE),
)
EVENT = TokenDelta("ask", "x" * 150)


def websocket_text(run: str, first: int, events: Sequence[bytes]) -> bytes:
    """What a WebSocket reader is sent, without the frame's head."""
    head = b'{"type":"event","run":"' + run.encode() + b'","seq":'
    parts = [b'%b%d,"event":%b}' % (head, first + n, each) for n, each in enumerate(events)]
    return parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]"


async def follow(log: EventLog) -> int:
    """Read to the end; how many events came."""
    seen = 0
    with Reader(log) as reader:
        async for item in reader:
            if isinstance(item, Batch):
                assert item.framed(websocket_text)
                seen += len(item.events)
    return seen


class Told(NamedTuple):
    """How long a run took, and how fast its readers were given its events."""

    seconds: float
    events_per_second: float


async def told(readers: int) -> Told:
    """What a run of 10,000 events takes while so many follow it."""
    complete = 0

    async def reader() -> None:
        nonlocal complete
        seen = await follow(log)
        complete += seen == EVENTS

    pacer = Pacer()
    log = EventLog("r" * 22, pace=pacer)
    async with trio.open_nursery() as around:
        around.start_soon(pacer.run)
        async with trio.open_nursery() as nursery:
            for _ in range(readers):
                nursery.start_soon(reader)
            await wait_all_tasks_blocked()
            gc.collect()
            gc.disable()
            begin = time.perf_counter()
            for _ in range(EVENTS):
                log.append(EVENT)
                await trio.lowlevel.checkpoint()
            log.finish(ENDED)
            took = time.perf_counter() - begin
        everything = time.perf_counter() - begin
        gc.enable()
        around.cancel_scope.cancel()
    assert complete == readers
    return Told(took, readers * EVENTS / everything)


def many_readers() -> Iterator[Answer]:
    """One reader is the floor of a hundred."""
    delivered = []

    def hundred() -> float:
        run = trio.run(told, READERS)
        delivered.append(run.events_per_second)
        return run.seconds

    slow, alone = alternate(hundred, lambda: trio.run(told, 1).seconds, rounds=15)
    unread = median([trio.run(told, 0).seconds for _ in range(5)])
    yield against_floor(
        "event_log.run_with_100_readers",
        slow * 1e3,
        "ms",
        floor=alone * 1e3,
        limit=1.5,
        detail={"unread": unread * 1e3, "events": EVENTS},
    )
    yield Answer(
        "event_log.delivered",
        median(delivered),
        "events/s",
        limit=100_000,
        better="higher",
        detail={"readers": READERS},
    )


def unread_event() -> Iterator[Answer]:
    """A short run's events written and ended; the floor is encoding them alone."""

    def ours() -> None:
        log = EventLog("r" * 22)
        for event in SHORT:
            log.append(event)
        log.finish(ENDED)

    def floor() -> None:
        EventEncoder(str).encode(SHORT)

    a = median(time_calls(ours, calls=2_000)) / len(SHORT) * 1e6
    b = median(time_calls(floor, calls=2_000)) / len(SHORT) * 1e6
    yield against_floor("event_log.unread_event", a, "µs", floor=b)


class ShortRun:
    """Reports a short run's events in one go."""

    at = None
    executions = 3

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report = report

    async def execute(self, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do it."""
        for event in SHORT:
            self._report(event)
        await trio.lowlevel.checkpoint()
        return STATE


class WaitingRun(ShortRun):
    """Begins, and waits for ever."""

    async def execute(self, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do it."""
        for event in SHORT[:4]:
            self._report(event)
        await trio.sleep_forever()
        raise AssertionError


class Maker:
    """Makes runs of one kind."""

    def __init__(self, kind: type[ShortRun]) -> None:
        self._kind = kind

    def new_run(
        self,
        _prepared: object,
        report: Callable[[Event], None],
        *,
        stream: bool,  # noqa: ARG002
        trace: bool = False,  # noqa: ARG002
    ) -> ShortRun:
        """One."""
        return self._kind(report)


PREPARED: Any = None


def registry() -> Iterator[Answer]:
    """A run from its start to its end; the floor is its task and its events alone."""

    async def ours() -> float:
        async with Runs(Maker(ShortRun)) as runs:
            begin = time.perf_counter()
            for _ in range(2_000):
                run = runs.start(PREPARED, {}, stream=False, detached=False, flow="f")
                await run.wait_ended()
            return (time.perf_counter() - begin) / 2_000

    async def floor() -> float:
        async def one() -> None:
            await ShortRun(lambda _event: None).execute({})
            EventEncoder(str).encode(SHORT)
            ended.set()

        async with trio.open_nursery() as nursery:
            begin = time.perf_counter()
            for _ in range(2_000):
                ended = trio.Event()
                nursery.start_soon(one)
                await ended.wait()
            return (time.perf_counter() - begin) / 2_000

    a, b = alternate(lambda: trio.run(ours), lambda: trio.run(floor))
    yield against_floor("event_log.run", a * 1e6, "µs", floor=b * 1e6)


def resident() -> int:
    """Bytes of memory that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def waiting() -> Iterator[Answer]:
    """1,000 runs that wait with a reader each; then all are cancelled."""

    async def measure() -> tuple[float, float, float]:
        async with (
            trio.open_nursery() as nursery,
            Runs(Maker(WaitingRun), max_concurrent=WAITING) as runs,
        ):
            gc.collect()
            before = resident()
            for _ in range(WAITING):
                run = runs.start(PREPARED, {}, stream=True, detached=False, flow="f")
                nursery.start_soon(follow, run.log)
            await wait_all_tasks_blocked()
            grown = resident() - before
            one = next(iter(runs))
            begin = time.perf_counter()
            one.cancel()
            await one.wait_ended()
            first = time.perf_counter()
            runs.cancel_all(Stop.ASKED)
            await runs.wait_empty()
            ended = time.perf_counter()
            return grown / WAITING / 1024, (first - begin) * 1e3, (ended - first) * 1e3

    kib, one, rest = trio.run(measure)
    yield Answer("event_log.waiting_run", kib, "KiB", detail={"reader": True})
    yield Answer(
        "event_log.cancel_one_of_1000", one, "ms", limit=100, detail={"all others": rest}
    )


def run() -> Iterator[Answer]:
    """All of it."""
    yield from waiting()  # first: memory that was freed before would not count
    yield from unread_event()
    yield from registry()
    yield from many_readers()
