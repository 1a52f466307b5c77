"""How a server starts, what it refuses to start with, and how it ends."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from heddle.server.command import main
from heddle.server.routes.table import ROUTES
from tests.heddle.server.serving import (
    CODE,
    HANDSHAKE,
    PATIENCE,
    STRAIGHT,
    WAITING,
    environment,
    refused,
    server,
    sse,
    write_tools,
)
from tests.support.measuring import unmeasured

MANIFEST = {
    "name": "gate",
    "version": "1.0.0",
    "components": [
        {
            "componentType": "Gate",
            "kind": "middleware",
            "seams": {"node": ["before"]},
            "schema": {
                "type": "object",
                "properties": {"deny": {"type": "array"}},
                "required": ["deny"],
            },
        }
    ],
}
PROGRAM = """
from heddle.plugin import proceed, serve
serve({"Gate": {"node": {"before": lambda event, ctx: proceed()}}})
"""
CONFIG = ("--plugin-config", 'Gate={"deny": []}')


@pytest.fixture
def gate(tmp_path: Path) -> str:
    (tmp_path / "gate.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "gate.py").write_text(PROGRAM)
    return "gate.json"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--tools-dir", "none"), "none"),
        (("--flows-root", "none"), "none'. Make it, or correct --flows-root."),
        (("--plugin", "none.json"), "none.json"),
        (("--plugin", "gate.json"), "deny"),
        (("--plugin", "gate.json", "--plugin", "gate.json", *CONFIG), "gate"),
        (("--plugin", "gate.json", "--plugin-config", "Other={}"), "Other"),
        (("--plugin", "broken.json"), "broken.json"),
        (("--plugin", "lost.json", *CONFIG), "lost"),
        (("--plugin", "dead.json", *CONFIG), "dead"),
        (("--host", "no.such.host.invalid"), "no.such.host.invalid"),
        (("--tls-key", "key.pem"), "--tls-cert"),
        (("--tls-cert", "none.pem"), "none.pem"),
        (("--auth-token", ""), "--auth-token"),
        (("--cors-origin", "app.example"), "'app.example' is no origin"),
        (("--allow-net", "10.0.0.0/33"), "'10.0.0.0/33' is no host and no network"),
        (("--allow-net", "model.internal:8080"), "without scheme and port"),
        (("--socket", "gate.json"), "gate.json"),
    ],
)
def test_what_cannot_be_loaded_is_a_server_that_does_not_start(
    tmp_path: Path, gate: str, flags: tuple[str, ...], words: str
) -> None:
    (tmp_path / "broken.json").write_text("{")
    for name, program in (("lost", None), ("dead", "import sys; sys.exit(3)")):
        (tmp_path / f"{name}.json").write_text(json.dumps({**MANIFEST, "name": name}))
        if program:
            (tmp_path / f"{name}.py").write_text(program)
    status, told = refused(tmp_path, *flags)
    assert status == 1
    assert told.startswith("Error: ")
    assert words in told
    assert "Traceback" not in told
    assert "listening" not in told


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, told = refused(tmp_path, "--port", str(port))
    assert status == 1
    assert f"Error: 127.0.0.1:{port}: it is in use. Stop who uses it" in told


def told_by(flags: Sequence[str], capfd: pytest.CaptureFixture[str]) -> str:
    """The one message of a server that can't start, in this process."""
    assert main(flags) == 1
    told = capfd.readouterr().err
    assert told.count("Error: ") == 1
    assert "Traceback" not in told
    return told


def test_paths_and_addresses_that_cannot_be_served_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for flags, words in (
        (("--socket", str(tmp_path / "none" / "s")), "there is no such folder. Make it"),
        (("--socket", str(tmp_path / "file" / "s")), "there is no such folder"),
        (("--socket", str(tmp_path / "file")), "there is a file of that name"),
        (("--socket", str(tmp_path)), "there is a file of that name"),
        (("--socket", str(tmp_path / ("x" * 150))), "path too long"),
        (("--host", "203.0.113.7", "--port", "0"), "not an address of this machine"),
    ):
        assert words in told_by(flags, capfd)
    for port in ("65536", "-1"):
        assert main(["--port", port]) == 2
        assert "0<=x<=65535" in capfd.readouterr().err


def test_a_dead_socket_is_replaced_and_a_live_one_is_left(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with server(tmp_path, "--socket", "it.sock", port=None):
        told = told_by(["--socket", str(path)], capfd)
        assert "another server listens there. Stop it" in told
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_a_server_does_not_start_that_could_write_no_working_folder(
    tmp_path: Path,
) -> None:
    status, told = refused(tmp_path, TMPDIR=str(tmp_path / "none"))
    assert status == 1
    assert told.startswith(f"Error: TMPDIR: no temporary file can be written in {tmp_path}")
    # A disk that is full, as far as a process can see.
    done = subprocess.run(
        ["sh", "-c", f'ulimit -f 0; exec "{sys.executable}" -B -c "$0" --workers 2', CODE],
        capture_output=True,
        cwd=tmp_path,
        env=unmeasured(environment(tmp_path)),
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count(b"Error: ") == len(done.stderr.splitlines()) == 1
    assert b"on a disk that is not full" in done.stderr


@pytest.mark.parametrize(
    ("shell", "told"),
    [
        ('ulimit -n 6; exec "{python}" -c "$0"', b"may have no more files open"),
        ('exec "{python}" -c "$0" --help >/dev/full', b"stdout: cannot write: No space"),
        ('exec "{python}" -c "$0" --help >&-', b"stdout: it is closed. Leave it open"),
        ('exec "{python}" -c "$0" --version 1</dev/null', b"stdout: it is closed"),
    ],
)
def test_what_the_machine_has_too_little_of_is_told_and_is_no_bug(
    tmp_path: Path, shell: str, told: bytes
) -> None:
    done = subprocess.run(
        ["sh", "-c", shell.format(python=sys.executable), CODE],
        capture_output=True,
        cwd=tmp_path,
        env=unmeasured(environment(tmp_path)),
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"Error: ")
    assert told in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("flags", [("--nonsense",), ("--port", "x"), ("--timeout", "-1")])
def test_wrong_usage_has_a_status_of_its_own(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    status, told = refused(tmp_path, *flags)
    assert status == 2
    assert "Error: " in told


def test_a_word_that_a_flag_does_not_know_gets_a_guess(tmp_path: Path) -> None:
    status, told = refused(tmp_path, "--log-format", "jsno")
    assert status == 2
    assert "'jsno' is not one of 'text', 'json'. Did you mean 'json'?" in told


def test_a_server_that_others_reach_without_a_token_warns(tmp_path: Path) -> None:
    with server(tmp_path, "--host", "0.0.0.0") as served:
        assert "Warning: 0.0.0.0 is reached from other machines" in served.log[0]
    with server(
        tmp_path, "--host", "0.0.0.0", variables={"HEDDLE_AUTH_TOKEN": "t"}
    ) as served:
        assert not any("Warning" in line for line in served.log)


def test_who_reads_the_log_as_json_is_warned_in_json(tmp_path: Path) -> None:
    with server(tmp_path, "--host", "0.0.0.0", "--log-format", "json") as served:
        warning, listening = (json.loads(line) for line in served.log[:2])
    assert warning["level"] == "warning"
    assert warning["event"].startswith("0.0.0.0 is reached from other machines")
    assert listening["event"] == "listening"


def test_a_token_is_asked_for_where_something_is_to_be_had(tmp_path: Path) -> None:
    with server(tmp_path, variables={"HEDDLE_AUTH_TOKEN": "right"}) as served:
        given_to_all = {"/", "/healthz", "/readyz", "/openapi.json"}
        for path in given_to_all:
            assert served.ask("GET", path).status == 200
        # The socket asks in its first message.
        for each in ROUTES:
            if each.path in given_to_all or each.path == "/v1/stream":
                continue
            none = served.ask(each.method, each.path.replace("{id}", "x"))
            assert none.status == 401, each.path
            assert none.headers["www-authenticate"] == "Bearer"
        for given in (
            *("Bearer wrong", "Basic right", "right", "Bearer right2", "Bearer é"),
            *("Bearer", "Bearer ", "Bearer r", "Bearer righ", "Bearer RIGHT"),
        ):
            header = {"Authorization": given.encode().decode("latin-1")}
            assert served.ask("GET", "/v1/runs", headers=header).status == 401
        good = {"Authorization": "Bearer right"}
        body = {"flow": STRAIGHT}
        assert served.ask("POST", "/v1/runs", body).status == 401
        assert served.ask("POST", "/v1/runs", body, good).status == 200
        assert served.ask("OPTIONS", "/v1/runs").status == 204
    assert not any("right" in line for line in served.log)


def test_any_origin_may_be_allowed(tmp_path: Path) -> None:
    with server(tmp_path, "--cors-origin", "*") as served:
        for origin in ("https://a.example", "\xe9"):
            done = served.ask(
                "POST", "/v1/runs?stream=true", {"flow": STRAIGHT}, {"Origin": origin}
            )
            assert done.status == 200
            assert done.headers["access-control-allow-origin"] == "*"
        assert not served.runs("running")


def test_a_unix_socket_serves_as_a_port_does(tmp_path: Path) -> None:
    with server(tmp_path, "--socket", "it.sock", port=None) as served:
        assert served.address.startswith("unix:")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "it.sock"))
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
    assert not (tmp_path / "it.sock").exists()


def test_plugins_are_running_before_the_port_opens(tmp_path: Path, gate: str) -> None:
    (tmp_path / "gate.py").write_text(
        f"open({str(tmp_path / 'started')!r}, 'w').close()\n{PROGRAM}"
    )
    with server(tmp_path, "--plugin", gate, *CONFIG) as served:
        assert (tmp_path / "started").exists()
        assert served.ask("GET", "/v1/capabilities").json["middleware"] == ["Gate"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_idle_server_ends_at_once(tmp_path: Path, number: int) -> None:
    with server(tmp_path) as served:
        served.signal(number)
        assert served.ended() == 0


def test_a_signal_lets_what_goes_on_end(tmp_path: Path) -> None:
    flags = ("--tools-dir", write_tools(tmp_path))
    with (
        server(tmp_path, *flags) as served,
        served.opened("POST", "/v1/runs?stream=true", {"flow": WAITING}) as response,
    ):
        run = served.started()
        served.signal()
        served.line("draining")
        draining = served.ask("GET", "/readyz")
        assert (draining.status, draining.json) == (503, {"status": "draining"})
        assert served.ask("GET", "/healthz").status == 200
        late = served.ask("POST", "/v1/runs", {"flow": STRAIGHT})
        assert (late.status, late.error[0]) == (503, "Draining")
        assert served.ask("GET", "/v1/stream", headers=HANDSHAKE).status == 503
        assert served.ask("DELETE", f"/v1/runs/{run}").status == 202
        assert b"event: error" in response.read()
        assert served.ended() == 0


@pytest.mark.parametrize("again", [True, False])
def test_a_drain_ends_by_its_time_or_by_a_second_signal(
    tmp_path: Path, *, again: bool
) -> None:
    patience = "60000" if again else "200"
    flags = ("--tools-dir", write_tools(tmp_path), "--drain-timeout", patience)
    with (
        server(tmp_path, *flags) as served,
        served.opened("POST", "/v1/runs?stream=true", {"flow": WAITING}) as response,
    ):
        served.started()
        served.signal()
        served.line("draining")
        if again:
            served.signal()
        frames = sse(response.read())
        assert json.loads(frames[-1]["data"])["error"] == {
            "type": "RunCancelled",
            "message": "the server is stopping",
        }
        assert served.ended() == 0


def test_json_logs_are_objects(tmp_path: Path) -> None:
    with server(tmp_path, "--log-format", "json") as served:
        body = {"flow": STRAIGHT, "inputs": {"a": "secret"}}
        run = served.ask("POST", "/v1/runs", body).json["run"]
        line = json.loads(served.line(run))
        assert (line["event"], line["run"], line["flow"]) == ("run", run, "flow")
        assert (line["status"], line["nodes"], line["level"]) == ("completed", 2, "info")
        assert line["seconds"] >= 0
        assert "secret" not in str(line)


def test_the_log_says_that_a_run_failed_and_nothing_of_its_data(tmp_path: Path) -> None:
    tools = Path(write_tools(tmp_path))
    (tools / "wait").write_text("#!/bin/sh\necho secret >&2\nexit 3\n")
    with server(tmp_path, "--tools-dir", str(tools)) as served:
        done = served.ask("POST", "/v1/runs", {"flow": WAITING})
        assert "secret" in done.error[1]
        assert "error=NodeFailed" in served.line("status=failed")
    assert "secret" not in "".join(served.log)


def test_a_server_for_others_answers_to_any_name(tmp_path: Path) -> None:
    stranger = {"Host": "heddle.example"}
    for flags in (("--host", "0.0.0.0"), ("--auth-token", "t"), ("--cors-origin", "*")):
        with server(tmp_path, *flags) as served:
            assert served.ask("GET", "/healthz", headers=stranger).status == 200


def test_nobody_reading_its_log_does_not_stop_it(tmp_path: Path) -> None:
    with server(tmp_path) as served:
        for _ in range(400):
            assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
        assert served.ask("GET", "/healthz").status == 200


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks /proc what is open")
@pytest.mark.parametrize("flags", [(), ("--workers", "2")])
def test_what_it_opens_does_not_take_the_place_of_closed_streams(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """Its log would go into that: into a client's socket, or what workers count in."""
    process = subprocess.Popen(
        [
            "sh",
            "-c",
            'exec "$0" "$@" <&- >&- 2>&-',
            sys.executable,
            "-c",
            CODE,
            "--socket",
            "it.sock",
            *flags,
        ],
        cwd=tmp_path,
        env=environment(tmp_path),
    )
    try:
        until = time.monotonic() + PATIENCE
        # Bound, and listening a moment later.
        with socket.socket(socket.AF_UNIX) as client:
            while client.connect_ex(str(tmp_path / "it.sock")):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.02)
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        opened = [Path(f"/proc/{process.pid}/fd/{n}").resolve() for n in range(3)]
        assert opened == [Path("/dev/null")] * 3
    finally:
        process.terminate()
        status = process.wait(PATIENCE)
    assert status == 0


def descendants(pid: int) -> set[int]:
    """The processes below one."""
    listing = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, check=True, text=True
    ).stdout
    parents = {int(a): int(b) for a, b in (line.split() for line in listing.splitlines())}
    found: set[int] = set()
    while True:
        more = {p for p, parent in parents.items() if parent in {pid, *found}} - found
        if not more:
            return found
        found |= more


def test_a_client_that_goes_away_ends_its_run_and_frees_its_slot(tmp_path: Path) -> None:
    flags = ("--tools-dir", write_tools(tmp_path), "--max-concurrent", "1")
    with server(tmp_path, *flags) as served:
        for query in ("", "?stream=true"):
            (tmp_path / "begun").unlink(missing_ok=True)
            body = json.dumps({"flow": WAITING}).encode()
            with socket.create_connection(("127.0.0.1", served.port)) as client:
                client.sendall(
                    b"POST /v1/runs%b HTTP/1.1\r\nHost: localhost\r\n"
                    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                    % (query.encode(), len(body), body)
                )
                run = served.started()
                served.until((tmp_path / "begun").exists)
                full = served.ask("POST", "/v1/runs", {"flow": STRAIGHT})
                assert (full.status, full.error[0]) == (429, "TooManyRuns")
                assert 1 <= int(full.headers["retry-after"]) <= 30
                left = time.monotonic()
            served.until(lambda: not served.runs("running"))
            took = time.monotonic() - left
            shown = served.ask("GET", f"/v1/runs/{run}").json
            assert shown["status"] == "cancelled"
            assert "went away" in shown["error"]["message"]
            assert took < 10  # promised is one second, on a machine that is not busy
            tool = int((tmp_path / "begun").read_text())
            served.until(lambda tool=tool: not Path(f"/proc/{tool}").exists())
            served.until(lambda: not descendants(served.process.pid))
            assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
            assert not list((tmp_path / "tmp").glob("*/*"))


def test_a_run_that_takes_too_long_is_a_504(tmp_path: Path) -> None:
    flags = ("--tools-dir", write_tools(tmp_path), "--timeout", "200")
    with server(tmp_path, *flags) as served:
        done = served.ask("POST", "/v1/runs", {"flow": WAITING})
        assert (done.status, done.error[0]) == (504, "RunTimedOut")


def test_a_failed_run_is_a_500_that_names_no_folder(tmp_path: Path) -> None:
    tools = Path(write_tools(tmp_path))
    (tools / "wait").write_text(
        f"#!/bin/sh\necho {tmp_path}/secret is missing >&2\nexit 3\n"
    )
    with server(tmp_path, "--tools-dir", str(tools)) as served:
        done = served.ask("POST", "/v1/runs", {"flow": WAITING})
        assert (done.status, done.error[0]) == (500, "NodeFailed")
        assert str(tmp_path) not in done.body.decode()
        assert "is missing" in done.error[1]
        shown = served.ask("GET", f"/v1/runs/{served.runs()[0]['run']}/events").body
        assert str(tmp_path) not in shown.decode()
