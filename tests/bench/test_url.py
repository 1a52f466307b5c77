"""Servers driven by their URL: one of ours, and small ones that lack what it has."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from bench import __main__ as command
from bench import driving, offers
from bench.by_url import Sizes
from bench.http_load import Unexpected, load
from bench.model_answers import TEXT
from bench.place import Place
from bench.processes import heddle_server
from bench.socket_frames import masked, messages
from bench.socket_readers import _Reader
from bench.target import TargetError, target

TINY = Sizes(
    seconds=0.05, rounds=1, connections=2, streams=2, wide=(1, 3), events=50, followed=1
)
TOKEN = "a-token-of-the-test"

Driving = Callable[..., tuple[int, list[Any], str]]


@pytest.fixture
def driven(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Driving:
    """Drive with tiny sizes: the exit status, the JSON lines, and what people see."""
    monkeypatch.setattr(driving, "QUICK", TINY)
    monkeypatch.delenv("HEDDLE_AUTH_TOKEN", raising=False)

    def drive(port: int, *line: str) -> tuple[int, list[Any], str]:
        url = f"http://127.0.0.1:{port}"
        status = command.main(["--quick", "--url", url, *line])
        out, err = capsys.readouterr()
        return status, [json.loads(each) for each in out.splitlines()], err

    return drive


def test_a_server_of_ours_is_driven_in_every_way(driven: Driving) -> None:
    flags = ("--allow-net", "127.0.0.1", "--auth-token", TOKEN)
    with heddle_server(*flags) as served:
        status, lines, shown = driven(served.port, "--token", TOKEN)
        refused, _, why = driven(served.port)

    assert status == 0, shown
    _, about, server, *answers = lines
    assert about["about"]["question"].startswith("how does another implementation")
    assert server["server"]["capabilities"]["limits"]["maxConcurrent"] == 64
    by_name = {each["name"]: each for each in answers}
    assert set(by_name) == {
        "url.buffered",
        "url.streamed",
        "url.delivered to 100 readers",
        "url.until 100 readers were told all",
        "url.runs of 3 at once",
    }
    for name in ("url.buffered", "url.streamed"):
        assert by_name[name]["value"] > 0
        assert by_name[name]["ratio"] > 0
        assert by_name[name]["detail"]["cpu_us"] >= 0
    delivered = by_name["url.delivered to 100 readers"]["detail"]
    assert delivered == {"events": 50, "complete": 100}
    assert TOKEN not in json.dumps(lines) + shown

    assert refused == 1
    assert "401" in why
    assert why.endswith(". Show it a token: --token, or $HEDDLE_AUTH_TOKEN.\n")


def test_a_server_that_keeps_flows_from_the_model_is_told_in_one_line(
    driven: Driving,
) -> None:
    with heddle_server() as served:
        status, _, shown = driven(served.port)
    assert status == 1
    assert len(shown.splitlines()) == 1
    assert "does not run the flow of the load: 400: " in shown
    assert "Its model is a stub at 127.0.0.1:" in shown
    assert shown.endswith("must be let reach (heddle-server: --allow-net 127.0.0.1).\n")


class Other(BaseHTTPRequestHandler):
    """Another implementation, which runs one flow: the one that the load sends."""

    protocol_version = "HTTP/1.1"
    timeout = 30
    capabilities: ClassVar[Any] = None
    status: ClassVar[int] = 200
    good_for: ClassVar[int] = 1_000_000
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        if self.path == "/v1/capabilities" and self.capabilities is not None:
            self._answer(200, self.capabilities)
        else:
            self._answer(404, {"error": {"type": "not_found", "message": "no such page"}})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(self.path)
        if len(self.asked) > self.good_for:
            self._answer(503, {"error": {"type": "unavailable", "message": "too much"}})
            return
        self._answer(self.status, {"state": {"answer": TEXT * 5}})

    def _answer(self, status: int, shown: Any) -> None:
        body = json.dumps(shown).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(**how: Any) -> Iterator[int]:
    """One of these, with a few things changed; its port."""
    kind = type("Changed", (Other,), {"asked": [], **how})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_what_a_server_lacks_is_left_out_with_a_reason(driven: Driving) -> None:
    few = {"version": "9", "limits": {"maxConcurrent": 2}}
    with serving(capabilities=few, status=201) as port:
        status, (_, _, server, *results), shown = driven(port)

    assert status == 0
    assert server["server"]["version"] == "9"
    answer, *skipped = results
    assert answer["name"] == "url.buffered"
    assert "cpu_us" not in answer["detail"]
    assert {each["skipped"]: each["reason"] for each in skipped} == {
        "streamed": (
            "POST /v1/runs?stream=true is answered as application/json,"
            " not text/event-stream"
        ),
        "readers": "no WebSocket: GET /v1/stream is answered by 404 Not Found",
        "crowd": (
            "it takes 2 runs at a time, and this is 3: raise its limit"
            " (heddle-server: --max-concurrent 3)"
        ),
    }
    assert "  crowd: left out: it takes 2 runs" in shown


def test_one_that_says_nothing_of_itself_and_closes_each_connection_is_driven_too(
    driven: Driving,
) -> None:
    with serving(protocol_version="HTTP/1.0") as port:
        status, (_, _, server, *results), _ = driven(port, "buffered", "crowd")
    assert status == 0
    assert server["server"]["capabilities"] is None
    assert [each["name"] for each in results] == ["url.buffered", "url.runs of 3 at once"]


def test_one_that_does_not_withstand_a_load_is_told_with_its_answer(
    driven: Driving,
) -> None:
    with serving(good_for=2) as port:
        status, (*_, broken), shown = driven(port, "buffered")
    assert status == 1
    assert broken["failed"] == "buffered"
    assert broken["reason"].startswith("503 Service Unavailable: ")
    assert "  buffered: FAILED: 503 Service Unavailable: " in shown


def test_one_that_answers_something_else_than_its_model_is_not_measured(
    driven: Driving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.by_url.TEXT", "something else")
    with serving() as port:
        status, _, shown = driven(port)
    assert status == 1
    assert "runs the flow of the load to another end than its model says: 200: " in shown


def test_one_that_runs_nothing_detached_is_told_what_it_answers() -> None:
    with serving() as port:
        lacks = offers.no_detached(target(f"http://127.0.0.1:{port}"))
    assert lacks == (
        "no detached runs: POST /v1/runs?detach=true is answered by 200 in place of 202"
        " and a run"
    )


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://127.0.0.1:1", "the load speaks plain HTTP"),
        ("ftp://127.0.0.1:1", "is no URL of a server"),
        ("http://127.0.0.1:port", "is no URL"),
        ("http://me@127.0.0.1:1", "has a user in it"),
        ("http://127.0.0.1:1", "nobody answers at 127.0.0.1:1"),
        ("http://192.0.2.7:1", "is 192.0.2.7, which is not this machine"),
        ("http://[2001:db8::7]:1", "is 2001:db8::7, which is not this machine"),
    ],
)
def test_only_servers_of_this_machine_that_answer_are_driven(url: str, why: str) -> None:
    with pytest.raises(TargetError) as told:
        target(url)
    assert why in str(told.value)


def test_a_token_has_no_line_breaks() -> None:
    with pytest.raises(TargetError, match="--token has characters"):
        target("http://127.0.0.1:1", "a\r\nHost: elsewhere")


def test_flags_of_the_url_go_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (["--allow-remote"], ["--token", "t"], ["--model-host", "::1"]):
        with pytest.raises(SystemExit):
            command.main(line)
        assert f"{line[0]} goes with --url" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--url", "http://127.0.0.1:1", "actors"])
    named = "there is no 'actors'; choose from: buffered, streamed, readers, crowd"
    assert named in capsys.readouterr().err


def test_an_error_in_a_stream_of_events_is_no_success() -> None:
    class Failing(Other):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"event: node_start\ndata: {}\n\nevent: error\ndata: {}\n\n")

    with serving(do_POST=Failing.do_POST) as port, pytest.raises(Unexpected, match="error"):
        load(Place(port), "/v1/runs?stream=true", b"{}", connections=1, count=1)


def test_messages_are_found_between_pings_and_in_pieces() -> None:
    long = b"x" * 70_000
    sent = (
        b"\x81\x03one"
        b"\x01\x02tw\x89\x01p\x80\x01o"
        b"\x81\x7e\x01\x00" + b"y" * 256 + b"\x81\x7f" + len(long).to_bytes(8) + long
    )
    assert list(messages(sent)) == [b"one", b"two", b"y" * 256, long]
    assert list(messages(sent[:-1])) == [b"one", b"two", b"y" * 256]
    assert masked(b"y" * 200)[:4] == b"\x81\xfe\x00\xc8"


@pytest.mark.parametrize("cut", range(1, 40))
def test_the_end_is_seen_wherever_it_is_cut_and_however_it_is_spelt(cut: int) -> None:
    ours, theirs = socket.socketpair()
    reader = object.__new__(_Reader)
    reader.sock, reader.data, reader.ended = ours, [], False
    event, end = b'{"type":"event","node":"end"}', b'a list, {"type" : "end","run":"r"}'
    with ours, theirs:
        for told, ends in ((event, False), (end, True)):
            for piece in filter(None, (told[:cut], told[cut:])):
                theirs.sendall(piece)
                reader.take()
            assert reader.ended is ends
