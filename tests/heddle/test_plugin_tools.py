"""Tools and files that plugins bring: used by name, shadowing, found by asking."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from heddle import launch, preparing
from heddle import plugin_tools as plugin_tools_module
from heddle.events import Event, PluginEmitted, ToolReturned
from heddle.launch import RunOptions, ToolsMissing
from heddle.plugin_tools import Discovery, ToolsNotListed, ToolTaken
from plugins_host import Fault, ListedTool, PluginLine
from tests.heddle.cli.conftest import agent_node, document, tool_node

PYTHON = """
import asyncio
import os

async def greet(input, ctx):
    ctx.emit_event("greeted", {"name": input.get("name")})
    if input.get("name") == "nobody":
        raise ValueError("nobody to greet")
    if input.get("name") == "slow":
        await asyncio.sleep(60)
    if input.get("name") == "wrong":
        return {"output": {"greeting": 3}}
    greeting = "Hello, " + input.get("name", "world")
    return {"output": {"greeting": greeting}, "stderr": "said"}

async def relay(input, ctx):
    return {"output": {"relayed": await ctx.run_tool(input["tool"], input.get("input"))}}

def shapeless(input, ctx):
    return {"outputs": {}}

tools = {"greet": greet, "relay": relay, "shapeless": shapeless}

def list_tools():
    where = os.path.join(os.path.dirname(os.path.abspath(__file__)), "listed.json")
    with open(where) as file:
        import json
        return json.load(file)

handlers = {}

if __name__ == "__main__":
    from heddle.plugin import serve
    serve(handlers, tools=tools, list_tools=list_tools)
"""
JAVASCRIPT = """
import { readFileSync } from 'node:fs';
serve({}, {
  tools: {
    greet: async ({ name = 'world' }, ctx) => {
      ctx.emitEvent('greeted', { name });
      if (name === 'nobody') throw new Error('nobody to greet');
      if (name === 'slow') await new Promise((resolve) => setTimeout(resolve, 60000));
      if (name === 'wrong') return { output: { greeting: 3 } };
      return { output: { greeting: `Hello, ${name}` }, stderr: 'said' };
    },
    relay: async ({ tool, input }, ctx) =>
      ({ output: { relayed: await ctx.runTool(tool, input) } }),
    shapeless: () => ({ outputs: {} }),
  },
  listTools: () => JSON.parse(readFileSync(new URL('listed.json', import.meta.url))),
});
"""
SCHEMA = {"type": "object", "properties": {"greeting": {"type": "string"}}}
GREETS = {
    "name": "greet",
    "componentType": "Greeter",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "outputSchema": SCHEMA,
}
SERVED = [
    GREETS,
    {"name": "relay", "componentType": "Greeter"},
    {"name": "shapeless", "componentType": "Greeter"},
]

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
HOMES = ["py", pytest.param("mjs", marks=needs_node), "module"]


def plugin(folder: Path, home: str = "py", name: str = "greeter", **fields: Any) -> str:
    """Write a plugin; what ``--plugin`` takes."""
    manifest = {
        "name": name,
        "version": "1",
        "capabilities": ["runTool", "emitEvent"],
        **fields,
    }
    folder.mkdir(exist_ok=True)
    if home == "module":
        (folder / f"{name}_mod.py").write_text(
            f"manifest = {manifest!r}\n"
            + PYTHON.replace("import asyncio", "import trio as asyncio")
        )
        return str(folder / f"{name}_mod.py")
    (folder / f"{name}.json").write_text(json.dumps(manifest))
    (folder / f"{name}.{home}").write_text(PYTHON if home == "py" else JAVASCRIPT)
    return str(folder / f"{name}.json")


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


Ran = tuple[dict[str, Any], list[Event], list[str]]


@asynccontextmanager
async def engine_of(*plugins: str, said: list[str], **options: Any) -> Any:
    def log(line: PluginLine) -> None:
        said.append(f"{line.source}: {line.text}")

    chosen = RunOptions(plugins=plugins, **options)
    async with launch.open_engine(chosen, plugin_log=log) as engine:
        yield engine


async def ran(
    plugins: Sequence[str], *nodes: dict[str, Any], inputs: Any = None, **options: Any
) -> Ran:
    """Run nodes in a row."""
    events: list[Event] = []
    said: list[str] = []
    async with engine_of(*plugins, said=said, **options) as engine:
        flow = json.dumps(document(*nodes)).encode()
        prepared = preparing.prepare(flow, name="flow.json")
        state = await engine.run(prepared, inputs or {}, events.append, stream=False)
    return state, events, said


# --- used by name ------------------------------------------------------------------------


@pytest.mark.parametrize("home", HOMES)
async def test_a_served_tool_is_used_by_nodes_agents_and_other_tools(
    home: str, tmp_path: Path
) -> None:
    source = plugin(tmp_path, home, tools=SERVED)
    script = [
        {"tool_calls": [{"name": "greet", "arguments": {"name": "agent"}}]},
        {"content": "{{greeting}}!"},
    ]
    relayed = {"tool": "greet", "input": {"name": "relay"}}
    state, events, said = await ran(
        [source], tool_node("relay"), agent_node("ask", script, "greet"), inputs=relayed
    )

    assert state["relayed"] == {"greeting": "Hello, relay"}
    assert state["result"] == "Hello, agent!"
    (returned,) = [each for each in events if isinstance(each, ToolReturned)]
    assert returned.tool_result == {"greeting": "Hello, agent"}
    told = [(e.type, e.data) for e in events if isinstance(e, PluginEmitted)]
    assert told == [
        ("plugin:Greeter:greeted", {"name": "relay"}),
        ("plugin:Greeter:greeted", {"name": "agent"}),
    ]
    assert "stderr: tool 'greet': said" in said


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "nobody"}, "tool 'greet': .*failed with .*nobody to greet"),
        ({"name": "slow"}, "tool 'greet': timed out after 0.5 s"),
        ({"name": "wrong"}, "its output is not what it declares: .*greeting"),
        ({"name": 3}, "its input does not fit: .*name"),
    ],
)
async def test_what_is_wrong_with_a_call_is_the_tools_error(
    home: str, given: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(Fault, match=said):
        await ran(
            [plugin(tmp_path, home, tools=SERVED)],
            tool_node("greet"),
            inputs=given,
            tool_timeout=0.5 if given == {"name": "slow"} else 30,
        )


async def test_a_tool_that_runs_itself_comes_to_an_end(tmp_path: Path) -> None:
    given: dict[str, Any] = {}
    for _ in range(12):
        given = {"tool": "relay", "input": given}
    with pytest.raises(Fault, match="8 tools run inside one another"):
        await ran([plugin(tmp_path, tools=SERVED)], tool_node("relay"), inputs=given)


@pytest.mark.parametrize("home", ["py", pytest.param("mjs", marks=needs_node)])
async def test_an_answer_of_the_wrong_shape_says_what_to_answer(
    home: str, tmp_path: Path
) -> None:
    with pytest.raises(Fault, match=r"no 'output' that is .*Return \{"):
        await ran([plugin(tmp_path, home, tools=SERVED)], tool_node("shapeless"))


async def test_an_executable_of_a_plugin_sees_the_plugins_environment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_HEDDLE", "x")
    monkeypatch.setenv("GRANTED", "g")
    executable(
        tmp_path / "bin" / "env.sh", 'echo "{\\"env\\": \\"$SECRET_OF_HEDDLE$GRANTED\\"}"'
    )
    source = plugin(tmp_path, tools=[{"name": "look", "path": "bin/env.sh"}])
    state, _, _ = await ran([source], tool_node("look"), plugin_env=("GRANTED",))

    assert state["env"] == "g"


# --- whose name it is ---------------------------------------------------------------------


async def test_a_name_of_the_tools_folder_is_taken_unless_the_plugin_shadows_it(
    tmp_path: Path,
) -> None:
    executable(tmp_path / "tools" / "greet", 'echo \'{"greeting": "from the folder"}\'')
    folder = {"tools_dir": str(tmp_path / "tools")}
    taken = plugin(tmp_path / "a", tools=SERVED)
    with pytest.raises(ToolTaken, match="a tool 'greet' in the folder of --tools-dir"):
        await ran([taken], tool_node("greet"), **folder)

    shadows = plugin(tmp_path / "b", tools=[{**GREETS, "shadows": True}])
    state, _, _ = await ran([shadows], tool_node("greet"), **folder)
    assert state["greeting"] == "Hello, world"


async def test_two_plugins_have_no_tool_in_common_unless_one_shadows(
    tmp_path: Path,
) -> None:
    plain = plugin(tmp_path / "a", name="a", tools=SERVED[:1])
    other = plugin(tmp_path / "b", name="b", tools=SERVED[:1])
    executable(tmp_path / "c" / "t.sh", 'echo \'{"greeting": "shadow"}\'')
    shadow = [{"name": "greet", "path": "t.sh", "shadows": True}]
    shadows = plugin(tmp_path / "c", name="c", tools=shadow)
    executable(tmp_path / "d" / "t.sh", "echo '{}'")
    again = plugin(tmp_path / "d", name="d", tools=shadow)

    with pytest.raises(Fault, match="the tool 'greet' is also provided by"):
        await ran([plain, other], tool_node("greet"))
    with pytest.raises(Fault, match="the tool 'greet' is also provided by"):
        await ran([shadows, again], tool_node("greet"))
    for order in ([plain, shadows], [shadows, plain]):
        state, _, _ = await ran(order, tool_node("greet"))
        assert state["greeting"] == "shadow"


# --- files --------------------------------------------------------------------------------


async def test_files_are_copies_in_every_workspace(tmp_path: Path) -> None:
    executable(tmp_path / "data" / "run.sh", "echo '{\"ran\": true}'")
    (tmp_path / "data" / "words.txt").write_text("one")
    executable(
        tmp_path / "look.sh",
        "echo more >> in/words.txt && ./bin/run.sh > /dev/null && "
        'echo "{\\"words\\": \\"$(tr \'\\n\' \' \' < in/words.txt)\\"}"',
    )
    files = [
        {"path": "data/words.txt", "dest": "in/words.txt"},
        {"path": "data/run.sh", "dest": "bin/run.sh"},
    ]
    tools = [{"name": "look", "path": "look.sh"}, {"name": "again", "path": "look.sh"}]
    source = plugin(tmp_path, tools=tools, files=files)
    state, _, _ = await ran([source], tool_node("look"), tool_node("again"))

    assert state["words"].split() == ["onemore"]
    assert (tmp_path / "data" / "words.txt").read_text() == "one"


async def test_a_file_that_is_gone_is_told_when_a_workspace_needs_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "words.txt").write_text("one")
    executable(tmp_path / "look.sh", "echo '{}'")
    source = plugin(
        tmp_path,
        tools=[{"name": "look", "path": "look.sh"}],
        files=[{"path": "words.txt", "dest": "words.txt"}],
    )
    options = RunOptions(plugins=(source,))
    installed = launch.install(options)
    (tmp_path / "words.txt").unlink()
    prepared = preparing.prepare(json.dumps(document(tool_node("look"))).encode(), name="f")

    async with launch.open_engine(options, installed=installed) as engine:
        with pytest.raises(Fault, match="no workspace can be made.*No such file"):
            await engine.run(prepared, {}, lambda _: None, stream=False)


def test_two_plugins_put_no_files_in_one_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for at, dest in (("a", "x/y"), ("b", "x")):
        (tmp_path / at).mkdir(exist_ok=True)
        (tmp_path / at / "f").write_text("")
        plugin(tmp_path / at, name=at, tools=SERVED[:0], discoverTools=True,
               files=[{"path": "f", "dest": dest}])  # fmt: skip
    sources = (str(tmp_path / "a" / "a.json"), str(tmp_path / "b" / "b.json"))

    with pytest.raises(Fault, match="the file 'x/y' is also provided by"):
        launch.install(RunOptions(plugins=sources))


# --- found by asking ----------------------------------------------------------------------


def listed(folder: Path, *names: str, **fields: Any) -> None:
    tools = [{"name": name, "componentType": "Greeter", **fields} for name in names]
    (folder / "listed.json").write_text(json.dumps({"tools": tools}))


@pytest.mark.parametrize("home", HOMES)
async def test_found_tools_are_used_only_when_the_operator_lets_them(
    home: str, tmp_path: Path
) -> None:
    source = plugin(tmp_path, home, discoverTools=True)
    listed(tmp_path, "greet")
    state, _, _ = await ran([source], tool_node("greet"), discover_tools=True)
    assert state["greeting"] == "Hello, world"

    with pytest.raises(ToolsMissing, match="there is no such tool"):
        await ran([source], tool_node("greet"))


async def test_a_found_tool_of_a_taken_name_is_refused_at_the_start(
    tmp_path: Path,
) -> None:
    executable(tmp_path / "tools" / "greet", "echo '{}'")
    source = plugin(tmp_path, discoverTools=True)
    listed(tmp_path, "greet")

    with pytest.raises(ToolTaken, match="it found a tool 'greet', which another source"):
        await ran([source], discover_tools=True, tools_dir=str(tmp_path / "tools"))


async def test_a_list_that_is_none_is_refused(tmp_path: Path) -> None:
    source = plugin(tmp_path, discoverTools=True)
    for text, said in (
        ('{"tools": {}}', "tools"),
        ('{"tools": [{"nam": "x"}]}', "name"),
        (json.dumps({"tools": [{"name": f"t{n}"} for n in range(257)]}), "may list 256"),
    ):
        (tmp_path / "listed.json").write_text(text)
        with pytest.raises(Fault, match=said):
            await ran([source], discover_tools=True)


BAD: dict[str, Callable[[], dict[str, Any]]] = {
    "that is no name": lambda: {"name": ""},
    "it is listed twice": lambda: {"name": "greet"},
    "the schema takes": lambda: {"name": "big", "inputSchema": {"title": "x" * 65 * 1024}},
    "17 levels deep": lambda: {"name": "deep", "inputSchema": nested(17)},
    "not the type of an object": lambda: {"name": "a", "inputSchema": {"type": "array"}},
    "no JSON Schema": lambda: {
        "name": "b",
        "outputSchema": {"type": "object", "required": 3},
    },
}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"x": schema}
    return schema


async def test_one_bad_tool_is_left_out_and_the_others_are_there(tmp_path: Path) -> None:
    source = plugin(tmp_path, discoverTools=True)
    tools = [{"name": "greet", "componentType": "G"}, *(make() for make in BAD.values())]
    (tmp_path / "listed.json").write_text(json.dumps({"tools": tools}))
    said: list[str] = []
    async with engine_of(source, said=said, discover_tools=True) as engine:
        assert engine.tool_names() == ["greet"]

    left_out = [line for line in said if "is left out" in line]
    assert len(left_out) == len(BAD)
    for reason, line in zip(BAD, left_out, strict=True):
        assert reason in line


class Finder:
    """A plugin that finds what a test puts there."""

    name = "finder"

    def __init__(self, *names: str) -> None:
        self.names: Sequence[str] | None = names
        self.asked = 0

    async def request(self, verb: str, params: bytes, **_: Any) -> Any:
        self.asked += 1
        await trio.lowlevel.checkpoint()
        if self.names is None:
            await trio.sleep_forever()
        return {"tools": [{"name": each} for each in self.names or ()]}


def discovery(finder: Finder, *taken: str, said: list[str] | None = None) -> Discovery:
    class Found:
        name = "finder"
        source = "finder.json"

    lines = [] if said is None else said
    return Discovery(
        [Found()],  # type: ignore[list-item]
        {"finder": finder},
        taken,
        patience=30,
        log=lambda line: lines.append(line.text),
    )


async def test_tools_that_change_are_found_when_one_is_missing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    finder = Finder("a", "b")
    said: list[str] = []
    found = discovery(finder, "taken", said=said)
    await found.begin()
    await trio.sleep(plugin_tools_module.AGAIN + 1)
    await found.look_for(["a", "taken"])
    assert finder.asked == 1

    finder.names = ("b", "c", "taken")
    await found.look_for(["c"])
    assert sorted(found.tools) == ["b", "c"]
    assert said == ["the tool 'taken' is left out: another source has it"]
    await found.look_for(["nobody has this"])
    assert finder.asked == 2  # not again at once

    finder.names = None
    await trio.sleep(plugin_tools_module.AGAIN + 1)
    await found.look_for(["nobody has this"])
    assert sorted(found.tools) == ["b", "c"]
    assert "its tools stay as they were" in said[-1]


async def test_a_plugin_that_lists_nothing_in_time_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    finder = Finder()
    finder.names = None
    with pytest.raises(ToolsNotListed, match="did not list its tools within 10 s"):
        await discovery(finder).begin()


def test_a_listed_tool_has_the_fields_of_a_manifests() -> None:
    assert set(ListedTool.__struct_encode_fields__) == {
        "name", "description", "componentType", "inputSchema", "outputSchema",
    }  # fmt: skip
    assert sys.modules["heddle.plugin_tools"] is plugin_tools_module
