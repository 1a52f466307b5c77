"""Nodes that plugins execute, as a module and in processes of both runtimes."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from heddle.engine.faults import NodeFailed, PolicyFailed
from heddle.engine.plan import make_plan
from heddle.engine.testing import FakeModels, FakeTools, policies
from heddle.events import NodeStarted, PluginEmitted, PluginLogged
from heddle.spec import DocumentError
from plugins_host import PluginGone, PluginOverdue
from tests.heddle.kinds_support import HOMES, PROCESSES, one, opened, say, source
from tests.support.flows import (
    agent,
    component,
    end,
    flow,
    llm,
    model,
    prop,
    ref,
    start,
)

CHOICE = ("left", "right")

WRONG: dict[str, tuple[Any, str]] = {
    "no output": ({"branch": "left"}, "kinds"),
    "an output that is no object": ({"output": 7}, "kinds"),
    "a branch that it does not have": (
        {"output": {"size": 1}, "branch": "lefd"},
        "plugin 'kinds', node 'n' (Choose) chose the branch 'lefd', which it does not "
        "declare. Did you mean 'left'?",
    ),
    "no branch": (
        {"output": {"size": 1}},
        "plugin 'kinds', node 'n' (Choose) chose no branch. Answer with 'branch', one of: "
        "left, right.",
    ),
    "an output too many": (
        {"output": {"size": 1, "sise": 2}, "branch": "left"},
        "plugin 'kinds', node 'n' (Choose) gave 'sise', which its outputs do not declare. "
        "Did you mean 'size'?",
    ),
    "an output too few": (
        {"output": {}, "branch": "left"},
        "plugin 'kinds', node 'n' (Choose) gave no 'size', which the outputs declare. It "
        "gave: nothing.",
    ),
    "an output of another type": (
        {"output": {"size": "x"}, "branch": "left"},
        "plugin 'kinds', node 'n' (Choose) gave 'size' as something else than declared",
    ),
    "a reserved name": (
        {"output": {"_size": 1}, "branch": "left"},
        "plugin 'kinds', node 'n' (Choose) gave '_size', and names that begin with '_' are "
        "reserved. Give it another name.",
    ),
    "a branch that is no text": (
        {"output": {"size": 1}, "branch": 7},
        "plugin 'kinds', Choose execute $.branch: expected 'str | null', got 'int'. Answer "
        "{output: {…}, branch?: '…'}.",
    ),
}


@pytest.mark.parametrize("home", HOMES)
async def test_a_plugin_executes_a_node_and_is_held_to_what_it_declares(
    home: str, tmp_path: Path
) -> None:
    async with opened(source(home, tmp_path)) as bench:
        answer = {"output": {"size": 3}, "branch": "right"}
        result, events = await bench.run(
            one(say(answer, "Choose"), *CHOICE), {"text": "abc"}
        )
        assert result == {"text": "abc", "size": 3}
        assert [e.node_type for e in events if isinstance(e, NodeStarted)] == [
            "StartNode",
            "Choose",
            "EndNode",
        ]
        for name, (wrong, sentence) in WRONG.items():
            with pytest.raises(NodeFailed) as caught:
                await bench.run(one(say(wrong, "Choose"), *CHOICE), {"text": "abc"})
            assert sentence in str(caught.value), name
            assert "node 'n' (Choose)" in str(caught.value), name


@pytest.mark.parametrize("home", HOMES)
async def test_a_node_may_use_the_run_that_it_works_for(home: str, tmp_path: Path) -> None:
    asked: list[str] = []

    def seen(event: Any, _ctx: Any) -> dict[str, Any]:
        asked.append(event.subject.node_name)
        return {"action": "proceed"}

    models = FakeModels(["hello"])
    tools = FakeTools({"double": lambda n: {"n": 2 * n}})
    async with opened(source(home, tmp_path)) as bench:
        result, events = await bench.run(
            one(component("Busy", "n", llm_config=ref("model"))),
            {"n": 4},
            models=models,
            tools=tools,
            stream=True,
            policies=policies(
                ("Watch", {"modelCall": {"before": seen}, "toolCall": {"before": seen}})
            ),
        )
    assert result == {
        "n": 4,
        "tool": {"n": 8},
        "model": "hello",
        "workspace": "/workspace",
        "model_id": "stub",
    }
    assert models.requests[0].model == "stub"
    assert asked == ["n"], "a model call passes the policies, a tool that a plugin runs not"
    told = [e for e in events if isinstance(e, PluginEmitted | PluginLogged)]
    assert told == [
        PluginEmitted("plugin:Busy:seen", "n", "Busy", {"n": 4}),
        PluginLogged("n", "Busy", "warn", "busy"),
    ]
    assert tools.open_workspaces == 0
    assert not [e for e in events if getattr(e, "delta", None)], (
        "it is no answer of the node"
    )


@pytest.mark.parametrize("home", PROCESSES)
async def test_a_policy_that_ends_the_run_is_not_caught_by_a_plugin(
    home: str, tmp_path: Path
) -> None:
    def broken(_event: Any, _ctx: Any) -> Any:
        raise ValueError("the policy is broken")

    def forbids(_event: Any, _ctx: Any) -> Any:
        return {"action": "reject", "reason": "no models today"}

    tools = FakeTools({"double": lambda n: {"n": n}})
    node = component("Busy", "n", llm_config=ref("model"))
    async with opened(source(home, tmp_path)) as bench:
        began = trio.current_time()
        with pytest.raises(PolicyFailed, match="the policy is broken"):
            await bench.run(
                one(node),
                {"n": 1, "stubborn": True},
                tools=tools,
                policies=policies(("Broken", {"modelCall": {"before": broken}})),
            )
        assert trio.current_time() - began < 8, "and the plugin is not waited for"
        # A refused call is an answer like another: the plugin may go on without it.
        with pytest.raises(NodeFailed, match="no models today"):
            await bench.run(
                one(node),
                {"n": 1},
                tools=tools,
                policies=policies(("No", {"modelCall": {"before": forbids}})),
            )


async def test_a_node_without_a_model_is_told_to_get_one(tmp_path: Path) -> None:
    async with opened(source("module", tmp_path)) as bench:
        with pytest.raises(NodeFailed, match="has no 'llm_config' of its own"):
            await bench.run(
                one(component("Busy", "n")),
                {"n": 4},
                tools=FakeTools({"double": lambda n: {"n": n}}),
            )


@pytest.mark.parametrize("home", PROCESSES)
async def test_a_silent_a_dead_and_a_cancelled_node_fail_alone(
    home: str, tmp_path: Path
) -> None:
    stuck = one(component("Stuck", "n"))
    async with opened(source(home, tmp_path), patience=0.4) as bench:
        asker = bench.plugins.askers["kinds"]
        await asker.start()  # type: ignore[attr-defined]
        with pytest.raises(NodeFailed) as silent:
            await bench.run(stuck)
        assert isinstance(silent.value.__cause__, PluginOverdue)
        assert "did not answer 'execute' within 0.4 s" in str(silent.value)
        with pytest.raises(NodeFailed) as dead:
            await bench.run(stuck, {"die": True})
        assert isinstance(dead.value.__cause__, PluginGone)
        assert "exited with status 7" in str(dead.value)
        with trio.move_on_after(0.05) as scope:
            await bench.run(stuck)
        assert scope.cancelled_caught
        result, _ = await bench.run(one(say({"output": {"again": True}})))
        assert result == {"again": True}, "a fresh process takes the next call"


async def test_a_handler_that_is_missing_shows_the_line_to_write(tmp_path: Path) -> None:
    async with opened(source("python", tmp_path, "--deaf")) as bench:
        with pytest.raises(NodeFailed) as caught:
            await bench.run(one(say({"output": {}})))
    assert "Write serve({'Say': {'execute': execute}})" in str(caught.value)


# --- what a document says of them ---------------------------------------------------------

PROBLEMS: dict[str, tuple[bytes, str]] = {
    "a branch without an edge": (
        one(say({}, "Choose"), "left"),
        "no edge leaves 'n' by its branch 'right'",
    ),
    "an edge that it never takes": (
        one(say({}, "Choose"), "left", "right", "up"),
        "the edge leaves 'n' by branch 'up', which it never takes",
    ),
    "a branch that the plugin does not declare": (
        one(say({}, "Choose", branches=["left", "up"]), "left", "up"),
        "$.$referenced_components.n.branches[1]: plugin 'kinds' declares no branch 'up'",
    ),
    "a field against the schema": (
        one(component("Choose", "n", knob=7), *CHOICE),
        "$.$referenced_components.n.knob: 7 is not an object",
    ),
    "a field that the schema does not have": (
        one(component("Choose", "n", wrong=7), *CHOICE),
        "$.$referenced_components.n: 'wrong' is not allowed here",
    ),
    "a nested component against its schema": (
        one(say({}, knob=component("Knob", "k", level="high"))),
        "$.$referenced_components.n.knob.level: 'high' is not an integer. Write it as "
        "plugin 'kinds' declares.",
    ),
    "a nested component that lacks a field": (
        one(say({}, knob=component("Knob", "k"))),
        "$.$referenced_components.n.knob: 'level' is missing",
    ),
    "another kind where a node belongs": (
        one(component("Scripted", "n")),
        "'n' is of type Scripted, an LLM configuration of plugin 'kinds', where a node "
        "belongs. Name a node here.",
    ),
    "a model of its own that is none": (
        one(say({}, llm_config=component("Rewrite", "m"))),
        "'m' is of type Rewrite, a transform of plugin 'kinds', where an LLM configuration "
        "belongs",
    ),
}


@pytest.mark.parametrize("what", PROBLEMS)
async def test_a_document_is_held_to_what_the_manifest_declares(
    what: str, tmp_path: Path
) -> None:
    written, sentence = PROBLEMS[what]
    async with opened(source("module", tmp_path)) as bench:
        with pytest.raises(DocumentError) as caught:
            make_plan(bench.read(written))
    assert sentence in str(caught.value)


async def test_a_plugin_is_shown_its_component_whole_and_in_the_documents_words(
    tmp_path: Path,
) -> None:
    knob = component("Knob", "k", level=3)
    node = say({"output": {}}, llm_config=ref("model"), knob=ref("k"), inputs=[prop("a")])
    async with opened(source("module", tmp_path)) as bench:
        plan = make_plan(bench.read(one(node, shared=[knob])))
    written = plan.graph.nodes[1].component.written  # type: ignore[attr-defined]
    assert written == {**node, "knob": knob, "llm_config": model()}


async def test_what_a_document_declares_of_a_node_counts_instead_of_the_manifest(
    tmp_path: Path,
) -> None:
    answer = {"output": {"count": 2}, "branch": "left"}
    node = say(answer, "Choose", outputs=[prop("count", "integer")], branches=["left"])
    async with opened(source("module", tmp_path)) as bench:
        result, _ = await bench.run(one(node, "left"))
    assert result == {"count": 2}


async def test_a_short_document_does_not_become_an_endless_component(
    tmp_path: Path,
) -> None:
    shared = [component("Knob", "k0", level=1)]
    for level in range(1, 20):
        below = ref(f"k{level - 1}")
        shared.append(component("Knob", f"k{level}", level=1, a=below, b=below))
    async with opened(source("module", tmp_path)) as bench:
        with pytest.raises(DocumentError, match="more than 20000 values once references"):
            bench.read(one(say({}, knob=ref("k19")), shared=shared))


async def test_a_module_lacking_a_handler_is_refused_when_it_is_loaded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "half.py"
    path.write_text(
        "manifest = {'name': 'half', 'version': '1', 'components': "
        "[{'componentType': 'Half', 'kind': 'provider'}]}\nhandlers = {'Half': {}}\n",
        encoding="utf-8",
    )
    with pytest.raises(Exception, match="Half has no handler 'chat'"):
        async with opened(str(path)):
            raise AssertionError


# --- by hand, and many at once ----------------------------------------------------------

RAW = """
import json, sys
say = lambda **frame: print(json.dumps(frame), flush=True)
for line in sys.stdin:
    frame = json.loads(line)
    params = frame.get("params", {})
    verb, id = frame.get("method"), frame.get("id")
    if verb == "execute":
        print("executing", params["node"]["name"])
        asked = {"call": id, "name": "double", "input": {"n": 2}}
        say(id="r", method="runTool", params=asked)
        doubled = json.loads(sys.stdin.readline())["result"]
        answer = {"output": {"doubled": doubled["n"]}, "branch": None, "future": 1}
        say(id=id, result=answer)
    elif verb == "chat":
        say(id=id, partial={"content": "by "})
        say(id=id, partial={"content": "hand"})
        say(id=id, result={"finish_reason": "stop"})
    elif verb == "apply":
        said = params["messages"][-1]["content"]
        say(id=id, error={"name": "TooLong", "message": said})
    elif verb == "shutdown":
        break
    else:
        say(id=id, error={"name": "Unknown", "message": verb})
"""


async def test_a_plugin_by_hand_needs_nothing_but_lines(tmp_path: Path) -> None:
    (tmp_path / "raw.py").write_text(RAW, encoding="utf-8")
    manifest = {
        "name": "raw",
        "version": "1",
        "command": [sys.executable, "raw.py"],
        "capabilities": ["runTool"],
        "components": [
            {"componentType": "Double"},
            {"componentType": "Hand", "kind": "provider", "stream": True},
            {"componentType": "Refuse", "kind": "transform", "phase": "pre"},
        ],
    }
    (tmp_path / "raw.json").write_text(json.dumps(manifest), encoding="utf-8")
    async with opened(str(tmp_path / "raw.json")) as bench:
        tools = FakeTools({"double": lambda n: {"n": 2 * n}})
        result, _ = await bench.run(one(component("Double", "n")), tools=tools)
        assert result == {"doubled": 4}
        assert [line.text for line in bench.log] == ["executing n"]
        hand = component("Hand", "h")
        result, _ = await bench.run(one(llm("ask", "hi", llm_config=hand)), stream=True)
        assert result == {"generated_text": "by hand"}
        node = agent("a", llm_config=hand)
        node["agent"]["transforms"] = [component("Refuse", "t")]
        with pytest.raises(NodeFailed, match="plugin 'raw': it failed with TooLong: {}"):
            await bench.run(one(node))


@pytest.mark.parametrize("home", HOMES)
async def test_many_runs_share_a_plugin_and_each_is_served_by_its_own(
    home: str, tmp_path: Path
) -> None:
    written = one(component("Busy", "n", llm_config=ref("model")))
    results: dict[int, Any] = {}

    async with opened(source(home, tmp_path)) as bench:

        async def run(number: int) -> None:
            async def double(n: int) -> dict[str, int]:
                await trio.lowlevel.checkpoint()
                return {"n": n * 1000}

            result, events = await bench.run(
                written,
                {"n": number},
                models=FakeModels([f"model {number}"]),
                tools=FakeTools({"double": double}),
            )
            told = [each.data for each in events if isinstance(each, PluginEmitted)]
            results[number] = (result["tool"]["n"], result["model"], told)

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(run, number)
            # A run that ends in the middle of it takes nobody with it.
            with trio.move_on_after(0.001):
                await run(99)
    results.pop(99, None)
    assert results == {
        number: (number * 1000, f"model {number}", [{"n": number}]) for number in range(20)
    }


async def test_a_plugin_works_inside_flows_of_flows(tmp_path: Path) -> None:
    inner = flow(
        [start("s2"), say({"output": {"said": "in"}}), end("e2")], ["s2", "n", "e2"]
    )
    inner = {**inner, "id": "inner", "name": "inner"}
    outer = component("FlowNode", "f", subflow=inner)
    async with opened(source("module", tmp_path)) as bench:
        result, _ = await bench.run(one(outer))
        assert result == {"said": "in"}
        del inner["$referenced_components"]["n"]["answer"]
        inner["$referenced_components"]["n"]["llm_config"] = component("Late", "m")
        with pytest.raises(DocumentError, match="'m' is of type Late, a transform"):
            make_plan(bench.read(one(outer)))
