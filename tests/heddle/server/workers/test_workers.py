"""A server of several processes, seen from outside: as one of a single process."""

import json
import os
import re
import resource
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from trio_websocket import open_websocket_url

from heddle.server.supervisor import wait_after
from tests.heddle.server.serving import (
    PATIENCE,
    STRAIGHT,
    WAITING,
    Served,
    refused,
    server,
    sse,
    write_tools,
)
from tests.heddle.server.test_command import CONFIG, MANIFEST, PROGRAM, descendants


def detached(served: Served, count: int) -> list[str]:
    """Runs that wait, on more workers than one."""
    runs: list[str] = []
    while len({run.partition(".")[0] for run in runs}) < 2:
        assert len(runs) < count, f"all of {runs} began in one worker"
        answer = served.ask("POST", "/v1/runs?detach=true", {"flow": WAITING})
        assert answer.status == 202, answer
        runs.append(answer.json["run"])
    return runs


def everywhere(served: Served, path: str, status: int) -> list[Any]:
    """What several connections are answered, whichever worker takes them."""
    answers = [served.ask("GET", path) for _ in range(8)]
    assert {each.status for each in answers} == {status}
    return [each.json for each in answers]


def test_a_client_does_not_see_which_worker_it_met(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--tools-dir", write_tools(tmp_path))
    with server(tmp_path, *flags, "--max-concurrent", "40") as served:
        runs = detached(served, 39)
        for shown in everywhere(served, "/v1/runs", 200):
            assert {each["run"] for each in shown["runs"]} == set(runs)
        for run in (runs[0], runs[-1]):
            for shown in everywhere(served, f"/v1/runs/{run}", 200):
                assert (shown["run"], shown["status"]) == (run, "running")
        everywhere(served, f"/v1/runs/{runs[0]}x", 404)
        assert served.metric("heddle_active_runs") == len(runs)
        assert served.metric("heddle_runs_accepted_total") == len(runs)
        found = served.ask("GET", "/v1/capabilities").json
        assert found["runsInFlight"] == len(runs)

        for _ in range(4):
            shown = trio.run(watched, served.ws)
            assert set(shown["runs"]) == set(runs)
            told = shown["server"]
            assert (told["active"], told["accepted"]) == (len(runs), len(runs))
            assert (told["workers"], told["answering"]) == (2, 2)

        trio.run(follow_and_cancel, served.ws, runs)

        for run in runs:
            frames = sse(served.ask("GET", f"/v1/runs/{run}/events").body)
            assert frames[0]["event"] == "flow_start"
            assert frames[-1]["event"] == "error"
            late = served.ask(
                "GET", f"/v1/runs/{run}/events", headers={"Last-Event-ID": "2"}
            )
            assert sse(late.body)[0]["id"] == "3"
            assert served.ask("DELETE", f"/v1/runs/{run}").status == 409


async def watched(url: str) -> dict[str, Any]:
    """All that a watcher is told at first."""
    with trio.fail_after(PATIENCE):
        async with open_websocket_url(url) as client:
            await client.send_message('{"type":"watch"}')
            told: dict[str, Any] = json.loads(await client.get_message())
    assert told["type"] == "status"
    return told


async def follow_and_cancel(url: str, runs: list[str]) -> None:
    """On one socket: every run is followed to its end, whichever worker has it."""
    async with open_websocket_url(url) as client:
        with trio.fail_after(PATIENCE):
            for run in (*runs, f"{runs[0]}x", f"{runs[-1]}x"):
                await client.send_message(json.dumps({"type": "subscribe", "run": run}))
            for run in runs:
                await client.send_message(json.dumps({"type": "cancel", "run": run}))
            ended: dict[str, str] = {}
            seen: dict[str, list[int]] = {}
            lost = 0
            while len(ended) < len(runs) or lost < 2:
                told = json.loads(await client.get_message())
                for each in told if isinstance(told, list) else [told]:
                    if each["type"] == "event":
                        seen.setdefault(each["run"], []).append(each["seq"])
                    elif each["type"] == "end":
                        ended[each["run"]] = each["status"]
                    else:
                        assert (each["type"], each["status"]) == ("error", 404)
                        lost += 1
    assert ended == dict.fromkeys(runs, "cancelled")
    for numbers in seen.values():
        assert numbers == list(range(1, len(numbers) + 1))
    assert set(seen) == set(runs)


def connections(served: Served) -> list[int]:
    """How many each worker has."""
    text = served.ask("GET", "/metrics").body.decode()
    found = re.findall(r"^heddle_worker_connections\{.*\} (\d+)", text, re.MULTILINE)
    return [int(each) for each in found]


def test_workers_share_the_connections_of_a_burst(tmp_path: Path) -> None:
    with server(tmp_path, "--workers", "2") as served, ExitStack() as stack:
        clients = [stack.enter_context(socket.socket()) for _ in range(64)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", served.port))
        served.until(lambda: sum(connections(served)) >= 64)
        assert min(connections(served)) >= 16


def test_the_limit_of_runs_is_that_of_all_workers_together(tmp_path: Path) -> None:
    flags = ("--workers", "3", "--tools-dir", write_tools(tmp_path))
    with server(tmp_path, *flags, "--max-concurrent", "2") as served:
        answers = [
            served.ask("POST", "/v1/runs?detach=true", {"flow": WAITING}).status
            for _ in range(6)
        ]
        assert answers == [202, 202, 429, 429, 429, 429]


def test_a_worker_that_dies_is_replaced_and_what_it_counted_stays(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "gate.py").write_text(PROGRAM)
    flags = ("--workers", "2", "--plugin", "gate.json", *CONFIG)
    with server(tmp_path, *flags) as served:
        for _ in range(10):
            assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
        asked = 'heddle_consultations_total{half="before",middleware="Gate",seam="node"}'
        assert served.metric("heddle_runs_accepted_total") == 10
        before = served.metric(asked)
        assert before > 0
        pids = workers_of(served)
        os.kill(pids[0], signal.SIGKILL)
        line = served.line("worker ended")
        assert "SIGKILL" in line
        for _ in range(10):
            assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
        served.until(lambda: served.metric("heddle_worker_restarts_total") == 1)
        assert served.metric("heddle_runs_accepted_total") == 20
        assert served.metric('heddle_runs_ended_total{status="completed"}') == 20
        assert served.metric("heddle_run_seconds_count") == 20
        assert served.metric("heddle_run_seconds_sum") > 0
        assert "worker=0" in served.line("worker replaced")
        served.until(lambda: trio.run(watched, served.ws)["server"]["answering"] == 2)
        shown = trio.run(watched, served.ws)
        assert shown["server"]["accepted"] == 20
        [policy] = shown["policies"].values()
        assert (policy["asked"], policy["verdicts"]) == (
            2 * before,
            {"proceed": 2 * before},
        )
        rows = shown["plugins"].values()
        assert [(row["plugin"], row["worker"]) for row in rows] == [
            ("gate", 0),
            ("gate", 1),
        ]
        assert served.metric(asked) == 2 * before


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of others: Linux")
def test_a_worker_that_there_are_no_means_to_start_is_started_later(
    tmp_path: Path,
) -> None:
    with server(tmp_path, "--workers", "2") as served:
        parent = served.process.pid
        _, most = resource.prlimit(parent, resource.RLIMIT_NOFILE)
        resource.prlimit(parent, resource.RLIMIT_NOFILE, (3, most))
        # A signal that has no name of its own.
        os.kill(workers_of(served)[0], signal.SIGRTMIN + 6)
        assert f"was ended by signal {signal.SIGRTMIN + 6}" in served.line("worker ended")
        told = served.line("worker not started")
        assert "this process may have no more files open. Raise the limit" in told
        assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
        served.signal(signal.SIGHUP)
        assert "cannot be started: this process may" in served.line("reload failed")
        resource.prlimit(parent, resource.RLIMIT_NOFILE, (most, most))
        served.line("worker replaced")
        served.signal(signal.SIGHUP)
        served.line("reloaded")


def test_somebody_comes_soon_where_nobody_serves() -> None:
    waits = [wait_after(failures, somebody=False) for failures in (0, 1, 2, 3, 2000)]
    assert waits == [0.25, 0.5, 1.0, 1.0, 1.0]
    waits = [wait_after(failures, somebody=True) for failures in (0, 1, 2, 3, 2000)]
    assert waits == [0.25, 0.5, 1.0, 2.0, 30.0]


def test_a_worker_that_is_stuck_is_seen_from_the_others(tmp_path: Path) -> None:
    with server(tmp_path, "--workers", "2") as served:
        stuck = workers_of(served)[0]
        os.kill(stuck, signal.SIGSTOP)
        up = 'heddle_worker_up{worker="0"}'
        try:
            served.until(lambda: served.metric(up) == 0)
            shown = trio.run(watched, served.ws)["server"]
            assert (shown["workers"], shown["answering"]) == (2, 1)
            since = time.monotonic()
            listed = served.ask("GET", "/v1/runs").json
            assert listed == {"runs": [], "unansweredWorkers": [0]}
            assert time.monotonic() - since < 9
        finally:
            os.kill(stuck, signal.SIGCONT)
        served.until(lambda: served.metric(up) == 1)
        assert served.ask("GET", "/v1/runs").json == {"runs": []}


def test_a_reload_reads_everything_anew_and_drops_no_stream(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "gate.py").write_text(PROGRAM)
    (tmp_path / "config.json").write_text('{"deny": []}')
    flags = ("--plugin", "gate.json", "--plugin-config", "Gate=@config.json")
    tools = ("--tools-dir", write_tools(tmp_path))
    with (
        server(tmp_path, "--workers", "2", *flags, *tools) as served,
        served.opened("POST", "/v1/runs?stream=true", {"flow": WAITING}) as stream,
    ):
        run = served.started()
        (tmp_path / "config.json").write_text('{"deny": 1}')
        served.signal(signal.SIGHUP)
        assert "deny" in served.line("reload failed")
        assert served.ask("GET", "/readyz").status == 200
        (tmp_path / "config.json").write_text('{"deny": []}')
        (tmp_path / "gate.json").write_text(json.dumps({**MANIFEST, "version": "2.0.0"}))
        old = descendants(served.process.pid)
        served.signal(signal.SIGHUP)
        served.line("reloaded")
        assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
        assert descendants(served.process.pid) - old
        assert served.ask("GET", f"/v1/runs/{run}").json["status"] == "running"
        assert served.ask("DELETE", f"/v1/runs/{run}").status == 202
        assert b"event: error" in stream.read()


def test_nothing_is_left_when_the_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "gate.py").write_text(PROGRAM)
    flags = ("--workers", "2", "--plugin", "gate.json", *CONFIG)
    with server(tmp_path, *flags) as served:
        found = descendants(served.process.pid)
        assert len(found) >= 4
        served.process.kill()
        served.process.wait()
        served.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in found))


def test_what_no_worker_can_start_with_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "dead.json").write_text(json.dumps({**MANIFEST, "name": "dead"}))
    (tmp_path / "dead.py").write_text("import sys; sys.exit(3)")
    for flags, words in (
        (("--plugin", "none.json"), "none.json"),
        (("--plugin", "dead.json", *CONFIG), "dead"),
        (("--socket", "dead.json"), "dead.json"),
    ):
        status, told = refused(tmp_path, "--workers", "3", *flags)
        assert status == 1
        assert told.count("Error: ") == 1
        assert words in told
        assert "Traceback" not in told


def test_workers_share_a_unix_socket_and_take_it_away_at_the_end(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--socket", "it.sock")
    with server(tmp_path, *flags, port=None) as served:
        for _ in range(4):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(tmp_path / "it.sock"))
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        served.signal()
        assert served.ended() == 0
    assert not (tmp_path / "it.sock").exists()


def test_workers_drain_together_and_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--tools-dir", write_tools(tmp_path))
    with (
        server(tmp_path, *flags) as served,
        served.opened("POST", "/v1/runs?stream=true", {"flow": WAITING}) as stream,
    ):
        served.started()
        served.signal(signal.SIGINT)
        served.until(lambda: served.ask("GET", "/readyz").status == 503)
        everywhere(served, "/readyz", 503)
        assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 503
        served.signal(signal.SIGINT)
        assert json.loads(sse(stream.read())[-1]["data"])["error"]["type"] == "RunCancelled"
        assert served.ended() == 0


def workers_of(served: Served) -> list[int]:
    """Their processes, as the log names them."""
    found = re.search(r"workers=.?\[([\d, ]+)\]", served.line("listening"))
    assert found
    return [int(each) for each in found[1].split(",")]


def test_a_worker_that_is_told_to_end_lets_its_runs_end(tmp_path: Path) -> None:
    flags = ("--workers", "2", "--tools-dir", write_tools(tmp_path))
    with (
        server(tmp_path, *flags) as served,
        served.opened("POST", "/v1/runs?stream=true", {"flow": WAITING}) as stream,
    ):
        run = served.started()
        os.kill(workers_of(served)[int(run.partition(".")[0])], signal.SIGTERM)
        served.line("retiring")
        everywhere(served, "/readyz", 200)
        assert served.ask("DELETE", f"/v1/runs/{run}").status == 202
        assert b"event: error" in stream.read()
        served.line("worker ended")
