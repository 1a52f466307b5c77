"""A flow for each item, and flows side by side: what goes in, comes out, is refused."""

import statistics
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from heddle.engine.faults import NodeFault, RefusedByPolicy, RunFailed
from heddle.engine.plan import make_plan
from heddle.engine.reducers import REDUCERS
from heddle.engine.testing import policies, run_document
from heddle.engine.together import MOST, together
from heddle.engine.walk import Limits
from heddle.events import Event, NodeCompleted, NodeFailed, NodeStarted
from heddle.spec import DocumentError, read_document
from tests.support.flows import component, document, end, flow, inner, prop, start, tool

Plain = dict[str, Any]
MANY = Limits(max_iterations=100_000)
MAPS = ("MapNode", "ParallelMapNode")


def items(schema: Plain, kind: str = "number") -> Plain:
    """A flow from ``x`` and ``k`` to ``y``, by the tool ``f``."""
    given_ = [{"title": "x", **schema}, prop("k", "number", default=1)]
    outputs = [prop("y", kind)]
    return inner(
        "sub",
        [
            start(inputs=given_),
            tool("f", inputs=given_, outputs=outputs),
            end(outputs=outputs),
        ],
        ["start", "f", "end"],
        inputs=given_,
        outputs=outputs,
    )


NUMBERS = items({"type": "number"})


def mapped(
    kind: str, sub: Plain = NUMBERS, inputs: list[Plain] | None = None, **fields: Any
) -> bytes:
    takes = fields.pop("takes", None)
    each = component(kind, "each", subflow=sub, inputs=takes, **fields)
    return document(flow([start(inputs=inputs), each, end()], ["start", "each", "end"]))


def times(x: Any, k: Any) -> Mapping[str, Any]:
    return {"y": x * k}


async def run(data: bytes, given_: Mapping[str, Any], f: Any = times, **more: Any) -> Any:
    result, _ = await run_document(data, given_, tools={"f": f}, limits=MANY, **more)
    return result


async def failure(data: bytes, given_: Mapping[str, Any], f: Any = times) -> str:
    with pytest.raises(RunFailed) as caught:
        await run(data, given_, f)
    return str(caught.value)


def problem(data: bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        make_plan(read_document(data))
    (only,) = caught.value.problems
    return f"{only.path.rpartition('.')[2]}: {only.what}"


@pytest.mark.parametrize("kind", MAPS)
@given(
    st.lists(st.integers(-1000, 1000), max_size=20),
    st.integers(-9, 9),
    st.sampled_from(list(REDUCERS)),
)
@settings(max_examples=25, deadline=None)
def test_a_map_is_a_loop(kind: str, xs: list[int], k: int, reduction: str) -> None:
    data = mapped(kind, reducers={"y": reduction})
    looped = [x * k for x in xs]
    given_ = {"iterated_x": xs, "iterated_k": k}
    if not xs and reduction in ("average", "max", "min"):
        assert "no items" in trio.run(failure, data, given_)
        return
    wanted = {
        "append": lambda: looped,
        "sum": lambda: sum(looped),
        "average": lambda: statistics.fmean(looped),
        "max": lambda: max(looped),
        "min": lambda: min(looped),
    }[reduction]()
    found = trio.run(run, data, given_)["collected_y"]
    assert found == (pytest.approx(wanted) if reduction == "average" else wanted)


@pytest.mark.parametrize("kind", MAPS)
async def test_all_outputs_are_appended_without_reducers(kind: str) -> None:
    result = await run(mapped(kind), {"iterated_x": [1, 2]})
    assert result["collected_y"] == [1, 2]


async def test_an_average_of_integers_is_what_the_output_declares() -> None:
    sub = items({"type": "number"}, "integer")
    given_ = {"iterated_x": [1, 2]}
    data = mapped("MapNode", sub, reducers={"y": "average"})
    assert (await run(data, given_))["collected_y"] == 1
    outputs = [prop("collected_y", "number")]
    data = mapped("MapNode", sub, reducers={"y": "average"}, outputs=outputs)
    assert (await run(data, given_))["collected_y"] == 1.5


async def test_a_default_stands_in_for_a_reduction_of_nothing() -> None:
    outputs = [prop("collected_y", "number", default=-1)]
    data = mapped("MapNode", reducers={"y": "max"}, outputs=outputs)
    assert (await run(data, {"iterated_x": []}))["collected_y"] == -1


LIST: Plain = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("declared", "value", "times_run"),
    [
        ({"type": "array", "items": LIST}, [[1], [2]], 2),
        ({"type": "array", "items": LIST}, [], 0),
    ],
)
async def test_lists_of_lists_are_gone_through_by_their_type(
    declared: Plain, value: Any, times_run: int
) -> None:
    sub = items(LIST)
    data = mapped("MapNode", sub, inputs=[{"title": "iterated_x", **declared}])
    result = await run(data, {"iterated_x": value}, lambda x, k: {"y": len(x)})
    assert result["collected_y"] == [1] * times_run


async def test_a_list_that_the_flow_takes_whole_is_given_to_all() -> None:
    sub = items(LIST)
    inputs = [
        {"title": "iterated_x", **LIST},
        {"title": "iterated_k", "type": "array", "items": {"type": "number"}},
    ]
    data = mapped("MapNode", sub, inputs=inputs)
    result = await run(
        data,
        {"iterated_x": [5, 6], "iterated_k": [1, 2, 3]},
        lambda x, k: {"y": len(x) * k},
    )
    assert result["collected_y"] == [2, 4, 6]


async def test_without_a_type_the_value_decides() -> None:
    sub = items(LIST)
    each = {"iterated_x": [[1, 2], [3]], "iterated_k": 1}
    result = await run(mapped("MapNode", sub), each, lambda x, k: {"y": len(x)})
    assert result["collected_y"] == [2, 1]
    whole = {"iterated_x": [1, 2], "iterated_k": [1, 2]}
    result = await run(mapped("MapNode", sub), whole, lambda x, k: {"y": len(x)})
    assert result["collected_y"] == [2, 2]


async def test_items_are_converted_to_what_the_flow_takes() -> None:
    sub = items({"type": "string"})
    result = await run(
        mapped("MapNode", sub), {"iterated_x": [1, True]}, lambda x, k: {"y": len(x)}
    )
    assert result["collected_y"] == [1, 4]
    told = await failure(mapped("MapNode"), {"iterated_x": [1, "two"]})
    assert "'iterated_x'[1]" in told


async def test_lists_of_different_lengths_and_no_list_at_all_are_errors() -> None:
    given_: Plain = {"iterated_x": [1, 2], "iterated_k": [1]}
    assert "'iterated_x' has 2, 'iterated_k' has 1" in await failure(
        mapped("MapNode"), given_
    )
    assert "none of the inputs is a list" in await failure(
        mapped("MapNode"), {"iterated_x": 1}
    )


async def test_a_flow_that_declares_nothing_is_given_the_state_beside_its_item() -> None:
    sub = inner("sub", [start(), tool("f"), end()], ["start", "f", "end"])
    data = mapped("MapNode", sub, inputs=None, reducers={"y": "append"})
    assert "nothing to go through" in problem(data)
    data = mapped("MapNode", sub, reducers={"y": "append"}, takes=[{"title": "iterated_x"}])
    assert (await run(data, {"iterated_x": [1, 2], "k": 3}))["collected_y"] == [3, 6]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"reducers": {"z": "append"}}, "'reducers' names 'z'"),
        ({"takes": [prop("x", "number")]}, "is none of the flow's"),
        ({"takes": [prop("iterated_q", "number")]}, "is none of the flow's"),
        ({"takes": [prop("iterated_x", "object")]}, "is object on node 'each'"),
        ({"outputs": [prop("y", "number")]}, "is collected by no reducer"),
    ],
)
def test_a_map_is_refused_for(fields: Plain, what: str) -> None:
    assert what in problem(mapped("MapNode", **fields))


def test_only_numbers_are_added_up() -> None:
    sub = items({"type": "number"}, "string")
    told = problem(mapped("MapNode", sub, reducers={"y": "sum"}))
    assert told == "reducers: 'y' is string, and 'sum' takes integers and numbers"


async def test_items_run_side_by_side_up_to_a_bound_and_stand_in_order() -> None:
    under_way = most = 0
    doors = [trio.Event() for _ in range(2 * MOST)]

    async def wait(x: int, k: int) -> Mapping[str, Any]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await doors[int(x)].wait()
        under_way -= 1
        return {"y": x}

    found: list[Any] = []

    async def one() -> None:
        found.append(
            await run(mapped("ParallelMapNode"), {"iterated_x": [*range(2 * MOST)]}, wait)
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        await wait_all_tasks_blocked()
        assert under_way == MOST
        for door in reversed(doors):
            door.set()
    assert found[0]["collected_y"] == [*range(2 * MOST)]
    assert most == MOST


async def test_events_of_items_say_which_item_it_is() -> None:
    _, events = await run_document(
        mapped("ParallelMapNode"), {"iterated_x": [1, 2]}, tools={"f": times}
    )
    where = {each.node_path for each in events if isinstance(each, NodeStarted)}
    assert {("each", 0, "f"), ("each", 1, "f")} < where


async def test_the_first_failure_stops_the_others_and_each_node_has_an_end() -> None:
    async def fail_second(x: int, k: int) -> Mapping[str, Any]:
        if x == 2:
            raise NodeFault("two")
        return await trio.sleep_forever()

    events: list[Event] = []
    with pytest.raises(RunFailed, match="two"):
        await run_document(
            mapped("ParallelMapNode"),
            {"iterated_x": [1, 2, 3]},
            tools={"f": fail_second},
            events=events,
        )
    began = [each.node_path for each in events if isinstance(each, NodeStarted)]
    ended = [
        each.node_path for each in events if isinstance(each, NodeCompleted | NodeFailed)
    ]
    assert sorted(map(str, began)) == sorted(map(str, ended))


async def test_a_node_whose_policy_is_being_asked_when_it_is_stopped_has_an_end() -> None:
    asked = trio.Event()

    async def after(event: Any, _: Any) -> Any:
        if event.subject.node_path == ("each", 0, "f"):
            asked.set()
            await trio.sleep_forever()
        return {"action": "pass"}

    async def fail_second(x: int, k: int) -> Mapping[str, Any]:
        if x == 2:
            await asked.wait()
            raise NodeFault("two")
        return {"y": x}

    events: list[Event] = []
    with pytest.raises(RunFailed, match="two"):
        await run_document(
            mapped("ParallelMapNode"),
            {"iterated_x": [1, 2]},
            tools={"f": fail_second},
            installed=policies(("P", {"node": {"after": after}})),
            events=events,
        )
    ends = [
        each.error.name
        for each in events
        if isinstance(each, NodeFailed) and each.node_path == ("each", 0, "f")
    ]
    assert ends == ["NodeStopped"]


async def test_what_ends_the_run_comes_before_what_fails_an_item() -> None:
    now = trio.Event()

    async def one(number: int) -> int:
        await now.wait()
        if number == 0:
            raise NodeFault("zero")
        raise RefusedByPolicy(by="P", did="says no", reason="so", where="here")

    async with trio.open_nursery() as nursery:

        async def both() -> None:
            with pytest.raises(RefusedByPolicy):
                await together(2, one)

        nursery.start_soon(both)
        await wait_all_tasks_blocked()
        now.set()


async def test_policies_see_each_item_in_its_own_order() -> None:
    asked: list[tuple[Any, str]] = []

    def before(event: Any, _: Any) -> Any:
        if event.subject.node_path:
            asked.append((event.subject.node_path[1], event.subject.node_name))
        return {"action": "proceed"}

    await run_document(
        mapped("ParallelMapNode"),
        {"iterated_x": [1, 2, 3]},
        tools={"f": times},
        installed=policies(("P", {"node": {"before": before}})),
    )
    for number in range(3):
        assert [name for at, name in asked if at == number] == ["start", "f", "end"]


async def test_a_policy_s_end_in_one_item_ends_the_run() -> None:
    def before(event: Any, _: Any) -> Any:
        if event.subject.node_path == ("each", 1, "f"):
            return {"action": "reject", "reason": "no"}
        return {"action": "proceed"}

    with pytest.raises(RefusedByPolicy):
        await run(
            mapped("ParallelMapNode"),
            {"iterated_x": [1, 2, 3]},
            installed=policies(("P", {"node": {"before": before}})),
        )


# -- ParallelFlowNode ----------------------------------------------------------------------


def side(name: str, output: str, **fields: Any) -> Plain:
    given_ = fields.pop("inputs", [prop("v")])
    outputs = [prop(output)]
    return inner(
        name,
        [
            start(inputs=given_),
            tool(name, inputs=given_, outputs=outputs),
            end(outputs=outputs),
        ],
        ["start", name, "end"],
        inputs=given_,
        outputs=outputs,
    )


def beside(*flows: Plain) -> bytes:
    node = component("ParallelFlowNode", "both", subflows=list(flows))
    return document(flow([start(), node, end()], ["start", "both", "end"]))


async def test_flows_side_by_side_share_inputs_and_add_their_outputs() -> None:
    result, events = await run_document(
        beside(side("a", "r1"), side("b", "r2")),
        {"v": "x"},
        tools={"a": lambda v: {"r1": f"1{v}"}, "b": lambda v: {"r2": f"2{v}"}},
    )
    assert result == {"v": "x", "r1": "1x", "r2": "2x"}
    where = {each.node_path for each in events if isinstance(each, NodeStarted)}
    assert {("both", 0, "a"), ("both", 1, "b")} < where


async def test_flows_side_by_side_wait_for_each_other() -> None:
    met = trio.Event()

    async def waits(**_: Any) -> Mapping[str, Any]:
        await met.wait()
        return {"r1": "met"}

    def meets(**_: Any) -> Mapping[str, Any]:
        met.set()
        return {"r2": ""}

    result, _ = await run_document(
        beside(side("a", "r1"), side("b", "r2")),
        {"v": ""},
        tools={"a": waits, "b": meets},
    )
    assert result["r1"] == "met"


def test_equal_outputs_and_different_types_of_an_input_are_refused() -> None:
    assert "returns 'r', and so does flow 'a'" in problem(
        beside(side("a", "r"), side("b", "r"))
    )
    assert "takes 'v' as integer, and flow 'a' as string" in problem(
        beside(side("a", "r1"), side("b", "r2", inputs=[prop("v", "integer")]))
    )


async def test_flows_without_declared_outputs_add_what_they_changed() -> None:
    plain = [
        inner(name, [start(), tool(name), end()], ["start", name, "end"])
        for name in ("a", "b")
    ]
    functions = {"a": lambda **_: {"r1": 1}, "b": lambda **_: {"r2": 2}}
    result, _ = await run_document(beside(*plain), {"v": 0}, tools=functions)
    assert result == {"v": 0, "r1": 1, "r2": 2}
    clash = {"a": lambda **_: {"r": 1}, "b": lambda **_: {"r": 2}}
    with pytest.raises(RunFailed, match="flow 'b' gave 'r', and so did flow 'a'"):
        await run_document(beside(*plain), {"v": 0}, tools=clash)


@pytest.mark.parametrize("kind", MAPS)
async def test_items_begin_in_their_order(kind: str) -> None:
    events: list[Event] = []
    many = {"iterated_x": list(range(3 * MOST))}
    await run(mapped(kind), many, events=events)
    begun = [
        each.node_path[1]
        for each in events
        if isinstance(each, NodeStarted) and each.node_path and each.node_name == "start"
    ]
    assert begun == many["iterated_x"]


@pytest.mark.parametrize("kind", MAPS)
async def test_a_failure_says_of_which_item_it_is(kind: str) -> None:
    def fails_at_two(x: int, k: int) -> Mapping[str, Any]:
        if x == 2:
            raise NodeFault("two is too much")
        return {"y": x}

    said = await failure(mapped(kind), {"iterated_x": [1, 2, 3]}, fails_at_two)
    assert said == (f"node 'each' ({kind}): item 1: node 'f' (ToolNode): two is too much")


async def test_a_failure_says_of_which_flow_side_by_side_it_is() -> None:
    def boom(**_: Any) -> Mapping[str, Any]:
        raise NodeFault("it went boom")

    events: list[Event] = []
    with pytest.raises(RunFailed) as caught:
        await run_document(
            beside(side("a", "r1"), side("b", "r2")),
            {"v": "x"},
            tools={"a": lambda v: {"r1": v}, "b": boom},
            events=events,
        )
    assert str(caught.value) == (
        "node 'both' (ParallelFlowNode): flow 'b': node 'b' (ToolNode): it went boom"
    )
    begun = [each.node_path for each in events if isinstance(each, NodeStarted)]
    assert begun[2:4] == [("both", 0, "start"), ("both", 0, "a")]
