"""What explain says of a flow is what happens in a run of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from heddle import launch, preparing
from heddle.engine.walk import Limits
from heddle.events import Event, PluginEmitted
from heddle.preview.explanation import Explanation, explain
from heddle.preview.limits import Bounds
from plugins_host import CEILING, START_TIMEOUT
from tests.support.flows import (
    agent,
    component,
    edge,
    end,
    flow,
    inner,
    llm,
    model,
    prop,
    ref,
    server_tool,
    start,
)

Plain = dict[str, Any]
Asked = tuple[str, str, str, str, str]
POLICIES = Path(__file__).parents[3] / "examples" / "policies"
RECORDER = """
from heddle.plugin import pass_, proceed
from plugins_host import SEAMS

def told(seam, half):
    def answer(event, ctx):
        subject = event.subject
        ctx.emit_event("asked", {
            "path": list(subject.node_path or [subject.node_name]),
            "agent": subject.agent_name, "tool": subject.tool_name,
            "place": f"{seam}.{half}",
        })
        return proceed() if half == "before" else pass_()
    return answer

EVERYWHERE = {
    seam.value: [half.value for half in row.halves] for seam, row in SEAMS.items()
}
SOME = {"node": ["after"], "modelCall": ["before", "after"], "toolCall": ["before"]}

def component(name, seams):
    return {"componentType": name, "kind": "middleware", "seams": seams}

manifest = {
    "name": "recorder", "version": "1", "capabilities": ["emitEvent"],
    "components": [component("All", EVERYWHERE), component("Some", SOME)],
}
handlers = {
    name: {seam: {half: told(seam, half) for half in each} for seam, each in seams.items()}
    for name, seams in (("All", EVERYWHERE), ("Some", SOME))
}
"""
BOUNDS = Bounds(Limits(), 30.0, 30.0)


@pytest.fixture
def recorder(tmp_path: Path) -> str:
    (tmp_path / "recorder.py").write_text(RECORDER)
    return str(tmp_path / "recorder.py")


def scripted(*steps: Plain, name: str = "model") -> Plain:
    return {**model("scripted:", metadata={"script": list(steps)}), "id": name}


def calls(name: str, **arguments: Any) -> Plain:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def member(name: str, *steps: Plain, **fields: Any) -> Plain:
    config = scripted(*steps, name=f"model-{name}")
    return component("Agent", name, system_prompt=name, llm_config=config, **fields)


DONE = {"content": "done"}
ASK = inner("sub", [start(), llm("ask", "hi"), end()], ["start", "ask", "end"])
EACH = inner(
    "each",
    [start(inputs=[prop("who")]), llm("ask", "{{who}}"), end(outputs=[prop("who")])],
    ["start", "ask", "end"],
)
NODES: dict[str, Plain] = {
    "a flow inside": component("FlowNode", "x", subflow=ASK),
    "a caught failure": component("CatchExceptionNode", "x", subflow=ASK),
    "flows side by side": component(
        "ParallelFlowNode",
        "x",
        subflows=[
            ASK,
            inner("other", [start("s"), end("e")], ["s", "e"]),
        ],
    ),
    "a map": component("MapNode", "x", subflow=EACH),
    "a team": component(
        "AgentNode",
        "x",
        agent=component(
            "ManagerWorkers",
            "crew",
            group_manager=member(
                "boss", calls("one", task="go"), calls("two", task="go"), DONE
            ),
            workers=[
                member("one", calls("shell", cmd="ls"), DONE, tools=[server_tool("shell")]),
                member("two", DONE),
            ],
        ),
    ),
    "a swarm": component(
        "AgentNode",
        "x",
        agent=component(
            "Swarm",
            "bees",
            first_agent=ref("a"),
            relationships=[[ref("a"), ref("b")]],
        ),
    ),
    "an agent with two tools": agent(
        "x", tools=[server_tool("shell"), server_tool("read_log")], llm_config=ref("busy")
    ),
}

SIDE_BY_SIDE = {"flows side by side": [("x/s", "x/e"), ("x/start", "x/ask", "x/end")]}
"""What takes no turns with the rest."""


def around(node: Plain) -> Plain:
    shared = [
        scripted(DONE),
        scripted(calls("shell", cmd="ls"), calls("read_log"), DONE, name="busy"),
        member(
            "a",
            calls("send_message", recipient="b", message="hi"),
            calls("handoff_conversation", recipient="b", message="yours"),
        ),
        member("b", DONE, DONE, DONE),
    ]
    fails = node["component_type"] == "CatchExceptionNode"
    edges = [edge("x", "end", "caught_exception_branch")] if fails else []
    return flow([start(), node, end()], ["start", "x", "end"], edges, shared=shared)


async def happened(
    name: str, options: launch.RunOptions
) -> tuple[list[Asked], Explanation]:
    """Who was asked where in a run, and what was said before it."""
    installed = launch.install(options)
    prepared = preparing.load(name, installed=installed)
    told = explain(prepared.plan, installed, BOUNDS)
    events: list[Event] = []
    await launch.run(prepared, options, events.append, installed=installed)
    return [asked(each) for each in events if isinstance(each, PluginEmitted)], told


def asked(event: PluginEmitted) -> Asked:
    data = event.data
    path = "/".join(step for step in data["path"] if isinstance(step, str))
    return path, data["agent"], data["tool"], data["place"], event.type.split(":")[1]


def rows(told: Explanation) -> list[Asked]:
    return [
        (
            "/".join(each.place.path),
            each.place.agent or "",
            each.place.tool or "",
            f"{each.place.seam}.{each.place.half}",
            policy.component_type,
        )
        for each in told.consulted
        for policy in each.policies
    ]


def assert_walks_along(told: list[Asked], run: list[Asked]) -> None:
    """Each step goes forward in the table, or back to a row that was met before."""
    here, been = -1, set[int]()
    for each in run:
        assert each in told
        found = [number for number, row in enumerate(told) if row == each]
        ahead = [number for number in found if number > here]
        here = ahead[0] if ahead else next(n for n in found if n in been)
        been.add(here)


@pytest.mark.parametrize(
    "name", sorted(each.name for each in (POLICIES / "flows").glob("*.json"))
)
async def test_an_example_is_asked_where_it_was_said(name: str, recorder: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(POLICIES)
        options = launch.RunOptions(
            tools_dir="tools", plugins=("retry_policy.json", recorder)
        )
        run, told = await happened(f"flows/{name}", options)
    said = [each for each in rows(told) if each[-1] != "RetryPolicy"]
    assert len(run) >= 9
    assert_walks_along(said, run)


@pytest.mark.parametrize("kind", NODES)
async def test_a_node_of_each_kind_is_asked_where_it_was_said(
    kind: str, recorder: str, tmp_path: Path
) -> None:
    (tmp_path / "flow.json").write_text(json.dumps(around(NODES[kind])))
    options = launch.RunOptions(
        inputs={"iterated_who": ["Ada", "Bo", "Cy"]},
        tools_dir=str(POLICIES / "tools"),
        plugins=(recorder,),
    )
    run, told = await happened(str(tmp_path / "flow.json"), options)
    said = rows(told)
    for others in SIDE_BY_SIDE.get(kind, [()]):
        there = [each for each in run if each[0] not in others]
        assert_walks_along([each for each in said if each[0] not in others], there)
    # Nothing failed, and all else that was said has happened.
    assert set(said) - set(run) == {each for each in said if "nodeError" in each[3]}


async def test_a_team_is_asked_inside_the_calls_that_ask_it(
    recorder: str, tmp_path: Path
) -> None:
    (tmp_path / "flow.json").write_text(json.dumps(around(NODES["a team"])))
    options = launch.RunOptions(
        inputs={"iterated_who": ["Ada", "Bo", "Cy"]},
        tools_dir=str(POLICIES / "tools"),
        plugins=(recorder,),
    )
    run, _ = await happened(str(tmp_path / "flow.json"), options)
    calls_of_one = [n for n, each in enumerate(run) if each[2] == "one"]
    inside = [n for n, each in enumerate(run) if each[1] == "one"]
    assert calls_of_one[0] < min(inside) < max(inside) < calls_of_one[-1]


def told_of(node: Plain, *plugins: str, **more: Any) -> Explanation:
    folder = more.pop("folder")
    (folder / "flow.json").write_text(json.dumps(around(node)))
    installed = launch.install(launch.RunOptions(plugins=plugins))
    prepared = preparing.load(str(folder / "flow.json"), installed=installed)
    return explain(prepared.plan, installed, more.pop("bounds", BOUNDS), **more)


def test_limits_are_those_that_the_flow_and_its_policies_meet(
    tmp_path: Path, recorder: str
) -> None:
    plain = component("OutputMessageNode", "x", message="hi")
    few = {each.name for each in told_of(plain, folder=tmp_path).limits}
    assert few == {"nodeAttempts", "nodeExecutions", "run"}
    # What runs in heddle itself is not started, and has no more to say than others.
    here = {each.name for each in told_of(plain, recorder, folder=tmp_path).limits}
    assert here - few == {"silence", "consultation", "retryDelay"}
    audit = str(POLICIES / "node_audit.json")
    there = {each.name for each in told_of(plain, audit, folder=tmp_path).limits}
    assert there - few == {"silence", "consultation", "pluginStart"}
    team = {each.name for each in told_of(NODES["a team"], folder=tmp_path).limits}
    assert team - few == {"modelAttempts", "rounds", "roundsTogether", "toolExecution"}


def test_limits_are_what_the_flags_made_of_them(tmp_path: Path) -> None:
    told = told_of(
        NODES["a map"],
        str(POLICIES / "rate_limit.json"),
        folder=tmp_path,
        bounds=Bounds(Limits(7, 5, 60.0), 2.0, 1.5),
    )
    found = {each.name: each.value for each in told.limits}
    assert found == {
        "nodeAttempts": 5,
        "nodeExecutions": 7,
        "modelAttempts": 3,
        "retryDelay": 30,
        "silence": 1.5,
        "consultation": 1.5 * CEILING,
        "pluginStart": START_TIMEOUT,
        "run": 60,
    }
    assert all(each.flag == "" for each in told.limits if each.name == "modelAttempts")


def test_places_where_nobody_is_asked_are_counted_or_shown(tmp_path: Path) -> None:
    audit = str(POLICIES / "node_audit.json")
    few = told_of(NODES["a flow inside"], audit, folder=tmp_path)
    every = told_of(NODES["a flow inside"], audit, folder=tmp_path, everywhere=True)
    assert all(each.policies for each in few.consulted)
    assert len(few.consulted) + few.quiet == len(every.consulted)
    assert every.quiet == 0
    assert not few.cut
