"""Interrupted runs: the status, how soon, and what is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heddle.cli.session import PATIENCE
from tests.heddle.cli.conftest import (
    COMMAND,
    WriteFlow,
    WriteTool,
    surroundings,
    tool_node,
)
from tests.heddle.tools.conftest import appears, processes_of

# What a command may take to end, on a machine that is busy with other tests.
SOON = 10


@contextmanager
def running(
    folder: Path, *arguments: str, ready: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """A command that is in the middle of its work."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=surroundings(folder),
        start_new_session=True,
    )
    try:
        appears(ready, within=60)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A file that the tool writes when it is at work."""
    return tmp_path / "ready"


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
@pytest.mark.parametrize("more", [[], ["--protocol", "heddle"]])
def test_a_signal_ends_the_run_its_tools_and_its_folders(
    flow: WriteFlow,
    tool: WriteTool,
    tmp_path: Path,
    ready: Path,
    number: int,
    status: int,
    more: list[str],
) -> None:
    tool("t", f"trap '' TERM; (trap '' TERM; sleep 600) & echo up > {ready}; sleep 600")
    arguments = ["run", flow(tool_node("t")), "--tools-dir", "tools", *more]
    with running(tmp_path, *arguments, ready=ready) as process:
        assert processes_of(tmp_path / "tmp") != []
        process.send_signal(number)
        started = time.monotonic()
        out, told = process.communicate(timeout=SOON)
        assert time.monotonic() - started < SOON
    assert process.returncode == status
    assert told.decode().endswith("Interrupted.\n")
    assert "Traceback" not in told.decode()
    if more:
        assert out.decode().splitlines()[-1].startswith('{"type":"error"')
    else:
        assert out == b""
    assert processes_of(tmp_path / "tmp") == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_stalled_reader_does_not_keep_a_run_from_being_interrupted(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path, ready: Path
) -> None:
    # Far more than a pipe takes, on both streams, and nobody reads either.
    big = "head -c 300000 /dev/zero | tr '\\0' x"
    tool("big", f"printf '{{\"x\":\"'; {big}; printf '\"}}'")
    tool("t", f"echo up > {ready}; exec sleep 600")
    name = flow(tool_node("big"), tool_node("t"))
    for more in (["-v"], ["--protocol", "heddle"]):
        ready.unlink(missing_ok=True)
        arguments = ["run", name, "--tools-dir", "tools", *more]
        with running(tmp_path, *arguments, ready=ready) as process:
            process.send_signal(signal.SIGTERM)
            assert process.wait(SOON) == 143
    assert processes_of(tmp_path / "tmp") == []


@pytest.mark.parametrize(
    "ignored",
    [[signal.SIGHUP, signal.SIGINT], [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]],
)
def test_an_ignored_signal_stays_ignored(
    flow: WriteFlow,
    tool: WriteTool,
    tmp_path: Path,
    ready: Path,
    ignored: list[signal.Signals],
) -> None:
    tool("t", f"echo up > {ready}; while [ -e {ready} ]; do sleep 0.05; done")
    command = " ".join([*COMMAND, "run", flow(tool_node("t")), "--tools-dir", "tools"])
    names = " ".join(each.name.removeprefix("SIG") for each in ignored)
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"trap '' {names}; exec {command}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env=surroundings(tmp_path),
    )
    appears(ready, within=60)
    for number in ignored:
        process.send_signal(number)
    ready.unlink()
    assert process.communicate(timeout=60)[0] == b"{}\n"
    assert process.returncode == 0


def test_a_second_signal_ends_a_run_that_a_policy_inside_heddle_holds_up(
    flow: WriteFlow, tmp_path: Path, ready: Path
) -> None:
    (tmp_path / "stuck.py").write_text(
        f"""
import pathlib, time
manifest = {{
    "name": "stuck", "version": "1",
    "components": [
        {{"componentType": "S", "kind": "middleware", "seams": {{"node": ["before"]}}}}
    ],
}}

def before(event, ctx):
    pathlib.Path({str(ready)!r}).write_text('up')
    time.sleep(600)

handlers = {{"S": {{"node": {{"before": before}}}}}}
"""
    )
    with running(tmp_path, "run", flow(), "--plugin", "stuck.py", ready=ready) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(PATIENCE + 0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(SOON) == 130


def test_a_signal_before_the_run_begins_ends_the_command(
    tmp_path: Path, flow: WriteFlow
) -> None:
    fifo = tmp_path / "input"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*COMMAND, "run", flow(), "--input", f"@{fifo}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        # The file that is being opened when the signal comes is nobody's.
        env=surroundings(tmp_path, {"PYTHONWARNINGS": "ignore"}),
    )
    with fifo.open("wb"):  # opens when the command is there to read
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=60)
    assert (process.returncode, out, told.strip()) == (130, b"", b"Interrupted.")


TYPED = """
import sys

class Typed:
    def find_spec(self, name, *rest):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Typed())
import heddle.__main__ as programs
sys.exit(getattr(programs, sys.argv[2])())
"""


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("heddle.cli.first_light", "main"),
        ("heddle.cli.entry", "main"),
        ("heddle.server.command", "server"),
    ],
)
def test_ctrl_c_at_the_first_import_is_no_traceback(module: str, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TYPED, module, program], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, b"")
