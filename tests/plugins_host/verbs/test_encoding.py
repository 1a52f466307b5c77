"""Encoders: asked ahead and answered in order, finished once, whatever ends them."""

import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec import Raw
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from plugins_host import (
    EncodedFrame,
    Encoder,
    EncoderFailed,
    Fault,
    Fleet,
    HandlerTable,
    InProcess,
    InProcessPlugin,
    encode_all,
    load_plugins,
)
from plugins_host.frames import Request
from plugins_host.testing import Stage, plugin_pair
from plugins_host.verbs import encoding as encoding_module
from plugins_host.verbs.encoding import Frames


def token(number: int) -> bytes:
    return b'{"type":"token_delta","nodeName":"ask","delta":"%d"}' % number


def encoder_of(plugin: Any) -> Encoder:
    return Encoder("lines", "text/event-stream", "Lines", plugin)


def impatient(encoder: Encoder) -> Encoder:
    return replace(encoder, patience=5)


def inside(**functions: Any) -> Encoder:
    table = HandlerTable({"Lines": functions})
    return encoder_of(
        InProcessPlugin("p", table, capabilities=frozenset(), log=lambda _: None)
    )


async def all_of(encoder: Encoder, events: Sequence[bytes]) -> list[Any]:
    """What the encoder makes of these events, as (event, data)."""
    made: list[EncodedFrame] = []
    batches = [events]

    async def source() -> Sequence[bytes]:
        await trio.lowlevel.checkpoint()
        return batches.pop() if batches else ()

    async def sink(frames: Frames) -> None:
        await trio.lowlevel.checkpoint()
        made.extend(frames)

    async with encoder.encoding("run-1") as encoding:
        try:
            await encode_all(encoding, source, sink)
        except EncoderFailed as failed:
            return [*shown(made), failed]
    return shown(made)


def shown(frames: Sequence[EncodedFrame]) -> list[Any]:
    return [(each.event, json.loads(bytes(each.data))) for each in frames]


@asynccontextmanager
async def staged() -> AsyncIterator[tuple[Encoder, Stage]]:
    """An encoder whose process is test code, started."""
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        nursery.start_soon(plugin.start)
        stage = await troupe.on_stage()
        yield encoder_of(plugin), stage


async def encoded(stage: Stage) -> Request:
    request = await stage.asked("encode")
    stage.answers(request, [{"data": request.id}])
    return request


# --- asked ahead, in order ---------------------------------------------------------------


async def test_events_are_asked_ahead_and_their_frames_come_in_order() -> None:
    async with staged() as (encoder, stage), encoder.encoding("run-1") as encoding:
        for number in range(3):
            encoding.put(token(number))
        requests = [await stage.asked("encode") for _ in range(3)]
        # Answered the wrong way round, as a plugin may that works on several at once.
        for number in (2, 1, 0):
            stage.answers(requests[number], [{"event": "t", "data": number}])
        encoding.finish()
        stage.answers(await stage.asked("finishEncode"), [{"data": "end"}])

        made: list[EncodedFrame] = []
        while (frames := await encoding.next()) is not None:
            made += frames

    assert shown(made) == [("t", 0), ("t", 1), ("t", 2), (None, "end")]
    assert json.loads(bytes(requests[1].params)) == {
        "componentType": "Lines",
        "runId": "run-1",
        "event": json.loads(token(1)),
    }


async def test_no_more_than_a_window_of_questions_is_under_way() -> None:
    async with staged() as (encoder, stage), encoder.encoding("r") as encoding:
        put = 0
        while encoding.has_room:
            encoding.put(token(put))
            put += 1
        waited = trio.Event()

        async def wait() -> None:
            await encoding.wait_room()
            waited.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert not waited.is_set()
            await encoded(stage)
            await encoding.next()
            await waited.wait()
        for _ in range(put - 1):
            await encoded(stage)

        async def finish() -> None:
            stage.answers(await stage.asked("finishEncode"), [])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish)
            encoding.finish()
            while await encoding.next() is not None:
                pass

    assert put == encoding_module.WINDOW


async def test_one_event_that_is_larger_than_the_window_is_asked_alone() -> None:
    async with staged() as (encoder, stage), encoder.encoding("r") as encoding:
        encoding.put(b'{"state":"%b"}' % (b"x" * encoding_module.WINDOW_BYTES))
        assert not encoding.has_room
        await encoded(stage)
        await encoding.next()
        assert encoding.has_room

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_finish, stage)
            encoding.finish()
            assert await encoding.next() == []


async def answer_finish(stage: Stage) -> None:
    stage.answers(await stage.asked("finishEncode"), [])


# --- finished once -----------------------------------------------------------------------

FINISHES = ("end", "left", "cancelled", "failed", "finish failed")


@pytest.mark.parametrize("how", FINISHES)
async def test_finish_is_asked_once_however_it_ends(how: str) -> None:
    calls: list[str] = []

    async def encode(event: Any, ctx: Any) -> list[Any]:
        calls.append(event["type"])
        if how == "cancelled":
            await trio.sleep_forever()
        if how == "failed":
            raise ValueError("no")
        return [{"data": 1}]

    def finish(ctx: Any) -> list[Any]:
        calls.append(f"finish {ctx.run_id}")
        if how == "finish failed":
            raise ValueError("no")
        return []

    encoder = inside(encode=encode, finish=finish)
    with trio.move_on_after(0.05):
        async with encoder.encoding("run-1") as encoding:
            encoding.put(token(1))
            if how in ("end", "finish failed"):
                encoding.finish()
            try:
                while how != "left" and await encoding.next() is not None:
                    pass
            except EncoderFailed:
                pass

    assert calls.count("finish run-1") == 1


async def test_a_process_that_is_gone_is_not_started_again_to_finish() -> None:
    async with plugin_pair() as (plugin, troupe), encoder_of(plugin).encoding("r") as made:
        stage = await troupe.on_stage()
        made.put(token(1))
        made.put(token(2))
        await encoded(stage)
        await stage.asked("encode")
        stage.exits(3)
        assert await made.next() is not None
        with pytest.raises(EncoderFailed, match="exited with status 3"):
            await made.next()
        assert await made.next() is None

    assert len(troupe.stages) == 1


async def test_who_leaves_waits_no_longer_than_a_moment_for_the_last_words(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with staged() as (encoder, stage):
        began = trio.current_time()
        async with encoder.encoding("r") as encoding:
            encoding.put(token(1))
            await stage.asked("encode")
        assert trio.current_time() - began == encoding_module.LAST_WORDS
        await stage.asked("finishEncode")


# --- what goes wrong ----------------------------------------------------------------------

WRONG = {
    "null": (None, "no list of frames|Return a list"),
    "an object": ({"data": 1}, "no list of frames|Return a list"),
    "no data": ([{"event": "x"}], "required field `data`"),
    "a text in it": (["x"], "no list of frames"),
    "an event that is a number": ([{"event": 1, "data": 1}], "no list of frames"),
    "a line feed": ([{"event": "a\nb", "data": 1}], "line break"),
    "a carriage return": ([{"event": "a\rb", "data": 1}], "line break"),
}


@pytest.mark.parametrize("answer", WRONG)
async def test_an_answer_that_is_no_list_of_frames_ends_the_stream(answer: str) -> None:
    import re

    value, said = WRONG[answer]

    async def wrong(stage: Stage) -> None:
        await encoded(stage)
        request = await stage.asked("encode")
        stage.answers(request, value)
        await answer_finish(stage)

    async with staged() as (encoder, stage), trio.open_nursery() as nursery:
        nursery.start_soon(wrong, stage)
        made = await all_of(encoder, [token(1), token(2)])

    here = await all_of(
        inside(encode=lambda e, _: value if e["delta"] == "2" else [{"data": 1}]),
        [token(1), token(2)],
    )
    for each in (made, here):
        assert len(each) == 2  # what was made before stands
        assert isinstance(each[1], EncoderFailed)
        assert re.search(said, str(each[1])), each[1]
        assert "encoder 'lines' (plugin '" in each[1].where


async def test_what_has_no_json_is_the_encoders_fault() -> None:
    (failed,) = await all_of(inside(encode=lambda *_: [{"data": object()}]), [token(1)])

    assert isinstance(failed, EncoderFailed)


async def test_an_encoder_that_says_nothing_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with staged() as (encoder, stage), trio.open_nursery() as nursery:
        nursery.start_soon(answer_finish_after_encode, stage)
        began = trio.current_time()
        (failed,) = await all_of(impatient(encoder), [token(1)])

    assert "did not answer 'encode' within 5 s" in failed.what
    assert trio.current_time() - began < 5 + 2


async def answer_finish_after_encode(stage: Stage) -> None:
    await stage.asked("encode")
    finish = await stage.asked("finishEncode")  # asked for ahead, too
    stage.answers(await stage.asked("cancel"), {})
    stage.answers(finish, [])


async def test_the_budget_of_an_event_begins_when_those_before_it_are_answered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(stage: Stage) -> None:
        for _ in range(4):
            request = await stage.asked("encode")
            await trio.sleep(4)
            stage.answers(request, [])
        await answer_finish(stage)

    async with staged() as (encoder, stage), trio.open_nursery() as nursery:
        nursery.start_soon(slow, stage)
        made = await all_of(impatient(encoder), [token(n) for n in range(4)])

    assert made == []


async def test_an_encoder_keeps_its_process_when_others_move_to_a_fresh_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        nursery.start_soon(plugin.start)
        stage = await troupe.on_stage()
        async with encoder_of(plugin).encoding("r") as encoding:
            with trio.move_on_after(1):
                await plugin.request("execute", b"{}")
            await trio.sleep(1)  # its cancel is not answered: the process is replaced
            assert plugin.counts.retired == 1
            encoding.put(token(1))
            await stage.asked("execute")
            await stage.asked("cancel")
            await encoded(stage)
            assert await encoding.next() != []
            nursery.start_soon(answer_finish, stage)
        await wait_all_tasks_blocked()
        assert stage.killed


async def test_an_encoder_may_ask_for_nothing() -> None:
    async with staged() as (encoder, stage), encoder.encoding("r") as encoding:
        encoding.put(token(1))
        request = await stage.asked("encode")
        refused = await stage.told(stage.asks("log", request, level="info", message="x"))
        stage.answers(request, [])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_finish, stage)
            encoding.finish()
            while await encoding.next() is not None:
                pass

    assert "nothing to ask for" in str(refused)


async def test_what_a_source_or_a_sink_raises_ends_it() -> None:
    encoder = inside(encode=lambda *_: [{"data": 1}])

    async def broken(*_: Any) -> Any:
        await trio.lowlevel.checkpoint()
        raise Fault("the client is gone")

    async def one() -> Sequence[bytes]:
        await trio.lowlevel.checkpoint()
        return [token(1)]

    for source, sink in ((broken, broken), (one, broken)):
        async with encoder.encoding("r") as encoding:
            with pytest.raises(Fault, match="the client is gone"):
                await encode_all(encoding, source, sink)


# --- real processes -----------------------------------------------------------------------

MANIFEST = {
    "version": "1",
    "components": [
        {
            "componentType": "Lines",
            "kind": "encoder",
            "protocol": "lines",
            "contentType": "text/event-stream",
        }
    ],
}
PYTHON = """
import asyncio
import json
seen = []

async def encode(event, ctx):
    number = int(event["delta"])
    seen.append(number)
    await asyncio.sleep(0.001 * (3 - number % 3))   # later ones would be done sooner
    if number == 99:
        raise ValueError("ninety-nine")
    return [{"event": "t", "data": {"at": number, "seen": list(seen), "run": ctx.run_id}}]

def finish(ctx):
    return [{"data": f"end of {len(seen)}"}]

handlers = {"Lines": {"encode": encode, "finish": finish}}

if __name__ == "__main__":
    from heddle.plugin import serve
    serve(handlers)
"""
JAVASCRIPT = """
const seen = [];
serve({ Lines: {
  encode: async (event, ctx) => {
    const number = Number(event.delta);
    seen.push(number);
    await new Promise((resolve) => setTimeout(resolve, 3 - (number % 3)));
    if (number === 99) throw new Error('ninety-nine');
    return [{ event: 't', data: { at: number, seen: [...seen], run: ctx.runId } }];
  },
  finish: () => [{ data: `end of ${seen.length}` }],
} });
"""

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


@pytest.mark.parametrize("language", ["py", pytest.param("mjs", marks=needs_node)])
async def test_an_async_encoder_sees_one_event_at_a_time(
    language: str, tmp_path: Path
) -> None:
    (tmp_path / f"lines.{language}").write_text(PYTHON if language == "py" else JAVASCRIPT)
    (tmp_path / "lines.json").write_text(json.dumps({"name": "lines", **MANIFEST}))
    (plugin,) = load_plugins((str(tmp_path / "lines.json"),)).plugins
    assert not isinstance(plugin.home, InProcess)
    assert plugin.home.program is not None
    async with Fleet([plugin.home.program], log=lambda _: None) as fleet:
        encoder = encoder_of(fleet["lines"])
        *made, last = await all_of(encoder, [token(number) for number in range(9)])
        *_, failed = await all_of(encoder, [token(99), token(1)])

    assert [data["seen"] for _, data in made] == [list(range(n + 1)) for n in range(9)]
    assert {data["run"] for _, data in made} == {"run-1"}
    assert last == (None, "end of 9")
    assert isinstance(failed, EncoderFailed)
    assert "ninety-nine" in failed.what


def test_frames_hold_json_as_it_came() -> None:
    frame = EncodedFrame(Raw(b'{"n":1.50}'))

    assert bytes(frame.data) == b'{"n":1.50}'
