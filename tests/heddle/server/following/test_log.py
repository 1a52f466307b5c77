"""The events of a run: numbered, encoded once, bounded, read at any pace."""

from collections.abc import Sequence
from itertools import cycle

import msgspec
import pytest
import trio
import trio.lowlevel
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from heddle.events import (
    ErrorInfo,
    Event,
    FlowCompleted,
    FlowStarted,
    NodeFailed,
    NodeStarted,
    PluginEmitted,
    TokenDelta,
    ToolReturned,
    Warned,
)
from heddle.server.endings import Cancelled, Completed, Ended, ShownError, concealing
from heddle.server.following.log import (
    BATCH_BYTES,
    BATCH_EVENTS,
    SHARED_BYTES,
    Batch,
    EventLog,
    LogLimits,
)
from heddle.server.following.pacer import Pacer
from heddle.server.following.reader import LAG, Item, Lagged, Reader

ENDED = Cancelled(ShownError("RunCancelled", "it was cancelled on request"))


def event(number: int, size: int = 0) -> Event:
    """One that can be told from others."""
    return TokenDelta("n", f"{number}:" + "x" * size)


def fill(log: EventLog, count: int, *, size: int = 0) -> None:
    """Append numbered events."""
    for _ in range(count):
        log.append(event(log.last + 1, size))


def number(data: bytes) -> int:
    """The number of an event from `event`."""
    return int(msgspec.json.decode(data)["delta"].partition(":")[0])


def numbers(item: Item | None) -> list[int]:
    """The numbers of the events of a batch."""
    assert isinstance(item, Batch)
    assert [number(each) for each in item.events] == list(range(item.first, item.last + 1))
    return list(range(item.first, item.last + 1))


def drain(reader: Reader) -> list[Item]:
    """All that it is given until there is nothing more."""
    items: list[Item] = []
    while (item := reader.take()) is not None:
        items.append(item)
    return items


# -- what is written --------------------------------------------------------------------


def test_events_are_numbered_from_one() -> None:
    log = EventLog("r")
    assert (log.first, log.last) == (1, 0)
    fill(log, 3)
    assert (log.first, log.last) == (1, 3)


def test_an_event_is_the_json_of_the_wire() -> None:
    log = EventLog("r")
    log.append(FlowStarted())
    log.append(NodeStarted("ask", "AgentNode", {"q": 1}, 1))
    batch = Reader(log).take()
    assert isinstance(batch, Batch)
    assert batch.events == [
        b'{"type":"flow_start"}',
        b'{"type":"node_start","nodeName":"ask","nodeType":"AgentNode","state":{"q":1},'
        b'"attempt":1}',
    ]


def test_events_are_encoded_once_for_all_readers() -> None:
    log = EventLog("r")
    fill(log, 3)
    first, second = Reader(log).take(), Reader(log).take()
    assert isinstance(first, Batch)
    assert isinstance(second, Batch)
    assert all(a is b for a, b in zip(first.events, second.events, strict=True))


def test_readers_who_are_level_share_what_they_send() -> None:
    made: list[int] = []

    def framing(_run: str, first: int, events: Sequence[bytes]) -> bytes:
        made.append(first)
        return b"".join(events)

    log = EventLog("r")
    one, other = Reader(log), Reader(log)
    fill(log, 3)
    for reader in (one, other):
        batch = reader.take()
        assert isinstance(batch, Batch)
        assert batch.framed(framing) == b"".join(batch.events)
    assert made == [1]


def test_readers_who_go_through_the_past_share_it_wherever_they_began() -> None:
    made: list[int] = []

    def framing(_run: str, first: int, events: Sequence[bytes]) -> bytes:
        made.append(first)
        return b"".join(events)

    log = EventLog("r")
    fill(log, 5 * BATCH_EVENTS + 7)
    readers = [Reader(log, start) for start in (1, 1, 1, 500, BATCH_EVENTS + 1)]
    log.finish(ENDED)
    seen: list[int] = []
    while any(items := [reader.take() for reader in readers]):
        for item in items:
            if isinstance(item, Batch):
                seen.append(len(numbers(item)))
                item.framed(framing)
    assert sum(seen) == 3 * log.last + (log.last - 499) + (log.last - BATCH_EVENTS)
    # Two where they begin, and then one for all.
    assert sorted(made) == [1, 500, *(n * BATCH_EVENTS + 1 for n in range(1, 6))]


def test_what_readers_share_is_bounded() -> None:
    log = EventLog("r", limits=LogLimits(bytes=16 * SHARED_BYTES))
    fill(log, 100, size=SHARED_BYTES // 10)
    one, other = Reader(log), Reader(log)
    drain(one)
    assert log._shared is not None
    kept = [each for batch in log._shared.values() for each in batch.events]
    assert len(kept) > 1
    assert sum(map(len, kept)) <= SHARED_BYTES
    other.close()
    one.close()
    assert log._shared is None


def test_readers_who_are_not_level_are_each_given_all_that_they_lack() -> None:
    log = EventLog("r")
    ahead, behind = Reader(log), Reader(log)
    fill(log, 3)
    assert numbers(ahead.take()) == [1, 2, 3]
    fill(log, 2)
    assert numbers(behind.take()) == [1, 2, 3, 4, 5]
    assert numbers(ahead.take()) == [4, 5]


def test_an_event_that_has_no_json_is_told_as_a_warning_in_its_place() -> None:
    log = EventLog("r")
    fill(log, 1)
    log.append(NodeStarted("n", "T", {"odd": "\ud800"}, 1))
    log.append(PluginEmitted("plugin:A:b\n", "n", "T", object()))
    log.append(event(4))
    batch = Reader(log).take()
    assert isinstance(batch, Batch)
    assert msgspec.json.decode(batch.events[1]) == {
        "type": "warning",
        "message": "event 'NodeStarted' has no JSON (UnicodeEncodeError)",
    }
    assert b"plugin:A:b\\\\n" in batch.events[2]
    assert number(batch.events[3]) == 4


def test_the_result_is_not_encoded_again_for_the_last_event() -> None:
    log = EventLog("r")
    result = {"a": 1}
    log.append(FlowCompleted(result))
    known = b'{"known":"%b"}' % (b"already" * 1000)
    log.finish(Completed(Raw(known)), result)
    batch = Reader(log).take()
    assert isinstance(batch, Batch)
    assert batch.events == [b'{"type":"flow_complete","state":%b}' % known]


def test_the_servers_folders_are_struck_out_of_errors_and_warnings() -> None:
    log = EventLog("r", conceal=concealing(["/srv/tools"]))
    error = ErrorInfo("ToolUnusable", "/srv/tools/a: no such file, /srv/toolshed is")
    log.append(NodeFailed("n", "T", error, 1))
    log.append(ToolReturned("n", "t", "1", 5.0, None, error))
    log.append(Warned("look in /srv/tools"))
    log.append(ToolReturned("n", "t", "1", 5.0, {"path": "/srv/tools"}))
    batch = Reader(log).take()
    assert isinstance(batch, Batch)
    for each in batch.events[:2]:
        message = msgspec.json.decode(each)["error"]["message"]
        assert message == "…/a: no such file, /srv/toolshed is"
    assert msgspec.json.decode(batch.events[2])["message"] == "look in …"
    # What a tool returned on purpose is the run's own data.
    assert b"/srv/tools" in batch.events[3]


def test_nothing_is_added_after_the_end() -> None:
    log = EventLog("r")
    fill(log, 1)
    log.finish(ENDED)
    fill(log, 1)
    assert log.last == 1


# -- what is kept -----------------------------------------------------------------------


def test_the_oldest_events_are_dropped_beyond_the_count() -> None:
    log = EventLog("r", limits=LogLimits(events=10))
    fill(log, 100)
    log.encode()
    assert (log.first, log.last) == (91, 100)


def test_the_oldest_events_are_dropped_beyond_the_bytes() -> None:
    log = EventLog("r", limits=LogLimits(bytes=10_000))
    fill(log, 100, size=1000)
    log.encode()
    assert 8_000 < log.size <= 10_000
    assert log.first > 90


def test_an_event_larger_than_all_is_kept_alone() -> None:
    log = EventLog("r", limits=LogLimits(bytes=1000))
    fill(log, 3)
    fill(log, 1, size=5000)
    log.encode()
    assert (log.first, log.last) == (4, 4)


def test_memory_is_bounded_however_long_a_run_is() -> None:
    log = EventLog("r", limits=LogLimits(events=100, bytes=10_000))
    Reader(log)  # one that never reads
    for _ in range(200):
        fill(log, 100, size=100)
        assert log.size <= 10_000
        assert sum(map(len, log._kept)) == log.size
    assert len(log._kept) <= 300
    assert len(log._pending) < 100


# -- what a reader is given -------------------------------------------------------------


def test_everything_that_waits_comes_at_once() -> None:
    log = EventLog("r")
    reader = Reader(log)
    fill(log, 5)
    assert numbers(reader.take()) == [1, 2, 3, 4, 5]
    assert reader.take() is None
    fill(log, 2)
    assert numbers(reader.take()) == [6, 7]


def test_a_reader_begins_where_it_wants_to() -> None:
    log = EventLog("r")
    fill(log, 5)
    assert numbers(Reader(log, 4).take()) == [4, 5]


@pytest.mark.parametrize(("start", "first"), [(-3, 1), (0, 1), (6, 6), (99, 6)])
def test_a_start_that_is_not_there_is_the_nearest_that_is(start: int, first: int) -> None:
    log = EventLog("r")
    fill(log, 5)
    reader = Reader(log, start)
    fill(log, 1)
    assert numbers(reader.take())[0] == first


def test_the_past_is_read_whole_however_long_it_is() -> None:
    log = EventLog("r")
    fill(log, 10 * LAG.events)
    reader = Reader(log)
    seen: list[int] = []
    while batch := reader.take():
        seen += numbers(batch)
        fill(log, 1)
        if len(seen) > 10 * LAG.events:
            break
    assert seen[: 10 * LAG.events] == list(range(1, 10 * LAG.events + 1))


def test_a_batch_is_bounded_by_count_and_by_bytes() -> None:
    log = EventLog("r")
    fill(log, 2 * BATCH_EVENTS)
    assert len(numbers(Reader(log).take())) == BATCH_EVENTS
    log = EventLog("r")
    fill(log, 10, size=BATCH_BYTES // 3)
    assert len(numbers(Reader(log).take())) == 2
    fill(log, 1, size=2 * BATCH_BYTES)
    reader = Reader(log, 11)
    assert len(numbers(reader.take())) == 1


def test_the_end_comes_last_and_once() -> None:
    log = EventLog("r")
    reader = Reader(log)
    fill(log, 1)
    log.finish(ENDED)
    assert numbers(reader.take()) == [1]
    assert reader.take() is ENDED
    assert reader.take() is None


def test_a_late_reader_is_told_what_was_dropped() -> None:
    log = EventLog("r", limits=LogLimits(events=10))
    fill(log, 100)
    log.finish(ENDED)
    lagged, batch, ended = drain(Reader(log))
    assert lagged == Lagged(1, 90)
    assert numbers(batch) == list(range(91, 101))
    assert ended is ENDED
    assert numbers(Reader(log, 95).take())[0] == 95


def test_a_late_reader_is_given_all_that_was_kept() -> None:
    log = EventLog("r", limits=LogLimits(events=5 * LAG.events))
    fill(log, 10 * LAG.events)
    log.finish(ENDED)
    lagged, *batches, _ = drain(Reader(log))
    assert lagged == Lagged(1, 5 * LAG.events)
    assert sum(len(numbers(batch)) for batch in batches) == 5 * LAG.events


def test_a_reader_that_falls_behind_is_told_and_goes_on_with_the_newest() -> None:
    log = EventLog("r")
    reader = Reader(log)
    fill(log, 1)
    reader.take()  # and it is busy with it
    fill(log, LAG.events)
    # Not too far: it gets them all.
    assert numbers(reader.take()) == list(range(2, LAG.events + 2))
    fill(log, LAG.events + 1)
    newest = log.last
    lagged = reader.take()
    assert lagged == Lagged(LAG.events + 2, newest - LAG.events // 2)
    assert numbers(reader.take())[-1] == newest
    assert reader.take() is None
    assert log.tally.lagged == 1
    assert log.tally.missed == LAG.events // 2 + 1


def test_a_reader_that_lagged_is_not_told_so_again_before_it_has_read() -> None:
    log = EventLog("r")
    reader = Reader(log)
    fill(log, 1)
    reader.take()
    fill(log, 2 * LAG.events)
    lagged = reader.take()
    assert isinstance(lagged, Lagged)
    fill(log, LAG.events)
    assert numbers(reader.take())[0] == lagged.last + 1


def test_a_reader_falls_behind_by_bytes_too() -> None:
    log = EventLog("r")
    reader = Reader(log)
    fill(log, 1)
    reader.take()
    fill(log, 5, size=LAG.bytes // 4)
    assert reader.take() == Lagged(2, 5)
    assert numbers(reader.take()) == [6]


def test_one_event_is_never_too_far_behind() -> None:
    log = EventLog("r")
    reader = Reader(log)
    fill(log, 1)
    reader.take()
    fill(log, 1, size=2 * LAG.bytes)
    assert numbers(reader.take()) == [2]


def test_what_comes_at_once_while_a_reader_waits_is_not_its_fault() -> None:
    log = EventLog("r")
    reader = Reader(log)
    fill(log, 1)
    assert numbers(reader.take()) == [1]
    assert reader.take() is None
    fill(log, 3 * LAG.events)
    seen = [each for item in drain(reader) for each in numbers(item)]
    assert seen == list(range(2, 3 * LAG.events + 2))


def test_what_was_missed_can_be_read_by_another_reader() -> None:
    log = EventLog("r")
    reader = Reader(log)
    fill(log, 1)
    reader.take()
    fill(log, 2 * LAG.events)
    lagged = reader.take()
    assert isinstance(lagged, Lagged)
    again = Reader(log, lagged.first)
    assert numbers(again.take())[0] == lagged.first


def test_a_reader_whose_past_was_dropped_goes_on_with_the_newest() -> None:
    log = EventLog("r", limits=LogLimits(events=5000))
    fill(log, 5000)
    reader = Reader(log)
    assert numbers(reader.take())[0] == 1
    fill(log, 6000)
    lagged = reader.take()
    assert lagged == Lagged(BATCH_EVENTS + 1, log.last - LAG.events // 2)


def test_who_waits_for_many_readers_is_told_once_when_there_is_something() -> None:
    log = EventLog("r")
    told: list[str] = []
    reader = Reader(log, ready=lambda: told.append("ready"))
    fill(log, 1)
    assert told == []  # it has not said yet that it read everything
    assert numbers(reader.take()) == [1]
    assert reader.take() is None
    assert reader.take() is None
    fill(log, 3)
    assert told == ["ready"]
    assert numbers(reader.take()) == [2, 3, 4]
    assert reader.take() is None
    log.finish(ENDED)
    assert told == ["ready", "ready"]
    assert reader.take() is ENDED


async def test_one_of_several_has_one_batch_a_turn(autojump_clock: MockClock) -> None:
    pacer = Pacer()
    log = EventLog("r", pace=pacer)
    turns: list[float] = []
    reader = Reader(log, ready=turns.clear, turn=lambda: turns.append(trio.current_time()))
    Reader(log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pacer.run)
        fill(log, 3 * BATCH_EVENTS)
        assert reader.take() is None  # it is there since before them
        for turn in range(1, 4):
            await trio.sleep(1)
            assert len(turns) == turn
            assert len(numbers(reader.take())) == BATCH_EVENTS
            assert reader.take() is None
        await trio.sleep(1)
        assert len(turns) == 3
        nursery.cancel_scope.cancel()


def test_a_reader_that_cannot_be_woken_is_nobody_elses_trouble(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> None:
        raise ValueError("a connection with a bug")

    log = EventLog("r")
    told: list[str] = []
    for ready in (broken, lambda: told.append("ready")):
        assert Reader(log, ready=ready).take() is None
    fill(log, 1)
    assert told == ["ready"]
    assert log.last == 1
    assert "could not be woken" in caplog.text


def test_a_closed_reader_is_told_nothing() -> None:
    log = EventLog("r")
    told: list[str] = []
    with Reader(log, ready=lambda: told.append("ready")) as reader:
        assert reader.take() is None
        assert (log.readers, log.tally.readers) == (1, 1)
    reader.close()
    assert (log.readers, log.tally.readers) == (0, 0)
    fill(log, 1)
    assert told == []
    with pytest.raises(trio.ClosedResourceError):
        reader.take()


# -- waiting ----------------------------------------------------------------------------


async def test_a_reader_waits_for_the_next_event() -> None:
    log = EventLog("r")
    seen: list[Item] = []

    async def follow() -> None:
        with Reader(log) as reader:
            async for item in reader:
                seen.append(item)  # noqa: PERF401  to be seen while it goes on

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await wait_all_tasks_blocked()
        fill(log, 3)
        assert seen == []
        await wait_all_tasks_blocked()
        assert [numbers(item) for item in seen] == [[1, 2, 3]]
        log.finish(ENDED)
    assert seen[-1] is ENDED


async def test_a_reader_of_an_ended_run_does_not_wait() -> None:
    log = EventLog("r")
    fill(log, 1)
    log.finish(ENDED)
    with Reader(log) as reader:
        assert numbers(await reader.next()) == [1]
        assert await reader.next() is ENDED
        with pytest.raises(trio.EndOfChannel):
            await reader.next()


async def test_a_cancelled_wait_takes_nothing_and_is_not_woken(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    log = EventLog("r")
    reader = Reader(log)
    with trio.move_on_after(1):
        await reader.next()
    fill(log, 1)
    assert numbers(await reader.next()) == [1]
    with trio.CancelScope() as scope:
        scope.cancel()
        fill(log, 1)
        await reader.next()
    assert numbers(await reader.next()) == [2]
    assert caplog.records == []


async def test_closing_ends_a_wait() -> None:
    log = EventLog("r")
    reader = Reader(log)

    async def close_it() -> None:
        await wait_all_tasks_blocked()
        reader.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close_it)
        with pytest.raises(trio.ClosedResourceError):
            await reader.next()


async def test_reading_what_is_there_lets_others_run() -> None:
    log = EventLog("r")
    with Reader(log) as reader:
        fill(log, 1)
        with assert_checkpoints():
            await reader.next()


# -- many readers -----------------------------------------------------------------------


async def test_many_readers_are_woken_less_often_than_events_come(
    autojump_clock: MockClock,
) -> None:
    pacer = Pacer()
    log = EventLog("r", pace=pacer)
    batches: list[list[int]] = []

    async def follow() -> None:
        with Reader(log) as reader:
            async for item in reader:
                if isinstance(item, Batch):
                    batches.append(numbers(item))
                    await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as around:
        around.start_soon(pacer.run)
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(follow)
            await wait_all_tasks_blocked()
            for _ in range(1000):
                fill(log, 1)
                await trio.sleep(0.0001)
            log.finish(ENDED)
        around.cancel_scope.cancel()
    assert sum(map(len, batches)) == 100 * 1000
    # One at once, then one each 10 ms: 100 readers at a tenth of a millisecond.
    turns = {tuple(batch) for batch in batches}
    assert 5 <= len(turns) <= 15
    assert len(batches) == 100 * len(turns)


async def test_who_joins_late_catches_up_at_once(autojump_clock: MockClock) -> None:
    pacer = Pacer()
    log = EventLog("r", pace=pacer)
    others = [Reader(log) for _ in range(50)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pacer.run)
        fill(log, 5)
        for reader in others:
            assert numbers(await reader.next()) == [1, 2, 3, 4, 5]
        fill(log, 1)  # to be read in the next turn
        with Reader(log) as late:
            assert numbers(late.take()) == [1, 2, 3, 4, 5]
            assert trio.current_time() == 0
            assert numbers(await late.next()) == [6]
            assert 0 < trio.current_time() < 1
        nursery.cancel_scope.cancel()


async def test_a_reader_alone_is_woken_at_once() -> None:
    pacer = Pacer()
    log = EventLog("r", pace=pacer)
    seen: list[list[int]] = []

    async def follow() -> None:
        with Reader(log) as reader:
            async for item in reader:
                if isinstance(item, Batch):
                    seen.append(numbers(item))  # noqa: PERF401  to be seen meanwhile

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        for _ in range(5):
            await wait_all_tasks_blocked()
            fill(log, 1)
        await wait_all_tasks_blocked()
        log.finish(ENDED)
    assert seen == [[1], [2], [3], [4], [5]]


async def test_readers_who_are_held_up_delay_nobody_for_long(
    autojump_clock: MockClock,
) -> None:
    pacer = Pacer()
    log = EventLog("r", pace=pacer)
    late: list[float] = []

    async def held_up() -> None:
        with Reader(log) as reader:
            async for _ in reader:
                await trio.sleep(1000)

    async def follow() -> None:
        with Reader(log) as reader:
            async for item in reader:
                if isinstance(item, Batch):
                    late.append(trio.current_time() - came[item.last])  # noqa: PERF401

    came: dict[int, float] = {}
    async with trio.open_nursery() as around:
        around.start_soon(pacer.run)
        async with trio.open_nursery() as nursery:
            for _ in range(9):
                around.start_soon(held_up)
            nursery.start_soon(follow)
            await wait_all_tasks_blocked()
            for _ in range(100):
                fill(log, 1)
                came[log.last] = trio.current_time()
                await trio.sleep(0.5)
            log.finish(ENDED)
        around.cancel_scope.cancel()
    assert len(late) == 100
    assert max(late) <= 10 * 2e-3


# -- laws -------------------------------------------------------------------------------


class Model:
    """What a reader must have been given: nothing twice, nothing unsaid."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.next = reader.position + 1
        self.ended = False

    def see(self, item: Item | None) -> None:
        """Check one item."""
        if item is None:
            return
        assert not self.ended
        if isinstance(item, Ended):
            self.ended = True
            assert self.next == self.reader.log.last + 1
            return
        assert item.first == self.next
        assert item.last >= item.first
        if isinstance(item, Batch):
            numbers(item)
        self.next = item.last + 1
        assert self.reader.position == item.last


OPERATIONS: st.SearchStrategy[list[tuple[str, int]]] = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 150)),
        st.tuples(st.just("large"), st.integers(1, 3)),
        st.tuples(st.just("open"), st.integers(-2, 300)),
        st.tuples(st.just("take"), st.integers(0, 5)),
        st.tuples(st.just("close"), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(OPERATIONS, st.integers(1, 80), st.integers(100, 8000), st.integers(1, 300))
@settings(deadline=None)
def test_whatever_happens_a_reader_gets_each_event_or_is_told_that_it_missed_it(
    operations: list[tuple[str, int]], events: int, size: int, lag: int
) -> None:
    log = EventLog("r", limits=LogLimits(events, size))
    models: list[Model] = []
    for what, how in operations:
        match what:
            case "append":
                fill(log, how)
            case "large":
                fill(log, how, size=1500)
            case "open":
                models.append(Model(Reader(log, how, lag=LogLimits(lag, 2000))))
            case "close" if models:
                models.pop(how % len(models)).reader.close()
            case "take" if models:
                model = models[how % len(models)]
                model.see(model.reader.take())
            case _:
                pass
        assert log.readers == len(models)
    log.finish(ENDED)
    late = Model(Reader(log))
    for model in (*models, late):
        while (item := model.reader.take()) is not None:
            model.see(item)
        assert model.ended


@given(OPERATIONS)
def test_a_reader_that_keeps_up_misses_nothing(operations: list[tuple[str, int]]) -> None:
    log = EventLog("r", limits=LogLimits(200, 100_000))
    model = Model(Reader(log, lag=LogLimits(160, 100_000)))
    for what, how in operations:
        if what == "append":
            fill(log, how)
            while (item := model.reader.take()) is not None:
                assert isinstance(item, Batch)
                model.see(item)
    assert log.tally.lagged == 0


RUNS = st.lists(
    st.tuples(st.integers(1, 30), st.sampled_from([0, 0.001, 0.1])), max_size=20
)
"""How many events come, and the seconds until the next ones do."""

READERS = st.lists(
    st.lists(
        st.tuples(st.sampled_from([0, 0.003, 0.2, 5]), st.sampled_from([0.001, 1, 100])),
        min_size=1,
    ),
    max_size=6,
)
"""The seconds that each reader is busy with what it read, and that it waits for more
before it does something else and comes back."""


@given(RUNS, READERS, st.booleans())
@settings(deadline=None, max_examples=80)
def test_readers_of_any_speed_never_slow_the_run(
    run: list[tuple[int, float]], readers: list[list[tuple[float, float]]], paced: bool
) -> None:
    async def main() -> None:
        pacer = Pacer()
        limits = LogLimits(events=50, bytes=2000)
        log = EventLog("r", limits=limits, pace=pacer if paced else None)

        async def follow(habits: list[tuple[float, float]]) -> None:
            with Reader(log, lag=LogLimits(20, 1000)) as reader:
                model = Model(reader)
                for busy, patience in cycle(habits):
                    with trio.move_on_after(patience):
                        model.see(await reader.next())
                    if model.ended:
                        return
                    await trio.sleep(busy)

        async with trio.open_nursery() as around:
            around.start_soon(pacer.run)
            async with trio.open_nursery() as nursery:
                for habits in readers:
                    nursery.start_soon(follow, habits)
                began = trio.current_time()
                for count, pause in run:
                    fill(log, count)
                    await trio.sleep(pause)
                log.finish(ENDED)
                took = trio.current_time() - began
            around.cancel_scope.cancel()
        assert took == pytest.approx(sum(pause for _, pause in run))
        assert log.readers == 0

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("limits", [LogLimits(), LogLimits(events=3), LogLimits(bytes=90)])
async def test_a_short_run_is_told_alike_to_who_came_in_time_and_who_did_not(
    limits: LogLimits,
) -> None:
    followed, unfollowed = (EventLog("r", limits=limits) for _ in range(2))
    early = Reader(followed)
    for log in (followed, unfollowed):
        fill(log, 5, size=20)
        log.finish(Completed(Raw(b"{}")), {})
    assert (unfollowed.size, unfollowed.first) == (followed.size, followed.first)
    late = Reader(unfollowed)
    for _ in range(3):
        one, other = early.take(), late.take()
        assert type(one) is type(other)
        if isinstance(one, Batch):
            assert isinstance(other, Batch)
            assert (other.first, other.events) == (one.first, one.events)
