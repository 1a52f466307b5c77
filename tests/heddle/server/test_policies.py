"""Policies that all runs of a server share, in both languages: cases 23 to 25, and 7.

The policy waits at nodes called "wait" without listening to anybody, refuses "refuse" and
lets the rest go on.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.heddle.server.serving import Served, server, sse, write_tools
from tests.support.flows import end, flow, start, tool

MANIFEST = {
    "name": "gate",
    "version": "1.0.0",
    "components": [
        {"componentType": "Gate", "kind": "middleware", "seams": {"node": ["before"]}}
    ],
}
PROGRAMS = {
    "py": """
import asyncio
import time
from heddle.plugin import proceed, reject, serve

async def before(event, ctx):
    given = event.input
    if given.get("pause"):
        open(given["mark"], "w").close()
        end = time.monotonic() + given["pause"]
        while time.monotonic() < end:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass
    if given.get("refuse"):
        return reject("not today")
    return proceed()

serve({"Gate": {"node": {"before": before}}})
""",
    "mjs": """
import { writeFileSync } from "node:fs";
serve({ Gate: { node: { async before(event) {
  const given = event.input;
  if (given.pause) {
    writeFileSync(given.mark, "");
    await new Promise((done) => setTimeout(done, given.pause * 1000));
  }
  return given.refuse ? { action: "reject", reason: "not today" } : { action: "proceed" };
} } } });
""",
}
FLOW = flow([start(), end()], ["start", "end"])


@pytest.fixture(
    params=[
        "py",
        pytest.param(
            "mjs",
            marks=pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js"),
        ),
    ]
)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "gate.json").write_text(json.dumps(MANIFEST))
    (tmp_path / f"gate.{request.param}").write_text(PROGRAMS[request.param])
    with server(
        tmp_path,
        *("--plugin", "gate.json", "--tools-dir", write_tools(tmp_path)),
        *("--max-concurrent", "200", "--plugin-timeout", "20000"),
    ) as found:
        yield found


def run(served: Served, **inputs: Any) -> Any:
    return served.ask("POST", "/v1/runs", {"flow": FLOW, "inputs": inputs})


def timed(served: Served) -> float:
    """How long a run took that is refused nothing, seen from outside."""
    begun = time.monotonic()
    assert run(served, a=1).status == 200
    return time.monotonic() - begun


class Asked:
    """Runs beside the test."""

    def __init__(self, served: Served, *all_inputs: dict[str, Any]) -> None:
        self.answers: list[Any] = [None] * len(all_inputs)

        def ask(number: int, inputs: dict[str, Any]) -> None:
            self.answers[number] = run(served, **inputs)

        self._threads = [
            threading.Thread(target=ask, args=each) for each in enumerate(all_inputs)
        ]
        for each in self._threads:
            each.start()

    def done(self) -> list[Any]:
        for each in self._threads:
            each.join(60)
        return self.answers


def plugins(served: Served) -> list[int]:
    """The processes of its plugins."""
    listing = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, check=True, text=True
    ).stdout
    return [
        int(pid)
        for pid, parent, *_ in (line.split(None, 2) for line in listing.splitlines())
        if int(parent) == served.process.pid
    ]


def test_a_refusal_is_the_caller_s_answer_and_nobody_else_s(served: Served) -> None:
    refused = run(served, refuse=True)
    assert (refused.status, refused.error[0]) == (500, "RefusedByPolicy")
    assert "'Gate'" in refused.error[1]
    assert "not today" in refused.error[1]
    body = {"flow": FLOW, "inputs": {"refuse": True}}
    frames = sse(served.ask("POST", "/v1/runs?stream=true", body).body)
    assert frames[-1]["event"] == "error"
    assert "not today" in frames[-1]["data"]
    assert run(served, a=1).json["state"] == {"a": 1}


def test_a_cancelled_run_takes_no_other_with_it(served: Served, tmp_path: Path) -> None:
    """Case 23: the client goes away while the policy does not listen."""
    first = plugins(served)
    assert len(first) == 1
    mark, other = tmp_path / "asked", tmp_path / "other"
    body = json.dumps({"flow": FLOW, "inputs": {"pause": 15, "mark": str(mark)}}).encode()
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(
            b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        served.until(mark.exists)
        beside = Asked(served, {"pause": 1.5, "mark": str(other), "who": "b"})
        served.until(other.exists)
        left = time.monotonic()
    served.until(
        lambda: any(each["status"] == "cancelled" for each in served.runs("cancelled"))
    )
    assert time.monotonic() - left < 10
    [answer] = beside.done()
    assert answer.status == 200, answer.body
    assert answer.json["state"]["who"] == "b"
    assert run(served, a=1).status == 200


def test_a_killed_process_fails_what_it_was_asked_and_the_next_works(
    served: Served, tmp_path: Path
) -> None:
    """Case 24: SIGKILL under 50 runs."""
    [plugin] = plugins(served)
    marks = [tmp_path / f"asked{n}" for n in range(50)]
    inputs = [{"pause": 30, "mark": str(mark), "n": n} for n, mark in enumerate(marks)]
    asked = Asked(served, *inputs)
    served.until(lambda: all(mark.exists() for mark in marks))
    os.kill(plugin, signal.SIGKILL)
    for answer in asked.done():
        assert (answer.status, answer.error[0]) == (500, "PolicyFailed")
        assert "SIGKILL" in answer.error[1]
    later = Asked(served, *({"n": n} for n in range(50))).done()
    assert [each.json["state"] for each in later] == [{"n": n} for n in range(50)]
    assert len(plugins(served)) == 1


def test_what_policies_said_is_counted(served: Served, tmp_path: Path) -> None:
    took = [timed(served) for _ in range(3)]
    run(served, refuse=True, pause=0.3, mark=str(tmp_path / "slow"))
    [plugin] = plugins(served)
    mark = tmp_path / "asked"
    asked = Asked(served, {"pause": 30, "mark": str(mark)})
    served.until(mark.exists)
    os.kill(plugin, signal.SIGKILL)
    asked.done()
    took.append(timed(served))
    text = served.ask("GET", "/metrics").body.decode()
    values = dict(
        line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")
    )
    rest = 'middleware="Gate",seam="node"'
    place = f'half="before",{rest}'
    assert values[f"heddle_consultations_total{{{place}}}"] == "10.0"
    assert values[f'heddle_verdicts_total{{{place},verdict="proceed"}}'] == "8.0"
    assert values[f'heddle_verdicts_total{{{place},verdict="reject"}}'] == "1.0"
    assert values[f"heddle_middleware_failures_total{{{place}}}"] == "1.0"
    count = values[f"heddle_consultation_seconds_count{{{place}}}"]
    assert count == "9.0"
    quick = values[f'heddle_consultation_seconds_bucket{{half="before",le="0.25",{rest}}}']
    # Two a run, and neither took longer than its run did; on a busy machine some did.
    assert 2 * sum(each < 0.25 for each in took) <= float(quick) <= 8
    assert float(values[f"heddle_consultation_seconds_sum{{{place}}}"]) >= 0.3
    assert values['heddle_plugin_restarts_total{plugin="gate"}'] == "1.0"


def test_a_drain_waits_for_a_policy_that_is_busy(served: Served, tmp_path: Path) -> None:
    mark = tmp_path / "asked"
    asked = Asked(served, {"pause": 0.5, "mark": str(mark), "a": 1})
    served.until(mark.exists)
    served.signal()
    [answer] = asked.done()
    assert answer.status == 200
    assert served.ended() == 0


def test_a_tool_of_a_run_is_not_seen_by_another(served: Served) -> None:
    body = {"flow": flow([start(), tool("wait"), end()], ["start", "wait", "end"])}
    with served.opened("POST", "/v1/runs?stream=true", body):
        served.started()
        assert run(served, a=1).json["state"] == {"a": 1}
