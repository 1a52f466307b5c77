"""Runs that are broken off wherever they are, on a server: nothing of them is left.

The same for each language, and for what one process of heddle holds, is in
``tests/conformance/test_policies_faults.py``.
"""

import json
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.heddle.server.serving import CODE, STRAIGHT, Served, server
from tests.heddle.server.submitted.code.test_tools import lives
from tests.pressure.stage import children, open_files, resident
from tests.support.flows import component, edge, end, flow, llm, model, start, tool

POLICY: Final = """
import asyncio, os, sys
from heddle.plugin import HostError, pass_, proceed, retry, serve

async def before(event, ctx):
    given = event.input
    if given.get("does") == "hang":
        ctx.emit_event("hangs", {})
        await asyncio.sleep(60)
    if given.get("does") == "tool":
        try:
            await ctx.run_tool("slow", {})
        except HostError:
            pass
    if given.get("does") == "exit with a tool":
        asked = asyncio.ensure_future(ctx.run_tool("slow", {}))
        while not os.path.exists(given["begun"]):
            await asyncio.sleep(0.01)
        os._exit(7)
    if given.get("does") == "tell":
        ctx.emit_event("settings", {"of": ctx.component.get("of"), "pid": os.getpid()})
    return proceed()

def after(event, ctx):
    return retry(delay_ms=30_000) if ctx.attempt == 1 else pass_()

first = {"node": {"before": before}, "nodeError": {"after": after}}
serve({"First": first, "Second": {"node": {"before": before}}})
"""
MANIFEST: Final = {
    "name": "policies",
    "version": "1",
    "capabilities": ["runTool", "emitEvent"],
    "components": [
        {
            "componentType": "First",
            "kind": "middleware",
            "seams": {"node": ["before"], "nodeError": ["after"]},
        },
        {"componentType": "Second", "kind": "middleware", "seams": {"node": ["before"]}},
    ],
}
SLOW: Final = """#!/bin/sh
trap "" TERM
sleep 60 &
echo "$$ $!" > "{folder}/new"
mv "{folder}/new" "{folder}/begun"
wait
"""


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """A model that takes calls and never answers; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("faults")
    (made / "policies.py").write_text(POLICY)
    (made / "policies.json").write_text(json.dumps(MANIFEST))
    (made / "tools").mkdir()
    for name, text in (("slow", SLOW.format(folder=made)), ("bad", "#!/bin/sh\nexit 1\n")):
        (made / "tools" / name).write_text(text)
        (made / "tools" / name).chmod(0o755)
    return made


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    settings = [f'{name}={{"of": "{name}"}}' for name in ("First", "Second")]
    flags = (
        "--plugin",
        "policies.json",
        "--tools-dir",
        "tools",
        "--allow-net",
        "127.0.0.1",
    )
    given = [part for each in settings for part in ("--plugin-config", each)]
    with server(folder, *flags, *given) as found:
        yield found


def with_tool(name: str) -> dict[str, Any]:
    return flow([start(), tool(name), end()], ["start", name, "end"])


def with_model(url: str) -> dict[str, Any]:
    nodes = [start(), llm("ask", "hello"), end()]
    return flow(nodes, ["start", "ask", "end"], shared=[model(url)])


POINTS: Final[Mapping[str, tuple[str, str]]] = {
    "a consultation": ("", "hang"),
    "a tool of a policy": ("", "tool"),
    "a tool of the flow": ("slow", ""),
    "the delay of a retry": ("bad", ""),
    "a model": ("model", ""),
}


def tools_of(folder: Path) -> list[int]:
    """The processes of the slow tool, once they are there."""
    begun = folder / "begun"
    return [int(pid) for pid in begun.read_text().split()] if begun.exists() else []


@pytest.mark.parametrize("leave", ["cancel", "hang up"])
@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_broken_off_leaves_nothing_wherever_it_was(
    served: Served, folder: Path, silent: str, point: str, leave: str
) -> None:
    """Case 26."""
    uses, does = POINTS[point]
    (folder / "begun").unlink(missing_ok=True)
    asked = {
        "flow": with_model(silent)
        if uses == "model"
        else with_tool(uses)
        if uses
        else STRAIGHT,
        "inputs": {"does": does} if does else {},
    }
    files = len(list(open_files(served.process.pid)))
    with served.opened("POST", "/v1/runs?stream=true", asked) as stream:
        run = stream.headers["Heddle-Run"]
        if "tool of" in point:
            served.until(lambda: len(tools_of(folder)) == 2)
        elif "model" in point:
            place = f"/v1/runs/{run}"
            served.until(lambda: served.ask("GET", place).json.get("node") == "ask")
        else:
            told = b"warning" if "retry" in point else b"plugin:First:hangs"
            while b'"type":"%b"' % told not in stream.readline():
                pass
        if leave == "cancel":
            assert served.ask("DELETE", f"/v1/runs/{run}").status == 202
            assert b"RunCancelled" in stream.read()
    # A second on a machine that has nothing else to do.
    served.until(lambda: served.ask("GET", f"/v1/runs/{run}").json["status"] == "cancelled")
    assert served.ask("GET", f"/v1/runs/{run}").json["seconds"] < 30
    served.until(lambda: not any(map(lives, tools_of(folder))))
    served.until(lambda: len(children(served.process.pid)) == 1)
    assert not list((folder / "tmp").glob("*/*"))
    served.until(lambda: len(list(open_files(served.process.pid))) <= files + 1)


def test_a_policy_that_ends_takes_the_tool_that_it_asked_for_with_it(
    served: Served, folder: Path
) -> None:
    """Case 25."""
    (folder / "begun").unlink(missing_ok=True)
    inputs = {"does": "exit with a tool", "begun": str(folder / "begun")}
    done = served.ask("POST", "/v1/runs", {"flow": STRAIGHT, "inputs": inputs})
    assert done.status == 500
    assert done.error[0] == "PolicyFailed"
    assert "its process exited with status 7" in done.error[1]
    assert len(tools_of(folder)) == 2
    served.until(lambda: not any(map(lives, tools_of(folder))))
    assert not list((folder / "tmp").glob("*/*"))


def test_a_process_that_is_started_again_has_the_settings_of_its_own(
    served: Served,
) -> None:
    """Case 30: each policy is told its own, before and after."""
    seen = set()
    for _ in range(3):
        asked = {"flow": STRAIGHT, "inputs": {"does": "tell"}}
        with served.opened("POST", "/v1/runs?stream=true", asked) as stream:
            events = [json.loads(line[6:]) for line in stream if line.startswith(b"data: ")]
        told = [each for each in events if each["type"].startswith("plugin:")]
        assert [(each["type"], each["data"]["of"]) for each in told] == [
            ("plugin:First:settings", "First"),
            ("plugin:Second:settings", "Second"),
        ] * 2
        [pid] = {each["data"]["pid"] for each in told}
        assert pid not in seen
        seen.add(pid)
        os.kill(pid, signal.SIGKILL)
        served.until(lambda pid=pid: not lives(pid))


UNCOLLECTED: Final = (
    """
import gc, signal, sys, types

gc.disable()
gc.enable = lambda: None
looks = iter(range(100))

def look(*_):
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    kept = [each.f_code.co_name for each in gc.garbage if isinstance(each, types.FrameType)]
    gc.garbage.clear()
    sys.stderr.write(f"look {next(looks)} {kept}\\n")

signal.signal(signal.SIGUSR1, look)
"""
    + CODE
)
"""A server whose frames that only the collector could free are told on a signal."""


def test_no_request_that_ends_badly_waits_for_the_collector(
    tmp_path: Path, folder: Path, silent: str
) -> None:
    """It would keep its body, and the collector counts objects: a hundred of 8 MiB."""
    wrong = flow([start(), end()], ["start", "end"], [edge("start", "nowhere")])
    # Long, so that it is read in a thread.
    long = {"flow": wrong, "inputs": {"x": "x" * 100_000}}
    stuck = {"flow": with_model(silent), "inputs": {}}
    plugin = {
        "name": "dies",
        "manifest": {
            "name": "dies",
            "version": "1",
            "components": [{"componentType": "D"}],
        },
        "source": "raise SystemExit(3)",
        "language": "py",
    }
    dies = flow([start(), component("D", "d"), end()], ["start", "d", "end"])
    flags = ("--timeout", "300", "--allow-net", "127.0.0.1", "--allow-request-code")
    tools = ("--tools-dir", str(folder / "tools"))
    with server(tmp_path, *flags, *tools, code=UNCOLLECTED) as served:

        def ask(path: str, body: Any) -> int:
            return served.ask("POST", path, body).status

        def hang_up() -> int:
            with served.opened("POST", "/v1/runs?stream=true", stuck) as stream:
                stream.readline()
            served.until(lambda: not served.runs("running"))
            return 0

        ways: dict[str, tuple[int, Callable[[], int]]] = {
            "a wrong flow": (400, lambda: ask("/v1/runs", long)),
            "looked at": (400, lambda: ask("/v1/validate", long)),
            "a short one": (400, lambda: ask("/v1/runs", {"flow": wrong})),
            "no JSON": (400, lambda: ask("/v1/runs", b'{"flow": ' + b" " * 100_000)),
            "nested": (400, lambda: ask("/v1/runs", b'{"flow": ' + b"[" * 100_000)),
            "a field of nobody's": (
                400,
                lambda: ask("/v1/runs", {**long, "toolsDir": "x"}),
            ),
            "a tool that fails": (500, lambda: ask("/v1/runs", {"flow": with_tool("bad")})),
            "its plugin": (
                500,
                lambda: ask("/v1/runs", {"flow": dies, "plugins": [plugin]}),
            ),
            "its time": (504, lambda: ask("/v1/runs", stuck)),
            "its caller": (0, hang_up),
        }
        for number, (way, (status, go)) in enumerate(ways.items()):
            if not number:
                served.signal(signal.SIGUSR1)
                served.line("look 0")
            assert go() == status, way
            assert served.ask("GET", "/healthz").status == 200
            served.signal(signal.SIGUSR1)
            assert served.line(f"look {number + 1} ").endswith(" []"), way


IDLE: Final = int(os.environ.get("HEDDLE_IDLE", "2000"))
"""How many connections do nothing; 10000 takes some seconds."""

EACH: Final = 32 * 1024
"""Bytes of the server that one of them may cost."""


def test_thousands_of_idle_connections_are_no_burden(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + 500
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip(f"a process may open {hard} files here, and {wanted} are needed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    with server(tmp_path) as served, ExitStack() as stack:
        assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
        before = resident(served.process.pid)
        lines = len(served.log)
        for number in range(IDLE):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            if number % 2:
                idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
        served.until(
            lambda: sum("socket" in each for each in open_files(served.process.pid)) > IDLE
        )
        assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
        assert resident(served.process.pid) - before < 8 * 2**20 + IDLE * EACH
        stack.close()
        served.until(
            lambda: sum("socket" in each for each in open_files(served.process.pid)) < 50
        )
        assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
        # Nobody's coming and going is told in the log: a line a run.
        served.signal()
        served.ended()
        told = served.log[lines:]
        assert len([each for each in told if " run " not in each]) <= 4, told
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
