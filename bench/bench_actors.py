"""What an actor costs: a call, a cast, its memory, and the turns it leaves to others.

Question: is a call cheaper than what one would build from two memory channels, and can
          ten thousand idle actors be afforded?
Workload: calls by one task and by 32 at once, casts in a stream, actors that start and
          end, 10,000 idle actors, and a task that wants its turn beside a flooded actor.
Answer:   µs each, against the same over bare trio memory channels and tasks, in turns in
          the same run; bytes an idle actor, all of its task included.
"""

import gc
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, assert_never

import trio
from msgspec import Struct
from trio.testing import wait_all_tasks_blocked

from actors import MAILBOX_SIZE, Actor, Call, Ending, Ref, Restart, Supervisor
from bench.harness import Answer, against_floor, alternate, percentile

CALLS = 4000
CALLERS = 32
ACTORS = 10_000
AFFORDABLE = 8 * 1024


class Next(Call[int], frozen=True):
    """Answered with the next number."""


class Note(Struct, frozen=True):
    """Counted."""


class Numbers(Actor[Next | Note]):
    """The smallest actor that has state."""

    def __init__(self) -> None:
        self.last = 0

    async def receive(self, message: Next | Note) -> object:
        self.last += 1
        match message:
            case Next():
                return self.last
            case Note():
                return None
            case _:
                assert_never(message)


Timed = Callable[[], Awaitable[float]]


@asynccontextmanager
async def an_actor() -> AsyncIterator[Ref[Next | Note]]:
    async with Supervisor("bench") as supervisor:
        yield supervisor.start(Numbers, name="numbers 1", restart=Restart.TEMPORARY)


def microseconds(start: float, count: int) -> float:
    return (time.perf_counter() - start) / count * 1e6


async def call(callers: int) -> float:
    async with an_actor() as ref:
        last = await ref.call(Next())

        async def caller() -> None:
            for _ in range(CALLS // callers):
                await ref.call(Next())

        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(callers):
                nursery.start_soon(caller)
        spent = microseconds(start, CALLS)
        assert await ref.call(Next()) == last + CALLS + 1
        return spent


async def request(callers: int) -> float:
    """The floor of `call`: one channel to the server, one to each caller for replies."""
    requests, to_serve = trio.open_memory_channel[tuple[Next, trio.MemorySendChannel[int]]](
        MAILBOX_SIZE
    )
    last = 0

    async def server() -> None:
        nonlocal last
        async for _, replies in to_serve:
            last += 1
            await replies.send(last)

    async def caller() -> None:
        to_reply, replies = trio.open_memory_channel[int](1)
        for _ in range(CALLS // callers):
            await requests.send((Next(), to_reply))
            await replies.receive()

    async with trio.open_nursery() as servers:
        servers.start_soon(server)
        await wait_all_tasks_blocked()
        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(callers):
                nursery.start_soon(caller)
        spent = microseconds(start, CALLS)
        requests.close()
    assert last == CALLS
    return spent


async def cast() -> float:
    async with an_actor() as ref:
        await ref.call(Next())
        start = time.perf_counter()
        for _ in range(CALLS):
            await ref.cast(Note())
        last = await ref.call(Next())
        spent = microseconds(start, CALLS)
        assert last == CALLS + 2
        return spent


async def send() -> float:
    """The floor of `cast`: a channel as long as a mailbox, read by one task."""
    notes, to_count = trio.open_memory_channel[Note](MAILBOX_SIZE)
    last = 0

    async def server() -> None:
        nonlocal last
        async for _ in to_count:
            last += 1

    start = time.perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server)
        start = time.perf_counter()
        for _ in range(CALLS):
            await notes.send(Note())
        notes.close()
    assert last == CALLS
    return microseconds(start, CALLS)


async def burst() -> float:
    """Casts of a whole mailbox at a time, without waiting in between."""
    async with an_actor() as ref:
        await ref.call(Next())
        rounds = CALLS // MAILBOX_SIZE
        start = time.perf_counter()
        for _ in range(rounds):
            for _ in range(MAILBOX_SIZE - 1):
                ref.cast_nowait(Note())
            await ref.call(Next())
        return microseconds(start, rounds * MAILBOX_SIZE)


async def send_burst() -> float:
    """The floor of `burst`."""
    notes, to_count = trio.open_memory_channel[int](MAILBOX_SIZE)
    to_reply, replies = trio.open_memory_channel[None](1)

    async def server() -> None:
        async for note in to_count:
            if note == MAILBOX_SIZE - 1:
                await to_reply.send(None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(server)
        rounds = CALLS // MAILBOX_SIZE
        start = time.perf_counter()
        for _ in range(rounds):
            for number in range(MAILBOX_SIZE):
                notes.send_nowait(number)
            await replies.receive()
        spent = microseconds(start, rounds * MAILBOX_SIZE)
        notes.close()
    return spent


async def life() -> float:
    """Start an actor, get one answer, and end it."""
    count = CALLS // 10
    async with Supervisor("bench") as supervisor:
        start = time.perf_counter()
        for _ in range(count):
            ref = supervisor.start(Numbers, name="numbers", restart=Restart.TEMPORARY)
            await ref.call(Next())
            ref.end(Ending.DRAIN)
            await ref.wait_ended()
        return microseconds(start, count)


async def task() -> float:
    """The floor of `life`: a task, channels to and from it, and a scope to end it by."""
    count = CALLS // 10

    async def server(
        requests: trio.MemoryReceiveChannel[None],
        replies: trio.MemorySendChannel[int],
        scope: trio.CancelScope,
        gone: trio.Event,
    ) -> None:
        with scope:
            async for _ in requests:
                await replies.send(1)
        gone.set()

    async with trio.open_nursery() as nursery:
        start = time.perf_counter()
        for _ in range(count):
            to_ask, requests = trio.open_memory_channel[None](MAILBOX_SIZE)
            to_reply, replies = trio.open_memory_channel[int](1)
            gone = trio.Event()
            nursery.start_soon(server, requests, to_reply, trio.CancelScope(), gone)
            await to_ask.send(None)
            await replies.receive()
            to_ask.close()
            await gone.wait()
        return microseconds(start, count)


async def turns_beside_a_flood() -> list[float]:
    """Microseconds between the turns of a task while an actor never runs out of mail."""

    class Flooded(Actor[Note]):
        async def receive(self, message: Note) -> object:
            self.cast_nowait(message)
            return None

    between: list[float] = []
    async with Supervisor("bench") as supervisor:
        ref = supervisor.start(Flooded, name="flooded 1", restart=Restart.TEMPORARY)
        for _ in range(MAILBOX_SIZE // 2):
            await ref.cast(Note())
        last = time.perf_counter()
        for _ in range(2000):
            await trio.lowlevel.checkpoint()
            now = time.perf_counter()
            between.append((now - last) * 1e6)
            last = now
        ref.end(Ending.KILL)
    return between


async def idle(measure: Callable[[], int]) -> float:
    """What `measure` grows by for each of many idle actors."""
    async with Supervisor("bench") as supervisor:
        supervisor.start(Numbers, name="the first", restart=Restart.TEMPORARY)
        await wait_all_tasks_blocked()
        gc.collect()
        before = measure()
        for number in range(ACTORS):
            supervisor.start(Numbers, name=f"numbers {number}", restart=Restart.TEMPORARY)
        await wait_all_tasks_blocked()
        gc.collect()
        assert len(supervisor.children) == ACTORS + 1
        return (measure() - before) / ACTORS


async def idle_tasks(measure: Callable[[], int]) -> float:
    """The floor of `idle`: as many tasks that each wait on a channel."""
    channels: list[Any] = []
    async with trio.open_nursery() as nursery:
        gc.collect()
        before = measure()
        for _ in range(ACTORS):
            channels.append(trio.open_memory_channel[None](MAILBOX_SIZE))
            nursery.start_soon(channels[-1][1].receive)
        await wait_all_tasks_blocked()
        gc.collect()
        spent = (measure() - before) / ACTORS
        nursery.cancel_scope.cancel()
    return spent


def traced() -> int:
    return tracemalloc.get_traced_memory()[0]


def resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def resident_in_a_fresh_process() -> float | None:
    """Bytes of resident memory for each idle actor; None where /proc does not tell."""
    if not Path("/proc/self/statm").exists():
        return None
    program = "import trio, bench.bench_actors as b; print(trio.run(b.idle, b.resident))"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout)


def run() -> Iterator[Answer]:
    """Time in turns, then weigh."""

    def compare(
        name: str, ours: Timed, floor: Timed, *, limit: float | None = None
    ) -> Answer:
        value, least = alternate(lambda: trio.run(ours), lambda: trio.run(floor))
        return against_floor(name, value, "µs", floor=least, limit=limit)

    yield compare("actors.call", lambda: call(1), lambda: request(1), limit=1.0)
    yield compare(
        f"actors.call, {CALLERS} callers",
        lambda: call(CALLERS),
        lambda: request(CALLERS),
        limit=1.0,
    )
    yield compare("actors.cast", cast, send)
    yield compare("actors.cast_nowait, a mailbox at a time", burst, send_burst)
    yield compare("actors.start, call and end", life, task)

    turns = trio.run(turns_beside_a_flood)
    yield Answer(
        "actors.turn beside a flooded actor",
        percentile(turns, 0.5),
        "µs",
        detail={"p50": percentile(turns, 0.5), "p99": percentile(turns, 0.99)},
    )

    tracemalloc.start()
    bytes_each, floor = trio.run(idle, traced), trio.run(idle_tasks, traced)
    tracemalloc.stop()
    yield Answer(
        "actors.idle, of its memory traced",
        bytes_each,
        "bytes",
        floor=floor,
        limit=AFFORDABLE,
    )
    rss = resident_in_a_fresh_process()
    if rss is not None:
        yield Answer("actors.idle, of resident memory", rss, "bytes", limit=AFFORDABLE)
