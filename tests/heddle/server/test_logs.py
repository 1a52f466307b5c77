"""The log of a server: whole lines, in order, and nobody waits for it."""

import errno
import json
import logging
import os
import re
import time

import pytest

from heddle.server.logs import MAX_WAITING, RunLine, ServerLog
from heddle.server.serve import Reporter
from plugins_host.plugin_log import PluginLine


class Pipe:
    """Where a log goes to; read when it is closed."""

    def __init__(self) -> None:
        self.reads, self.writes = os.pipe()

    def text(self) -> str:
        os.close(self.writes)
        with os.fdopen(self.reads, "rb") as file:
            return file.read().decode()


def test_lines_come_in_order_and_whole() -> None:
    pipe = Pipe()
    log = ServerLog(json=False, descriptor=pipe.writes)
    for n in range(300):
        log.say("info", "run", n=n, flow="a b")
    log.close()
    lines = pipe.text().splitlines()
    assert [re.sub(r"^\S+ ", "", line) for line in lines] == [
        f"[info] run n={n} flow='a b'" for n in range(300)
    ]
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", lines[0])


@pytest.mark.parametrize("json_", [True, False])
def test_nothing_that_is_logged_can_forge_a_line(*, json_: bool) -> None:
    pipe = Pipe()
    log = ServerLog(json=json_, descriptor=pipe.writes)
    log.say("info", "run", flow="x\n2026 [info] forged\x1b[31m\ud800")
    log.plugin(PluginLine("gate", "stderr", "a\nb\x07"))
    # Of Python's own logging, by whichever package.
    log.say("error", "odd \x1b[31m\n2026 [info] forged\r\x85\u2028forged")
    log.say(
        "error", "broke", traceback="Traceback:\n  x\nE: \x1b[31m\n2026 [info] forged\r"
    )
    log.close()
    text = pipe.text()
    # JSON leaves some characters alone at which Python's own splitting would cut.
    every = text.removesuffix("\n").split("\n") if json_ else text.splitlines()
    lines = [line for line in every if not line.startswith("    ")]
    assert len(lines) == 4
    assert all(re.match(r"\{" if json_ else r"\d{4}-\d\d-", line) for line in lines)
    assert "\x1b" not in text
    assert "\x07" not in text
    if json_:
        assert json.loads(text.splitlines()[1])["plugin"] == "gate"


def test_python_s_logging_ends_up_here_with_its_traceback() -> None:
    pipe = Pipe()
    log = ServerLog(json=True, descriptor=pipe.writes)
    logger = logging.getLogger("heddle.test")
    logger.addHandler(log)
    try:
        try:
            raise ValueError("deep")
        except ValueError:
            logger.exception("it broke")
    finally:
        logger.removeHandler(log)
    log.close()
    [line] = pipe.text().splitlines()
    told = json.loads(line)
    assert (told["event"], told["level"], told["logger"]) == (
        "it broke",
        "error",
        "heddle.test",
    )
    assert "ValueError: deep" in told["traceback"]


@pytest.mark.parametrize("json_", [True, False])
@pytest.mark.parametrize("always", [{}, {"worker": 1}])
def test_a_run_s_line_looks_like_any_other(*, json_: bool, always: dict[str, int]) -> None:
    pipe = Pipe()
    log = ServerLog(json=json_, descriptor=pipe.writes, **always)
    line = RunLine(1.5, "r1", "two words", "completed", 0.0123, 3, "a=b")
    for _ in range(2):
        log.run(line)
    fields = {key: value for key, value in line._asdict().items() if key != "timestamp"}
    log.say("info", "run", **fields)
    log.close()
    first, again, other = pipe.text().splitlines()
    assert first == again
    if json_:
        told, expected = json.loads(first), json.loads(other)
        assert list(told) == list(expected)
        assert told | {"timestamp": ""} == expected | {"timestamp": ""}
    else:
        assert first.split(" ", 1)[1] == other.split(" ", 1)[1]
    assert "1970-01-01T00:00:01.500Z" in first


def test_who_nobody_reads_waits_for_nobody_and_counts_what_is_lost() -> None:
    pipe = Pipe()
    os.set_blocking(pipe.writes, False)
    log = ServerLog(json=True, descriptor=pipe.writes)
    began = time.monotonic()
    for _ in range(3 * MAX_WAITING):
        log.say("info", "run", text="x" * 50)
    assert time.monotonic() - began < 30
    log.close()
    text = pipe.text()
    assert 0 < len(text.splitlines()) < 3 * MAX_WAITING


def test_a_server_out_of_files_tells_now_and_then_and_what_to_do() -> None:
    pipe = Pipe()
    log = ServerLog(json=True, descriptor=pipe.writes)
    instant = 1000.0
    reporter = Reporter(log, clock=lambda: instant)
    for _ in range(500):
        reporter.accept_failed(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        instant += 0.0625
    log.close()
    lines = [json.loads(line) for line in pipe.text().splitlines()]
    assert [line["times"] for line in lines] == [1, 160, 160, 160]
    assert "no more files open. Raise the limit (ulimit -n" in lines[0]["reason"]
