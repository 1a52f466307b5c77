"""``heddle run --json``: everything on stderr is JSON, the result alone on stdout."""

import json
from typing import Any

import pytest

from heddle.cli.reporting.readers import JsonLines
from heddle.events import FlowStarted
from heddle.standard_streams import OutputFailed
from tests.heddle.cli.conftest import Heddle, WriteFlow, WriteTool, tool_node


def lines(stderr: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in stderr.splitlines()]


def test_events_are_lines_on_stderr_and_the_result_is_on_stdout(
    heddle: Heddle, flow: WriteFlow
) -> None:
    done = heddle("run", flow(), "--json", "--input", '{"a": 1}')
    assert (done.status, done.stdout) == (0, '{"a":1}\n')
    types = [each["type"] for each in lines(done.stderr)]
    assert types[0] == "flow_start"
    assert types[-1] == "flow_complete"
    assert types.count("node_start") == 2


def test_a_warning_of_the_document_is_one_event(heddle: Heddle, flow: WriteFlow) -> None:
    told = lines(heddle("run", flow(surprise=1), "--json").stderr)
    (warning,) = [each for each in told if each["type"] == "warning"]
    assert warning["message"].startswith("flow.json $")


def test_what_a_plugin_prints_is_a_remark(heddle: Heddle, flow: WriteFlow) -> None:
    reader = JsonLines(lambda _: None)
    put: list[bytes] = []
    reader._outlet.put = lambda data: not put.append(data)  # type: ignore[method-assign,assignment]
    reader.remark("  [gate] hello")
    assert put == [b'{"type":"remark","message":"[gate] hello"}\n']


@pytest.mark.parametrize(
    ("more", "status", "name"),
    [
        ([], 1, "ToolsMissing"),
        (["--plugin", "gone.json"], 1, "ManifestError"),
        (["--input", "["], 2, "WrongUsage"),
        (["--no-such-option"], 2, "WrongUsage"),
        (["--protocol", "heddle"], 2, "WrongUsage"),
        (["-i"], 2, "WrongUsage"),
    ],
)
def test_an_error_is_the_last_line(
    heddle: Heddle, flow: WriteFlow, more: list[str], status: int, name: str
) -> None:
    done = heddle("run", "--json", flow(tool_node("t")), *more)
    assert (done.status, done.stdout) == (status, "")
    error = lines(done.stderr)[-1]
    assert error["type"] == "error"
    assert error["error"]["name"] == name


def test_a_failed_run_ends_in_its_error(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool
) -> None:
    tool("t", "exit 3")
    done = heddle("run", "--json", flow(tool_node("t")), "--tools-dir", "tools")
    assert done.status == 1
    assert [each["type"] for each in lines(done.stderr)][-2:] == ["node_error", "error"]


def test_events_that_nobody_reads_end_the_run() -> None:
    reasons: list[Exception] = []
    reader = JsonLines(reasons.append)
    reader._outlet.put = lambda _: False  # type: ignore[method-assign]
    reader.see(FlowStarted())
    (reason,) = reasons
    assert isinstance(reason, OutputFailed)
    assert str(reason) == (
        "stderr: over 64 MiB of events wait to be read. Read them faster, or not at all: "
        "leave --json out."
    )
