"""Readers of event streams that stop reading: told what they missed, costing nothing."""

import json
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from heddle.events import PluginEmitted
from heddle.server.endings import Cancelled, Completed, Ending, Failed, ShownError
from heddle.server.following.as_json import EventEncoder
from heddle.server.following.log import EventLog
from heddle.server.following.reader import Lagged, Reader
from heddle.server.following.sse import EventStream, Pulse, frame_of, frames
from tests.heddle.server.serving import LOOPING, TALKATIVE, server, sse


class Written:
    """A client that takes everything, or nothing."""

    def __init__(self) -> None:
        self.data = b""
        self.reads = trio.Event()
        self.reads.set()

    async def write(self, data: bytes) -> None:
        await self.reads.wait()
        self.data += data

    def write_last(self, data: bytes) -> None:
        self.data += data


def emitted(name: str) -> bytes:
    [data] = EventEncoder(str).encode([PluginEmitted(name, "node", "Node")])
    return data


@given(st.text())
def test_no_name_of_an_event_begins_another_frame(name: str) -> None:
    written = frames("run", 1, [emitted(f"plugin:X:{name}"), emitted("plugin:X:last")])
    first, second, rest = written.split(b"\n\n")
    assert rest == b""
    for number, frame in enumerate((first, second), 1):
        lines = frame.split(b"\n")
        assert [line.partition(b": ")[0] for line in lines] == [b"id", b"event", b"data"]
        assert lines[0] == b"id: %d" % number
        assert b"\r" not in frame
    [data] = [line[6:] for line in first.split(b"\n") if line.startswith(b"data: ")]
    assert json.loads(data)["type"] == f"plugin:X:{name}"


@pytest.mark.parametrize(
    ("ending", "event"),
    [
        (Completed(b"{}"), None),  # type: ignore[arg-type]
        (Failed(ShownError("X", "a\nb")), "error"),
        (Cancelled(ShownError("X", "y")), "error"),
    ],
)
def test_only_an_end_that_is_no_event_has_a_frame(
    ending: Ending, event: str | None
) -> None:
    told = sse(frame_of(ending))
    assert [each["event"] for each in told] == ([event] if event else [])


def test_what_was_missed_is_told() -> None:
    [told] = sse(frame_of(Lagged(3, 9)))
    assert json.loads(told["data"]) == {"type": "lagged", "missed": [3, 9]}
    assert told["event"] == "lagged"


async def test_silence_is_broken_by_comments(autojump_clock: object) -> None:
    log = EventLog("run")
    written = Written()
    pulse = Pulse(every=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.run)
        nursery.start_soon(EventStream(Reader(log), pulse).write, written)
        await trio.sleep(25)
        assert written.data == b":\n\n"
        log.append(PluginEmitted("plugin:X:a", "node", "Node"))
        await trio.sleep(1)
        assert sse(written.data)[0]["event"] == "plugin:X:a"
        await trio.sleep(60)
        assert 3 <= written.data.count(b":\n\n") <= 6
        log.finish(Failed(ShownError("X", "y")))
        await trio.sleep(1)
        assert written.data.endswith(b"\n\n")
        assert sse(written.data)[-1]["event"] == "error"
        nursery.cancel_scope.cancel()
    assert log.readers == 0


async def test_a_pulse_never_cuts_what_is_being_written(autojump_clock: object) -> None:
    log = EventLog("run")
    written = Written()
    written.reads = trio.Event()
    pulse = Pulse(every=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.run)
        nursery.start_soon(EventStream(Reader(log), pulse).write, written)
        log.append(PluginEmitted("plugin:X:a", "node", "Node"))
        await trio.sleep(100)
        written.reads.set()
        log.finish(Completed(b"{}"))  # type: ignore[arg-type]
        await trio.sleep(1)
        assert [each["event"] for each in sse(written.data)] == ["plugin:X:a"]
        nursery.cancel_scope.cancel()


async def test_the_last_events_and_the_end_are_written_together() -> None:
    class Counted(Written):
        writes = 0

        async def write(self, data: bytes) -> None:
            self.writes += 1
            await super().write(data)

    log = EventLog("run")
    written = Counted()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(EventStream(Reader(log), Pulse()).write, written)
        await wait_all_tasks_blocked()
        log.append(PluginEmitted("plugin:X:a", "node", "Node"))
        log.finish(Failed(ShownError("X", "y")))
    assert [each["event"] for each in sse(written.data)] == ["plugin:X:a", "error"]
    assert written.writes == 0


def missed_by(told: Sequence[dict[str, str]]) -> list[int]:
    """The numbers of all events that are told of, the missed ones too."""
    seen: list[int] = []
    for each in told:
        if each["event"] == "lagged":
            first, last = json.loads(each["data"])["missed"]
            seen += range(first, last + 1)
        elif "id" in each:
            seen.append(int(each["id"]))
    return seen


def test_a_reader_that_stops_does_not_hold_up_the_run(tmp_path: Path) -> None:
    """Case 29, for event streams: 128 MiB of events, nobody reading."""
    with server(tmp_path, "--max-iterations", "2000") as served:
        body = json.dumps({"flow": LOOPING, "inputs": TALKATIVE}).encode()
        with socket.create_connection(("127.0.0.1", served.port), 60) as client:
            client.sendall(
                b"POST /v1/runs?stream=true HTTP/1.1\r\nHost: localhost\r\n"
                b"Connection: close\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            [run] = served.until(
                lambda: [each for each in served.runs() if each["status"] != "running"]
            )
            assert run["status"] == "failed"
            told = b""
            while piece := client.recv(1 << 20):
                told += piece
    plain = b"".join(unchunked(told.partition(b"\r\n\r\n")[2]))
    told_frames = sse(plain)
    assert missed_by(told_frames) == list(range(1, run["events"] + 1))
    assert any(each["event"] == "lagged" for each in told_frames)
    assert told_frames[-1]["event"] == "error"


def unchunked(data: bytes) -> list[bytes]:
    """The chunks of a body."""
    chunks = []
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            break
        chunks.append(data[:length])
        data = data[length + 2 :]
    return chunks


def test_many_readers_see_the_same(tmp_path: Path) -> None:
    with server(tmp_path, "--max-iterations", "200") as served:
        inputs = {"branching_mapping_key": "on"}
        body = {"flow": LOOPING, "inputs": inputs}
        run = served.ask("POST", "/v1/runs?detach=true", body).json["run"]
        answers: list[bytes] = []

        def read() -> None:
            answers.append(served.ask("GET", f"/v1/runs/{run}/events").body)

        readers = [threading.Thread(target=read) for _ in range(20)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert len(answers) == 20
    assert set(answers) == {answers[0]}
