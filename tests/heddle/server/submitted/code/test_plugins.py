"""Plugins that come with a request: checked before anything runs, on every server; run in
a process of their own, of which nothing is left."""

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from heddle.server.submitted.code.reading import MAX_MANIFEST, MAX_PLUGINS, MAX_SOURCE
from tests.heddle.server.serving import STRAIGHT, Served, server, sse
from tests.heddle.server.sockets.test_socket import connected
from tests.heddle.server.submitted.code.test_tools import lives
from tests.support.flows import component, end, flow, llm, model, start, tool

NODE = {"componentType": "Shout", "kind": "node"}
MANIFEST = {"name": "shouter", "version": "1", "components": [NODE]}
PLUGIN = {"name": "p", "manifest": MANIFEST, "source": "serve({})"}
GATE = {
    "name": "gate",
    "version": "1",
    "components": [
        {"componentType": "Gate", "kind": "middleware", "seams": {"node": ["before"]}},
        {"componentType": "Whisper", "kind": "node"},
    ],
}
GATE_SOURCE = """
from heddle.plugin import proceed, serve

serve({
    "Gate": {"node": {"before": lambda event, ctx: proceed()}},
    "Whisper": {"execute": lambda input, ctx: {"output": {}}},
})
"""


@pytest.fixture(scope="module", params=["open", "closed"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "gate.json").write_text(json.dumps(GATE))
    (folder / "gate.py").write_text(GATE_SOURCE)
    flags = ["--allow-request-code"] if request.param == "open" else []
    with server(folder, "--plugin", "gate.json", *flags) as found:
        yield found


def with_manifest(**changes: Any) -> list[dict[str, Any]]:
    return [{**PLUGIN, "manifest": {**MANIFEST, **changes}}]


def ask(served: Served, plugins: Any, path: str = "/v1/runs") -> tuple[int, str, str]:
    done = served.ask("POST", path, {"flow": STRAIGHT, "plugins": plugins})
    if done.status == 200:
        return 200, "", ""
    return done.status, *done.error


MIDDLEWARE = {"componentType": "M", "kind": "middleware", "seams": {"node": ["before"]}}


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/runs?detach=true", "/v1/validate"])
@pytest.mark.parametrize(
    "component",
    [
        MIDDLEWARE,
        {"componentType": "M", "kind": "middleware"},
        {"componentType": "M", "kind": "store"},
        {"componentType": "M", "seams": {"node": ["before"]}},
        {"componentType": "M", "kind": "node", "seams": []},
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_middleware_is_installed_by_whoever_runs_the_server(
    served: Served, path: str, component: Any, *, as_text: bool
) -> None:
    """With and without the flag."""
    manifest: Any = {**MANIFEST, "components": [NODE, component]}
    given = json.dumps(manifest) if as_text else manifest
    status, kind, words = ask(served, [{**PLUGIN, "manifest": given}], path)
    assert (status, kind) == (400, "SubmissionRefused")
    assert "installed by whoever runs the server" in words


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        (with_manifest(command=["sh"]), "what program to run"),
        (with_manifest(files=[{"path": "x", "dest": "y"}]), "brings files"),
        (with_manifest(discoverTools=True), "finds its tools when it runs"),
        (with_manifest(tools=[{"name": "t", "path": "t.sh"}]), "a file of its own"),
        (
            with_manifest(
                components=[
                    {"componentType": "E", "kind": "encoder", "protocol": "e"},
                ]
            ),
            "declares an encoder",
        ),
        (
            with_manifest(components=[{"componentType": "StartNode"}]),
            "Agent Spec ships",
        ),
        (
            with_manifest(components=[{"componentType": "Whisper"}]),
            "'Whisper' is installed here already",
        ),
        (
            with_manifest(components=[{"componentType": "Gate"}]),
            "'Gate' is installed here already",
        ),
        (with_manifest(name="gate"), "'gate' is installed here"),
        (with_manifest(version=3), "version"),
        (with_manifest(capabilities=["root"]), "root"),
        (with_manifest(components=[{**NODE, "schema": {"type": 3}}]), "schema"),
        (
            with_manifest(components=[{**NODE, "schema": {"pattern": "(?=x)"}}]),
            "bounded time",
        ),
        (
            with_manifest(components=[{**NODE, "schema": {"enum": ["x" * MAX_MANIFEST]}}]),
            "longer than",
        ),
        (
            with_manifest(components=[{**NODE, "schema": {"anyOf": [{}] * 40_000}}]),
            "takes too long",
        ),
        (
            [PLUGIN, {**PLUGIN, "name": "q"}],
            "is called 'shouter' as well",
        ),
        (
            [
                PLUGIN,
                {**PLUGIN, "name": "q", "manifest": {**MANIFEST, "name": "other"}},
            ],
            "'Shout' is also provided",
        ),
        ([PLUGIN, PLUGIN], "two of the name 'p'"),
        ([{**PLUGIN, "name": f"p{n}"} for n in range(MAX_PLUGINS + 1)], "is the most"),
        ([{**PLUGIN, "source": "x" * (MAX_SOURCE + 1)}], "is the most"),
        ([{**PLUGIN, "source": ""}], "is empty"),
        ([{**PLUGIN, "language": "rb"}], "js, py"),
        ([{**PLUGIN, "manifest": 3}], "it is a number"),
        ([{**PLUGIN, "manifest": "{"}], "not JSON"),
        ([{**PLUGIN, "manifest": None}], "null"),
        ([{"name": "p", "source": "x"}], "manifest"),
        ([{**PLUGIN, "env": {}}], "env"),
        ([{**PLUGIN, "name": "../p"}], "no name"),
        ({}, "no array"),
        ([3], "plugins[0]"),
    ],
)
def test_a_plugin_that_can_t_be_used_is_a_400(
    served: Served, plugins: Any, words: str
) -> None:
    code = served.ask("GET", "/v1/capabilities").json["allowRequestCode"]
    status, kind, told = ask(served, plugins)
    assert status == 400
    assert kind != "internal_error"
    if code:
        assert words in told
    else:
        assert "no code that comes with a request" in told or "no array" in told
    assert (status, told) == (ask(served, plugins, "/v1/validate")[0], told)


def test_what_looks_odd_in_a_manifest_is_told_by_validate(served: Served) -> None:
    body = {"flow": STRAIGHT, "plugins": with_manifest(componentTypes=[])}
    done = served.ask("POST", "/v1/validate", body)
    if done.status == 200:
        [warning] = done.json["warnings"]
        assert "componentTypes" in warning["what"]
        assert warning["what"].startswith("plugins[0].manifest: ")


def test_a_plugin_that_nobody_names_starts_nothing(served: Served) -> None:
    code = served.ask("GET", "/v1/capabilities").json["allowRequestCode"]
    broken = [{**PLUGIN, "source": "this is no program"}]
    assert ask(served, broken)[0] == (200 if code else 400)
    assert ask(served, broken, "/v1/validate")[0] == (200 if code else 400)


# --- running ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("running")


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[Served]:
    flags = ("--allow-request-code", "--plugin-timeout", "20000")
    with server(home, *flags, variables={"OPERATORS_SECRET": "sesame"}) as found:
        yield found


@pytest.fixture
def code(home: Path, running: Served) -> Iterator[Path]:
    """The server's folder for code, empty before and after."""
    [found] = (home / "tmp").glob("heddle-runs-*")
    assert not list(found.iterdir())
    yield found
    running.until(lambda: not list(found.iterdir()))
    assert list((home / "tmp").iterdir()) == [found]


LANGUAGES = [
    "py",
    pytest.param("js", marks=pytest.mark.skipif(not shutil.which("node"), reason="node")),
]
LOOK = {
    "py": """
import os
from heddle.plugin import serve

def execute(given, ctx):
    print("a line that is no frame")
    found = given.get("found", []) + [os.getpid(), sorted(os.environ), os.getcwd()]
    return {"output": {"found": found}}

serve({"Look": {"execute": execute}})
""",
    "js": """
import process from "node:process";
serve({ Look: { execute(given, ctx) {
  console.log("a line");
  const names = Object.keys(process.env).sort();
  const found = [...(given.found ?? []), process.pid, names, process.cwd()];
  return { output: { found } };
} } });
""",
}
TWICE = flow(
    [start(), component("Look", "one"), component("Look", "two"), end()],
    ["start", "one", "two", "end"],
)


def brought(source: str, language: str, *types: str, **more: Any) -> dict[str, Any]:
    manifest = {
        "name": "brought",
        "version": "1",
        "components": [{"componentType": each, "kind": "node"} for each in types],
        **more,
    }
    return {"name": "b", "language": language, "manifest": manifest, "source": source}


def alone(type_: str) -> dict[str, Any]:
    return flow([start(), component(type_, "one"), end()], ["start", "one", "end"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_plugin_has_one_process_a_run_and_nothing_in_its_environment(
    running: Served, code: Path, language: str
) -> None:
    body = {"flow": TWICE, "plugins": [brought(LOOK[language], language, "Look")]}

    def ask(_: int) -> Any:
        done = running.ask("POST", "/v1/runs", body)
        assert done.status == 200, done.body
        return done.json["state"]["found"]

    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(ask, range(2)))
    for pid, names, folder, again, *_ in runs:
        assert pid == again
        # What Python sets for itself.
        assert set(names) <= {"LC_CTYPE"}
        assert folder.startswith(f"{code}/")
        assert not lives(pid)
    assert len({run[0] for run in runs}) == len({run[2] for run in runs}) == 2
    assert not any("a line" in line for line in running.log)


def test_plans_beside_different_plugins_are_different_plans(
    running: Served, code: Path
) -> None:
    """The same document, and components of one name that give something else."""
    source = """
from heddle.plugin import serve
serve({"Give": {"execute": lambda given, ctx: {"output": {"out": "7"}}}})
"""
    for kind, expected in (("integer", 500), ("string", 200)):
        plugin = brought(source, "py", "Give")
        plugin["manifest"]["components"][0]["outputs"] = [{"title": "out", "type": kind}]
        body = {"flow": alone("Give"), "plugins": [plugin]}
        assert running.ask("POST", "/v1/runs", body).status == expected
    # And none without.
    assert running.ask("POST", "/v1/runs", {"flow": alone("Give")}).status == 400


def test_a_plugin_runs_the_tools_of_its_own_run(running: Served, code: Path) -> None:
    source = """
from heddle.plugin import serve

async def execute(given, ctx):
    return {"output": await ctx.run_tool("act", {})}

serve({"Busy": {"execute": execute}})
"""
    plugin = brought(source, "py", "Busy", capabilities=["runTool"])

    def ask(n: int) -> Any:
        act = {"name": "act", "interpreter": "sh", "source": f"echo '{{\"n\": {n}}}'"}
        body = {"flow": alone("Busy"), "plugins": [plugin], "tools": [act]}
        return running.ask("POST", "/v1/runs", body).json["state"]

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(ask, range(3))) == [{"n": 0}, {"n": 1}, {"n": 2}]
    body = {"flow": alone("Busy"), "plugins": [plugin]}
    assert running.ask("POST", "/v1/runs", body).status == 500


def test_a_run_that_was_told_to_have_completed_has(running: Served, code: Path) -> None:
    """Hanging up while its plugin still says goodbye is too late to cancel anything."""
    source = """
import time
from heddle.plugin import serve

serve({"Slow": {"execute": lambda given, ctx: {"output": {"out": "done"}}}},
      shutdown=lambda: time.sleep(0.5))
"""
    body = {"flow": alone("Slow"), "plugins": [brought(source, "py", "Slow")]}
    with running.opened("POST", "/v1/runs?stream=true", body) as events:
        run = events.headers["heddle-run"]
        while b"flow_complete" not in events.readline():
            pass
    ended = running.until(
        lambda: [
            each
            for each in running.runs()
            if each["run"] == run and each["status"] != "running"
        ]
    )
    assert ended[0]["status"] == "completed"


STUBBORN = {
    "py": """
import os, signal, subprocess, time
from heddle.plugin import serve

signal.signal(signal.SIGTERM, signal.SIG_IGN)

def execute(given, ctx):
    left = [subprocess.Popen(["/bin/sleep", "300"], start_new_session=own).pid
            for own in (False, True)]
    with open(given["mark"] + ".new", "w") as mark:
        print(os.getpid(), *left, file=mark)
    os.rename(given["mark"] + ".new", given["mark"])
    while True:
        time.sleep(1)

serve({"Stick": {"execute": execute}})
""",
    "js": """
import { spawn } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
process.on("SIGTERM", () => {});
serve({ Stick: { execute({ mark }) {
  const left = [false, true].map(
    (detached) => spawn("/bin/sleep", ["300"], { detached, stdio: "ignore" }).pid);
  writeFileSync(mark + ".new", [process.pid, ...left].join(" "));
  renameSync(mark + ".new", mark);
  for (;;) {}
} } });
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_of_a_plugin_that_does_not_listen_outlives_its_run(
    running: Served, code: Path, tmp_path: Path, language: str
) -> None:
    mark = tmp_path / "mark"
    body = {
        "flow": alone("Stick"),
        "inputs": {"mark": str(mark)},
        "plugins": [brought(STUBBORN[language], language, "Stick")],
    }
    run = running.ask("POST", "/v1/runs?detach=true", body).json["run"]
    running.until(mark.exists)
    pids = [int(word) for word in mark.read_text().split()]
    assert all(map(lives, pids))
    begun = time.monotonic()
    assert running.ask("DELETE", f"/v1/runs/{run}").status == 202
    running.until(lambda: not any(map(lives, pids)))
    assert time.monotonic() - begun < 15
    running.until(lambda: running.ask("GET", f"/v1/runs/{run}").json["status"] != "running")


def test_a_plugin_that_ends_is_quoted_without_a_folder(
    running: Served, home: Path, code: Path
) -> None:
    body = {
        "flow": alone("Gone"),
        "plugins": [brought("raise SystemExit('no such luck')", "py", "Gone")],
    }
    done = running.ask("POST", "/v1/runs", body)
    assert done.status == 500
    assert "no such luck" in done.error[1]
    assert str(home) not in done.error[1]
    broken = brought("def oops(:", "py", "Gone")
    done = running.ask("POST", "/v1/runs", {**body, "plugins": [broken]})
    assert "SyntaxError" in done.error[1]
    assert str(home) not in done.error[1]
    assert code.name not in done.error[1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_plugin_serves_tools_to_its_own_run(
    running: Served, code: Path, language: str
) -> None:
    source = {
        "py": "from heddle.plugin import serve\n"
        "serve({}, tools={'double': lambda given, ctx: {'output': {'b': given['a'] * 2}}})",
        "js": "serve({}, {tools: {double: ({ a }) => ({ output: { b: a * 2 } })}})",
    }[language]
    tools = [
        {
            "name": "double",
            "componentType": "Doubler",
            "inputSchema": {"type": "object", "required": ["a"]},
        }
    ]
    plugin = brought(source, language, tools=tools)
    made = flow([start(), tool("double"), end()], ["start", "double", "end"])
    body = {"flow": made, "inputs": {"a": 4}, "plugins": [plugin]}
    assert running.ask("POST", "/v1/validate", body).json["valid"] is True
    done = running.ask("POST", "/v1/runs", body)
    assert done.json["state"] == {"a": 4, "b": 8}
    # It is nobody else's, and no name is had twice.
    assert running.ask("POST", "/v1/runs", {"flow": made}).error[0] == "ToolsMissing"
    same = [{"name": "double", "interpreter": "sh", "source": "echo"}]
    done = running.ask("POST", "/v1/runs", {**body, "tools": same})
    assert (done.status, "'double' already" in done.error[1]) == (400, True)


def test_a_stream_and_a_provider_of_the_caller_s(running: Served, code: Path) -> None:
    source = """
from heddle.plugin import serve
serve({"Parrot": {"chat": lambda request, ctx: {
    "content": request["messages"][-1]["content"], "finish_reason": "stop"}}})
"""
    plugin = brought(source, "py")
    plugin["manifest"]["components"] = [{"componentType": "Parrot", "kind": "provider"}]
    asks = llm("ask", "say {{a}}", llm_config=component("Parrot", "bird"))
    made = flow([start(), asks, end()], ["start", "ask", "end"])
    body = {"flow": made, "inputs": {"a": "hi"}, "plugins": [plugin]}
    done = running.ask("POST", "/v1/runs?stream=true", body)
    state = json.loads(sse(done.body)[-1]["data"])["state"]
    assert state["generated_text"] == "say hi"


async def test_a_run_frame_brings_its_plugins(running: Served, code: Path) -> None:
    plugins = [brought(LOOK["py"], "py", "Look")]
    async with connected(running) as client:
        await client.run(flow=TWICE, plugins=plugins)
        [*_, told] = await client.until(type="end")
        assert told["status"] == "completed", told
        await client.say(type="run", ref="b", flow=TWICE, plugins=with_manifest(files=[1]))
        [*_, told] = await client.until(type="refused")
        assert told["error"]["type"] == "SubmissionRefused"


def test_a_component_of_a_plugin_reaches_no_further_than_the_flow(
    running: Served, code: Path
) -> None:
    """What it is configured with is the caller's too."""
    inner = {**component("Look", "one"), "llm_config": model(api_key="$OPERATORS_SECRET")}
    made = flow([start(), inner, end()], ["start", "one", "end"])
    body = {"flow": made, "plugins": [brought(LOOK["py"], "py", "Look")]}
    done = running.ask("POST", "/v1/runs", body)
    assert (done.status, done.error[0]) == (400, "SubmissionRefused")
