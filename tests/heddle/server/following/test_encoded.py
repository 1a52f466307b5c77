"""A streamed run as an encoder renders it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec import Raw

from heddle.events import TokenDelta
from heddle.server.endings import Completed
from heddle.server.following.encoded import EncodedStream, is_sse, plain_bytes, sse_bytes
from heddle.server.following.log import EventLog, LogLimits
from heddle.server.following.reader import Reader
from heddle.server.following.sse import COMMENT, HEARTBEAT
from plugins_host import EncodedFrame, Encoder, HandlerTable, InProcessPlugin
from tests.heddle.server.serving import STRAIGHT, WAITING, Served, server, sse, write_tools

PROGRAM = """
import os
import sys

def say(text):
    print(text, file=sys.stderr, flush=True)

def encode(event, ctx):
    kind = event["type"]
    if kind == "node_start" and event["state"].get("crash"):
        sys.stderr.flush()
        os._exit(7)
    if kind == "node_start" and event["state"].get("fails"):
        return "cannot"
    if kind == "error" and NAME == "deaf":
        return []
    return [{"event": kind, "data": {"run": ctx.run_id, "error": event.get("error")}}]

def finish(ctx):
    say(f"finished {ctx.run_id}")
    return [] if NAME == "deaf" else [{"data": "the\\nend"}]

handlers = {"Encoder" + NAME: {"encode": encode, "finish": finish}}

if __name__ == "__main__":
    from heddle.plugin import serve
    serve(handlers)
"""
TYPES = {"lines": "text/event-stream", "deaf": "text/event-stream; x=y", "nd": "a/b"}


def write(folder: Path) -> list[str]:
    """One plugin an encoder; the flags that install them."""
    flags = []
    for name, content_type in TYPES.items():
        component = {
            "componentType": f"Encoder{name}",
            "kind": "encoder",
            "protocol": name,
            "contentType": content_type,
        }
        manifest = {"name": name, "version": "1", "components": [component]}
        (folder / f"{name}.json").write_text(json.dumps(manifest))
        (folder / f"{name}.py").write_text(f"NAME = {name!r}\n{PROGRAM}")
        flags += ["--plugin", str(folder / f"{name}.json")]
    return flags


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("encoders")
    with server(folder, *write(folder), "--tools-dir", write_tools(folder)) as it:
        yield it


def run(served: Served, protocol: str, **inputs: Any) -> Any:
    body = {"flow": STRAIGHT, "inputs": inputs}
    return served.ask("POST", f"/v1/runs?stream=true&protocol={protocol}", body)


def finished(served: Served, identity: str) -> None:
    """The encoder was told once that this run is over."""
    served.line(f"finished {identity}")
    time.sleep(0.05)
    assert sum(f"finished {identity}" in line for line in served.log) == 1


def test_frames_are_events_of_the_stream_under_the_encoders_own_type(
    served: Served,
) -> None:
    answer = run(served, "lines")

    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-store"
    frames = sse(answer.body)
    identity = answer.headers["heddle-run"]
    assert [each.get("event") for each in frames][:2] == ["flow_start", "node_start"]
    assert json.loads(frames[0]["data"])["run"] == identity
    assert answer.body.endswith(b"data: the\ndata: end\n\n")
    finished(served, identity)


def test_any_other_type_is_json_lines_and_text_as_it_is(served: Served) -> None:
    answer = run(served, "nd")

    assert answer.headers["content-type"] == "a/b"
    *lines, first, last = answer.body.decode().split("\n")
    assert [json.loads(each)["error"] for each in lines] == [None] * len(lines)
    assert (first, last) == ("the", "end")


def test_an_encoder_that_fails_ends_the_stream_and_not_the_run(served: Served) -> None:
    answer = run(served, "lines", fails=True)

    assert answer.status == 200
    last = sse(answer.body)[-1]
    assert last["event"] == "error"
    told = json.loads(last["data"])
    assert told["type"] == "error"
    assert told["error"]["type"] == "EncoderFailed"
    identity = answer.headers["heddle-run"]
    served.until(lambda: served.runs("completed"))
    shown = served.ask("GET", f"/v1/runs/{identity}").json
    assert shown["status"] == "completed"
    finished(served, identity)


def test_one_whose_process_dies_ends_the_stream_and_serves_the_next(
    served: Served,
) -> None:
    answer = run(served, "lines", crash=True)

    told = json.loads(sse(answer.body)[-1]["data"])
    assert "exited with status 7" in told["error"]["message"]
    assert run(served, "lines").status == 200


def test_a_run_that_fails_is_told_once_by_the_encoder_or_for_it(served: Served) -> None:
    said = []
    for protocol in ("lines", "deaf"):
        path = f"/v1/runs?stream=true&detach=true&protocol={protocol}"
        with served.opened("POST", path, {"flow": WAITING}) as stream:
            identity = stream.headers["heddle-run"]
            assert served.ask("DELETE", f"/v1/runs/{identity}").status == 202
            frames = [each for each in sse(stream.read()) if each.get("event") == "error"]
        (error,) = frames
        said.append(json.loads(error["data"])["error"])

    assert said[0]["name"] == "RunCancelled"
    assert said[1]["type"] == "RunCancelled"


def test_who_leaves_ends_the_run_and_the_encoder_is_told(served: Served) -> None:
    path = "/v1/runs?stream=true&protocol=lines"
    with served.opened("POST", path, {"flow": WAITING}) as stream:
        identity = stream.headers["heddle-run"]
        assert stream.readline()
        served.started()
    served.until(lambda: not served.runs("running"))

    assert served.ask("GET", f"/v1/runs/{identity}").json["status"] == "cancelled"
    finished(served, identity)


def test_an_unknown_protocol_is_refused_with_a_guess(served: Served) -> None:
    answer = run(served, "line")

    assert answer.status == 400
    assert "there is no protocol 'line'. Did you mean 'lines'?" in answer.error[1]
    assert (
        "stream=true"
        in served.ask("POST", "/v1/runs?protocol=lines", {"flow": STRAIGHT}).error[1]
    )


def test_capabilities_list_protocols(served: Served) -> None:
    shown = served.ask("GET", "/v1/capabilities").json

    assert shown["protocols"] == ["heddle", *TYPES]
    assert shown["middleware"] == []


@pytest.mark.parametrize(
    ("data", "event", "written"),
    [
        (b'{"a":1}', None, b'data: {"a":1}\n\n'),
        (b'{"a":1}', "x", b'event: x\ndata: {"a":1}\n\n'),
        (
            b'"one\\r\\ntwo\\rthree\\n"',
            None,
            b"data: one\ndata: two\ndata: three\ndata: \n\n",
        ),
        (b'{\n"a":\r\n1}', None, b'data: {"a":1}\n\n'),
        (b'"\\ud83d\\ude00"', None, "data: \N{GRINNING FACE}\n\n".encode()),
        (b'""', None, b"data: \n\n"),
    ],
)
def test_no_data_can_begin_another_frame(
    data: bytes, event: str | None, written: bytes
) -> None:
    assert sse_bytes([EncodedFrame(Raw(data), event)]) == written


def test_plain_data_is_written_for_who_reads_lines() -> None:
    frames = [EncodedFrame(Raw(each)) for each in (b'{\n"a":1}', b'"text"', b"3")]

    assert plain_bytes(frames) == b'{"a":1}\ntext3\n'


def test_what_is_an_event_stream_is_seen_by_its_type() -> None:
    assert [is_sse(each) for each in (*TYPES.values(), "TEXT/EVENT-STREAM ;a=b")] == [
        True,
        True,
        False,
        True,
    ]


# --- the stream alone, without a server ---------------------------------------------------


class Written:
    """A writer that keeps what it is given, and may fail."""

    def __init__(self, *, broken: bool = False) -> None:
        self.data = b""
        self._broken = broken

    async def write(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self._broken:
            raise trio.BrokenResourceError
        self.data += data

    def write_last(self, data: bytes) -> None:
        self.data += data


def stream_of(log: EventLog, encode: Any, left: list[str]) -> EncodedStream:
    table = HandlerTable({"E": {"encode": encode}})
    plugin = InProcessPlugin("p", table, capabilities=frozenset(), log=lambda _: None)
    encoder = Encoder("e", "text/event-stream", "E", plugin)
    reader = Reader(log, lag=LogLimits())
    return EncodedStream(encoder, reader, conceal=str, left=lambda: left.append("left"))


async def test_an_encoder_that_is_too_far_behind_has_its_stream_ended() -> None:
    log = EventLog("r", limits=LogLimits(events=10))

    async def encode(event: Any, ctx: Any) -> list[Any]:
        await trio.sleep_forever() if event["delta"] == "stuck" else None
        return []

    left: list[str] = []
    written = Written()
    for number in range(12):
        log.append(TokenDelta("n", str(number)))
    stream = stream_of(log, encode, left)
    log.encode()  # the first two are dropped before anybody has read them
    await stream.write(written)  # type: ignore[arg-type]

    assert "events 1 to 2 were gone before it could take them" in str(stream.failure)
    assert b'event: error\ndata: {"type":"error"' in written.data
    assert left == []


async def test_a_silent_stream_is_kept_alive(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = EventLog("r")
    log.append(TokenDelta("n", "x"))
    written = Written()
    stream = stream_of(log, lambda e, _: [{"data": e["delta"]}], [])

    async def end() -> None:
        await trio.sleep(2.5 * HEARTBEAT)
        log.finish(Completed(Raw(b"{}")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        await stream.write(written)  # type: ignore[arg-type]

    assert written.data == b"data: x\n\n" + COMMENT * 2


async def test_who_cannot_be_written_to_has_left() -> None:
    log = EventLog("r")
    log.append(TokenDelta("n", "x"))
    left: list[str] = []
    stream = stream_of(log, lambda e, _: [{"data": e["delta"]}], left)

    with pytest.raises(trio.BrokenResourceError):
        await stream.write(Written(broken=True))  # type: ignore[arg-type]
    assert left == ["left"]
    assert stream.failure is None
