"""A run from its first event to its last: state, data edges, loops, limits, endings."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from heddle.engine.faults import (
    InputsRefused,
    LimitReached,
    NodeFailed,
    NoWayOn,
    RunTimedOut,
)
from heddle.engine.testing import FakeModels, FakeTools, run_document
from heddle.engine.walk import Limits
from heddle.events import (
    Event,
    FlowCompleted,
    FlowStarted,
    NodeCompleted,
    NodeStarted,
    TokenDelta,
    Warned,
)
from heddle.events import (
    NodeFailed as NodeFailedEvent,
)
from plugins_host.conversation import ModelRequest, ModelResponse, Usage
from plugins_host.faults import Fault
from tests.support.flows import (
    branching,
    data,
    document,
    edge,
    end,
    flow,
    llm,
    model,
    prop,
    server_tool,
    start,
    tool,
)

Plain = dict[str, Any]


def chain(*nodes: Plain, **fields: Any) -> bytes:
    return document(flow(nodes, [node["id"] for node in nodes], **fields))


def counting_loop() -> bytes:
    """start -> inc -> pick, and back to inc or on to end; two edges write ``i``."""
    return document(
        flow(
            [
                start(inputs=[prop("i", "integer")]),
                tool(
                    "inc",
                    inputs=[prop("i", "integer")],
                    outputs=[prop("i", "integer"), prop("again", "boolean")],
                ),
                branching("pick", {"true": "again"}, inputs=[prop("again", "boolean")]),
                end(outputs=[prop("i", "integer")]),
            ],
            ["start", "inc", "pick"],
            [edge("pick", "inc", "again"), edge("pick", "end", "default")],
            data_edges=[
                data("start", "i", "inc", "i"),
                data("inc", "i", "inc", "i"),
                data("inc", "again", "pick", "again"),
                data("inc", "i", "end", "i"),
            ],
        )
    )


def increment(i: int) -> dict[str, Any]:
    return {"i": i + 1, "again": i + 1 < 3}


async def test_the_state_passes_from_start_to_end() -> None:
    result, events = await run_document(chain(start(), end()), {"x": 1})
    assert result == {"x": 1}
    assert events == [
        FlowStarted(),
        NodeStarted("start", "StartNode", {"x": 1}, 1),
        NodeCompleted("start", "StartNode", {"x": 1}, 1),
        NodeStarted("end", "EndNode", {"x": 1}, 1),
        NodeCompleted("end", "EndNode", {"x": 1}, 1),
        FlowCompleted({"x": 1}),
    ]


async def test_a_tools_output_is_merged_over_the_state() -> None:
    result, _ = await run_document(
        chain(start(), tool("double"), end()),
        {"n": 2, "m": 9},
        tools={"double": lambda **s: {"n": 4}},
    )
    assert result == {"n": 4, "m": 9}


async def test_an_end_node_that_declares_outputs_returns_those_alone() -> None:
    result, _ = await run_document(
        chain(start(), end(outputs=[prop("a")])), {"a": "1", "b": "2"}
    )
    assert result == {"a": "1"}


async def test_the_flows_outputs_are_the_result_with_their_defaults() -> None:
    plain = chain(
        start(),
        end(outputs=[prop("a")]),
        outputs=[prop("a"), prop("b", default="spare")],
    )
    result, _ = await run_document(plain, {"a": "1", "b": "in the state only"})
    assert result == {"a": "1", "b": "spare"}


async def test_the_source_executed_last_wins() -> None:
    tools = FakeTools({"inc": increment})
    result, _ = await run_document(counting_loop(), {"i": 0}, tools=tools)
    assert result == {"i": 3}
    assert [arguments for _, arguments in tools.calls] == [{"i": 0}, {"i": 1}, {"i": 2}]


async def test_values_are_converted_at_data_edges() -> None:
    seen = FakeTools({"t": lambda **given: {"r": repr(given)}})
    await run_document(
        chain(
            start(inputs=[prop("a", "integer"), prop("b", "number")]),
            tool(
                "t", inputs=[prop("a", "string"), prop("b", "integer")], outputs=[prop("r")]
            ),
            end(),
            data_edges=[data("start", "a", "t", "a"), data("start", "b", "t", "b")],
        ),
        {"a": 3, "b": 2.7},
        tools=seen,
    )
    assert seen.calls == [("t", {"a": "3", "b": 2})]


async def test_values_that_flow_by_name_are_converted_too() -> None:
    seen = FakeTools({"t": lambda **given: {}})
    await run_document(
        chain(start(), tool("t", inputs=[prop("a", "string")]), end()), {"a": 3}, tools=seen
    )
    assert seen.calls == [("t", {"a": "3"})]


async def test_a_default_stands_in_for_a_source_that_has_not_run() -> None:
    plain = document(
        flow(
            [
                start(),
                branching("pick", {"1": "one"}, inputs=[prop("k")]),
                tool("a", outputs=[prop("v")]),
                tool("b", inputs=[prop("v", default="spare")], outputs=[prop("r")]),
                end(outputs=[prop("r")]),
            ],
            ["start", "pick"],
            [
                edge("pick", "a", "one"),
                edge("a", "b"),
                edge("pick", "b", "default"),
                edge("b", "end"),
            ],
            data_edges=[data("a", "v", "b", "v"), data("b", "r", "end", "r")],
        )
    )
    tools = {"a": lambda **given: {"v": "ran"}, "b": lambda v: {"r": v}}
    assert (await run_document(plain, {"k": "1"}, tools=tools))[0] == {"r": "ran"}
    assert (await run_document(plain, {"k": "2"}, tools=tools))[0] == {"r": "spare"}


async def test_a_connected_input_without_value_or_default_fails_its_node() -> None:
    plain = document(
        flow(
            [
                start(),
                branching("pick", {"1": "one"}, inputs=[prop("k")]),
                tool("a", outputs=[prop("v")]),
                tool("b", inputs=[prop("v")]),
                end(),
            ],
            ["start", "pick"],
            [
                edge("pick", "a", "one"),
                edge("a", "b"),
                edge("pick", "b", "default"),
                edge("b", "end"),
            ],
            data_edges=[data("a", "v", "b", "v")],
        )
    )
    events: list[Event] = []
    with pytest.raises(NodeFailed, match=r"node 'b' \(ToolNode\): input 'v' has no value"):
        await run_document(plain, {"k": "2"}, events=events)
    assert isinstance(events[-1], NodeFailedEvent)


async def test_an_unconnected_input_may_be_absent() -> None:
    seen = FakeTools({"t": lambda **given: {}})
    await run_document(chain(start(), tool("t", inputs=[prop("a")]), end()), {}, tools=seen)
    assert seen.calls == [("t", {})]


# -- what a run is started with ----------------------------------------------------


async def test_declared_inputs_are_filled_with_their_defaults() -> None:
    result, _ = await run_document(chain(start(inputs=[prop("x", default="D")]), end()), {})
    assert result == {"x": "D"}


async def test_all_missing_and_wrong_inputs_are_told_at_once() -> None:
    plain = chain(start(inputs=[prop("x"), prop("n", "integer"), prop("y")]), end())
    with pytest.raises(NodeFailed) as caught:
        await run_document(plain, {"n": "no number"})
    assert "the flow needs inputs 'x', 'y', which were not given; and 'n'" in str(
        caught.value
    )
    assert "--input" in str(caught.value)
    assert isinstance(caught.value, InputsRefused)


async def test_a_mismatch_at_a_later_node_is_not_the_fault_of_the_runs_inputs() -> None:
    plain = chain(start(), tool("t", inputs=[prop("n", "integer")]), end())
    with pytest.raises(NodeFailed) as caught:
        await run_document(plain, {"n": "x"}, tools={"t": lambda **given: {}})
    assert not isinstance(caught.value, InputsRefused)


async def test_a_start_node_that_lists_only_outputs_documents() -> None:
    plain = chain(start(outputs=[prop("x", "integer"), prop("y", default="D")]), end())
    assert (await run_document(plain, {"x": "text"}))[0] == {"x": "text", "y": "D"}
    assert (await run_document(plain, {}))[0] == {"y": "D"}


async def test_undeclared_inputs_are_carried_along() -> None:
    result, _ = await run_document(
        chain(start(inputs=[prop("x")]), end()), {"x": "a", "zz": 1}
    )
    assert result == {"x": "a", "zz": 1}


async def test_what_a_run_was_started_with_is_left_as_it_was() -> None:
    given = {"n": 2}
    await run_document(
        chain(start(), tool("double"), end()), given, tools={"double": lambda **s: {"n": 4}}
    )
    assert given == {"n": 2}


async def test_reserved_inputs_are_refused() -> None:
    with pytest.raises(
        InputsRefused, match="input '_x': names that begin with '_' are reserved"
    ):
        await run_document(chain(start(), end()), {"_x": 1})


# -- branching -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ("5", "five"),
        (5, "five"),
        (True, "yes"),
        ("true", "yes"),
        ("True", "other"),
        (None, "other"),
    ],
)
async def test_branching_compares_as_text(value: object, taken: str) -> None:
    plain = document(
        flow(
            [
                start(),
                branching("pick", {"5": "five", "true": "yes"}),
                tool("five"),
                tool("yes"),
                tool("other"),
                end(),
            ],
            ["start", "pick"],
            [
                edge("pick", "five", "five"),
                edge("pick", "yes", "yes"),
                edge("pick", "other", "default"),
                *(edge(name, "end") for name in ("five", "yes", "other")),
            ],
        )
    )
    tools = FakeTools({name: lambda **given: {} for name in ("five", "yes", "other")})
    await run_document(plain, {"branching_mapping_key": value}, tools=tools)
    assert [name for name, _ in tools.calls] == [taken]


async def test_the_default_branch_can_be_renamed() -> None:
    plain = document(
        flow(
            [
                start(),
                branching("pick", {"1": "one", "DEFAULT_BRANCH": "rest"}),
                end(),
                end("e2"),
            ],
            ["start", "pick"],
            [edge("pick", "end", "one"), edge("pick", "e2", "rest")],
        )
    )
    _, events = await run_document(plain, {"branching_mapping_key": "x"})
    assert NodeStarted("e2", "EndNode", {"branching_mapping_key": "x"}, 1) in events


async def test_branching_by_a_missing_key_says_so() -> None:
    plain = document(
        flow(
            [start(), branching("pick", {"1": "one"}, inputs=[prop("topic")]), end()],
            ["start", "pick"],
            [edge("pick", "end", "one"), edge("pick", "end", "default")],
        )
    )
    with pytest.raises(NodeFailed, match="the state has no 'topic'. Did you mean 'topik'?"):
        await run_document(plain, {"topik": "1"})


async def test_an_unmapped_value_without_a_branch_for_it_ends_the_run() -> None:
    plain = document(
        flow(
            [start(), branching("pick", {"1": "one"}), end()],
            ["start", "pick"],
            [edge("pick", "end", "one")],
        )
    )
    with pytest.raises(NoWayOn) as caught:
        await run_document(plain, {"branching_mapping_key": "2"})
    assert str(caught.value) == (
        "node 'pick' (BranchingNode): the node chose branch 'default', which no edge "
        'carries. Add a ControlFlowEdge with "from_branch": "default".'
    )


# -- limits and cancellation -----------------------------------------------------------


async def test_a_run_that_loops_for_ever_is_ended_by_its_iterations() -> None:
    tools = FakeTools({"inc": lambda i: {"i": i, "again": True}})
    told = r"has executed 50 nodes.*--max-iterations"
    with pytest.raises(LimitReached, match=told):
        await run_document(counting_loop(), {"i": 0}, tools=tools)
    assert len(tools.calls) == 25
    # Also one in which nothing is waited for.
    looping = flow(
        [start(), branching("fork", {"never": "out"}), end()],
        ["start", "fork"],
        [edge("fork", "end", "out"), edge("fork", "fork", "default")],
    )
    with pytest.raises(LimitReached, match=told), trio.fail_after(5):
        await run_document(document(looping), {"branching_mapping_key": "on"})


async def test_fifty_executions_are_allowed_by_default() -> None:
    nodes = [tool(f"n{number}") for number in range(48)]
    tools = FakeTools({node["name"]: lambda **given: {} for node in nodes})
    await run_document(chain(start(), *nodes, end()), tools=tools)
    assert len(tools.calls) == 48


async def test_the_time_out_ends_the_run_and_says_where_it_was(
    autojump_clock: MockClock,
) -> None:
    tools = FakeTools({"hang": lambda **given: trio.sleep_forever()})  # type: ignore[dict-item]
    with pytest.raises(RunTimedOut) as caught:
        await run_document(
            chain(start(), tool("hang"), end()), tools=tools, limits=Limits(timeout=5)
        )
    assert trio.current_time() == 5
    assert str(caught.value) == (
        "node 'hang' (ToolNode): the run took longer than 5 s and was stopped. Raise "
        "--timeout, or find what is slow with --verbose."
    )
    assert tools.open_workspaces == 0


async def test_a_cancelled_run_leaves_its_workspaces(autojump_clock: MockClock) -> None:
    tools = FakeTools({"hang": lambda **given: trio.sleep_forever()})  # type: ignore[dict-item]
    with trio.move_on_after(1):
        await run_document(chain(start(), tool("hang"), end()), tools=tools)
    assert tools.open_workspaces == 0


# -- what nodes put out ----------------------------------------------------------------


OBJECT = prop("o", "object")
SINGLE = [
    ([prop("o")], {"o": "x"}, {"o": "x"}),
    ([prop("o")], {"o": "x", "more": 1}, {"o": "x"}),
    ([OBJECT], {"z": 1}, {"o": {"z": 1}}),
    ([OBJECT], {"o": {"z": 1}}, {"o": {"z": 1}}),
    ([OBJECT], {}, {"o": {}}),
    ([prop("o", default="d")], {}, {"o": "d"}),
    ([prop("o", None)], {"z": 1}, {"o": {"z": 1}}),
    ([prop("p"), prop("q", "integer")], {"p": "P", "q": 4}, {"p": "P", "q": 4}),
    ([prop("p"), prop("q", "integer", default=7)], {"p": "P"}, {"p": "P", "q": 7}),
    ([prop("n", "number")], {"n": 2}, {"n": 2.0}),
    ([], {"any": "thing"}, {"any": "thing"}),
    ([], {"any": "thing", "_chat_history": []}, {"any": "thing"}),
]


@pytest.mark.parametrize(("declared", "found", "merged"), SINGLE)
async def test_what_a_tool_returns_becomes_its_declared_outputs(
    declared: list[Plain], found: Plain, merged: Plain
) -> None:
    uses = None
    result, _ = await run_document(
        chain(start(), tool("t", uses=uses, outputs=declared), end()),
        tools={"t": lambda **g: found},
    )
    assert result == merged


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ([prop("o")], {"z": 1}),
        ([prop("p"), prop("q")], {"p": "P"}),
        ([prop("n", "integer")], {"n": "x"}),
    ],
)
async def test_a_tool_that_returns_something_else_fails_its_node(
    declared: list[Plain], found: Plain
) -> None:
    with pytest.raises(NodeFailed, match="tool 't' gave"):
        await run_document(
            chain(start(), tool("t", outputs=declared), end()),
            tools={"t": lambda **g: found},
        )


async def test_a_wrong_value_is_told_with_its_place_in_the_output() -> None:
    rows = prop(
        "rows", "array", items={"type": "object", "properties": {"n": {"type": "integer"}}}
    )
    with pytest.raises(NodeFailed) as caught:
        await run_document(
            chain(start(), tool("t", outputs=[rows, prop("o", default="")]), end()),
            tools={"t": lambda **g: {"rows": [{"n": 1}, {"n": "x"}]}},
        )
    assert str(caught.value) == (
        "node 't' (ToolNode): tool 't' gave 'rows'[1].n as something else than declared: "
        "'x' can't become an integer. Correct what it gives, or the type that the output "
        "declares."
    )


async def test_a_tool_that_needs_confirmation_is_not_run() -> None:
    ran: list[str] = []
    uses = server_tool("wipe", requires_confirmation=True)
    with pytest.raises(NodeFailed) as caught:
        await run_document(
            chain(start(), tool("t", uses=uses), end()),
            tools={"wipe": lambda **g: ran.append("wipe") or {}},
        )
    assert str(caught.value) == (
        "node 't' (ToolNode): tool 'wipe' needs a person's confirmation, and there is "
        "nobody to ask. Run it with `heddle run -i`, where you are asked."
    )
    assert ran == []


async def test_a_failing_tool_fails_the_run_under_the_nodes_name() -> None:
    def broken(**given: object) -> dict[str, Any]:
        raise Fault("it broke", fix="Mend it.")

    events: list[Event] = []
    with pytest.raises(NodeFailed) as caught:
        await run_document(
            chain(start(), tool("t"), end()), tools={"t": broken}, events=events
        )
    assert str(caught.value) == "node 't' (ToolNode): it broke. Mend it."
    assert caught.value.error.name == "Fault"
    assert [type(event).__name__ for event in events][-1] == "NodeFailed"


async def test_a_bug_in_heddle_is_told_as_one() -> None:
    def broken(**given: object) -> dict[str, Any]:
        raise KeyError("x")

    with pytest.raises(NodeFailed, match="heddle itself failed here: KeyError: 'x'"):
        await run_document(chain(start(), tool("t"), end()), tools={"t": broken})


async def test_a_lack_of_the_machine_is_told_as_that_and_not_as_a_bug() -> None:
    def broken(**given: object) -> dict[str, Any]:
        raise MemoryError

    with pytest.raises(NodeFailed, match="there is not enough memory") as caught:
        await run_document(chain(start(), tool("t"), end()), tools={"t": broken})
    assert caught.value.error.name == "OutOfResources"


# -- LlmNode -------------------------------------------------------------------------


def echo(request: ModelRequest) -> str:
    return f"ECHO:{request.messages[-1].content}"


async def test_an_llm_node_puts_out_generated_text() -> None:
    result, _ = await run_document(
        chain(start(), llm("ask", "[{{ x }}]"), end(), shared=[model()]),
        {"x": "a"},
        models=FakeModels(echo),
    )
    assert result == {"x": "a", "generated_text": "ECHO:[a]"}


async def test_one_declared_string_output_is_the_text_under_its_name() -> None:
    result, _ = await run_document(
        chain(
            start(),
            llm("ask", "go", outputs=[prop("t")]),
            end(outputs=[prop("t")]),
            shared=[model()],
        ),
        models=FakeModels(echo),
    )
    assert result == {"t": "ECHO:go"}


async def test_other_outputs_ask_for_a_json_object_of_their_schema() -> None:
    models = FakeModels(['```json\n{"hp": 7, "name": "x"}\n```'])
    result, _ = await run_document(
        chain(
            start(),
            llm("ask", "go", outputs=[prop("hp", "integer"), prop("name")]),
            end(),
            shared=[model()],
        ),
        models=models,
    )
    assert result == {"hp": 7, "name": "x"}
    assert models.requests[0].response_schema == {
        "type": "object",
        "properties": {"hp": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["hp", "name"],
    }


@pytest.mark.parametrize("answer", ["no json", "[1]", '{"hp": "seven"}', "{}"])
async def test_an_answer_that_is_not_of_the_schema_fails_the_node(answer: str) -> None:
    with pytest.raises(NodeFailed, match="the model"):
        await run_document(
            chain(
                start(),
                llm("ask", "go", outputs=[prop("hp", "integer")]),
                end(),
                shared=[model()],
            ),
            models=FakeModels([answer]),
        )


async def test_an_unknown_placeholder_stays_and_is_a_warning_once() -> None:
    plain = document(
        flow(
            [
                start(),
                llm("ask", "{{x}} {{gone}} {{gone}}", outputs=[prop("t")]),
                tool("inc", outputs=[prop("again", "boolean")]),
                branching("pick", {"true": "again"}, inputs=[prop("again", "boolean")]),
                end(outputs=[prop("t")]),
            ],
            ["start", "ask", "inc", "pick"],
            [edge("pick", "ask", "again"), edge("pick", "end", "default")],
            shared=[model()],
        )
    )
    times = iter([True, False])
    result, events = await run_document(
        plain,
        {"x": "{{gone}}"},
        models=FakeModels(echo),
        tools={"inc": lambda **g: {"again": next(times)}},
    )
    assert result == {"t": "ECHO:{{gone}} {{gone}} {{gone}}"}
    assert [event for event in events if isinstance(event, Warned)] == [
        Warned(
            "node 'ask': placeholder {{gone}} has no value in the state and was left as it "
            "is",
            "ask",
        )
    ]


async def test_a_misspelt_placeholder_gets_a_guess() -> None:
    plain = chain(
        start(inputs=[prop("city")]),
        llm("ask", "Where is {{ctiy}}?", outputs=[prop("t")]),
        end(outputs=[prop("t")]),
        shared=[model()],
    )
    _, events = await run_document(plain, {"city": "Bern"}, models=FakeModels(echo))
    assert [event.message for event in events if isinstance(event, Warned)] == [
        "node 'ask': placeholder {{ctiy}} has no value in the state and was left as it is. "
        "Did you mean {{city}}?"
    ]


async def test_an_answer_that_was_cut_off_is_used_with_a_warning() -> None:
    _, events = await run_document(
        chain(start(), llm("ask", "go"), end(), shared=[model()]),
        models=FakeModels([ModelResponse("Once upon", "length")]),
    )
    (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert warning == (
        "node 'ask': the model's answer is not whole: it reached the largest number of "
        "tokens (max_tokens)"
    )


async def test_the_tokens_of_all_model_calls_are_added_up_where_they_are_known() -> None:
    answers = [ModelResponse("a", usage=Usage(3, 5)), ModelResponse("b"), "c"]
    plain = chain(
        start(),
        llm("one", "go"),
        llm("two", "go"),
        end(),
        shared=[model()],
    )
    _, events = await run_document(plain, models=FakeModels(answers))
    done = {e.node_name: e.usage for e in events if isinstance(e, NodeCompleted)}
    assert done == {"start": None, "one": Usage(3, 5), "two": None, "end": None}
    calls = {e.node_name: e.model_calls for e in events if isinstance(e, NodeCompleted)}
    assert calls == {"start": 0, "one": 1, "two": 1, "end": 0}
    (finished,) = [e for e in events if isinstance(e, FlowCompleted)]
    assert (finished.usage, finished.model_calls) == (Usage(3, 5), 2)


async def test_a_model_call_that_fails_is_counted_with_its_node() -> None:
    events: list[Event] = []
    with pytest.raises(NodeFailed):
        await run_document(
            chain(start(), llm("ask", "go"), end(), shared=[model()]),
            models=FakeModels([Fault("no")]),
            events=events,
        )
    (failed,) = [e for e in events if isinstance(e, NodeFailedEvent)]
    assert (failed.model_calls, failed.usage) == (1, None)


async def test_streamed_text_arrives_as_deltas_in_order() -> None:
    result, events = await run_document(
        chain(start(), llm("ask", "go"), end(), shared=[model()]),
        models=FakeModels(["Hello"]),
        stream=True,
    )
    assert result == {"generated_text": "Hello"}
    assert [e.delta for e in events if isinstance(e, TokenDelta)] == ["Hel", "lo"]
