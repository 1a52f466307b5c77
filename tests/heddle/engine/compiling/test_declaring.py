"""What one node, team or transform may declare, with the sentence for what it may not."""

from collections.abc import Iterator
from typing import Any

import pytest

from heddle.engine.plan import make_plan
from heddle.spec import DocumentError, read_document
from tests.support.flows import component, document, end, flow, model, prop, ref, start

Plain = dict[str, Any]


def problems_of(node: Plain) -> list[str]:
    """The problems of a flow with this node in its middle; none when it compiles."""
    plain = flow([start(), node, end()], ["start", node["id"], "end"], shared=[model()])
    try:
        make_plan(read_document(document(plain)))
    except DocumentError as error:
        return [str(problem) for problem in error.problems]
    return []


def agent(name: str, **fields: Any) -> Plain:
    return component("Agent", name, llm_config=ref("model"), system_prompt="", **fields)


def at_work(who: Plain) -> Plain:
    return component("AgentNode", "work", agent=who)


def measured(**fields: Any) -> Plain:
    transform = component(
        "ConversationSummarizationTransform", "short", llm=ref("model"), **fields
    )
    return at_work(agent("alone", transforms=[{**transform, **fields}]))


def transport(**fields: Any) -> Plain:
    box = component(
        "MCPToolBox",
        "box",
        client_transport=component(
            "StreamableHTTPTransport", "there", url="http://127.0.0.1:1/mcp", **fields
        ),
    )
    return at_work(agent("alone", toolboxes=[box]))


CASES: dict[str, tuple[Plain, str]] = {
    "a choice by two inputs": (
        component(
            "BranchingNode", "pick", mapping={"a": "next"}, inputs=[prop("a"), prop("b")]
        ),
        "$.$referenced_components.pick.inputs: 'pick' chooses by one input, and declares "
        "2: 'a', 'b'. Keep the one in the mapping.",
    ),
    "a question with two answers": (
        component("InputMessageNode", "ask", outputs=[prop("a"), prop("b")]),
        "$.$referenced_components.ask.outputs: 'ask' returns one answer, and declares 2 "
        "outputs: 'a', 'b'. Ask for each in its own node.",
    ),
    "an answer that is a number": (
        component("InputMessageNode", "ask", outputs=[prop("a", "integer")]),
        "$.$referenced_components.ask.outputs: output 'a' of 'ask' is integer, and what a "
        'person answers is text. Declare "type": "string".',
    ),
    "a manager of nobody": (
        at_work(component("ManagerWorkers", "team", group_manager=agent("m"), workers=[])),
        "$.$referenced_components.work.agent.workers: 'team' has no workers. Name who "
        "works with it, or use the agent alone.",
    ),
    "a swarm of one": (
        at_work(component("Swarm", "swarm", first_agent=agent("m"), relationships=[])),
        "$.$referenced_components.work.agent.relationships: nobody in 'swarm' knows "
        "another agent. Name who works with it, or use the agent alone.",
    ),
    "a conversation measured in two ways": (
        measured(max_num_messages=20, max_num_characters=5),
        "$.$referenced_components.work.agent.transforms[0].max_num_characters: 'short' "
        "measures a conversation in messages and in characters. Keep one of the two "
        "limits.",
    ),
    "a conversation that is not measured": (
        measured(max_num_messages=None),
        "$.$referenced_components.work.agent.transforms[0]: nothing says when a "
        "conversation is too long for 'short'. Give 'max_num_messages' or "
        "'max_num_characters'.",
    ),
    "nothing to summarise": (
        measured(max_num_messages=10),
        "$.$referenced_components.work.agent.transforms[0].max_num_messages: 'short' keeps "
        "the last 10 messages, and 10 are to be too many. Make 'max_num_messages' more "
        "than 'min_num_messages'.",
    ),
    "a header of two maps": (
        transport(headers={"A": "1"}, sensitive_headers={"a": "2"}),
        "$.$referenced_components.work.agent.toolboxes[0].client_transport"
        ".sensitive_headers: the header 'a' is given twice. Keep one.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_says_what_and_how_to_mend_it(case: str) -> None:
    node, sentence = CASES[case]
    assert problems_of(node) == [sentence]


def test_a_manager_is_not_his_own_worker() -> None:
    me = {**agent("me"), "id": "me"}
    team = component("ManagerWorkers", "team", group_manager=ref("me"), workers=[ref("me")])
    node = at_work({**team, "$referenced_components": {"me": me}})
    assert problems_of(node)[0] == (
        "$.$referenced_components.work.agent.workers: 'me' manages 'team' and is one of "
        "its workers. Keep one of the two."
    )


def allowed() -> Iterator[Plain]:
    yield component("BranchingNode", "pick", mapping={"a": "next"}, inputs=[prop("a")])
    yield component("InputMessageNode", "ask", outputs=[prop("a")])
    yield component("InputMessageNode", "ask", outputs=[prop("a", None)])
    yield measured()
    yield measured(max_num_characters=5)
    yield measured(max_num_messages=None, max_num_characters=5)
    yield measured(max_num_messages=11)
    yield transport(headers={"A": "1"}, sensitive_headers={"B": "2"})


@pytest.mark.parametrize("node", list(allowed()))
def test_what_is_allowed_is_not_refused(node: Plain) -> None:
    assert problems_of(node) == []


def test_an_endnode_that_lists_two_different_things_is_warned_of() -> None:
    both = end(inputs=[prop("a")], outputs=[prop("b")])
    plan = make_plan(read_document(document(flow([start(), both], ["start", "end"]))))
    (warning,) = plan.graph.warnings
    assert str(warning) == (
        "$.$referenced_components.end: the inputs and the outputs of 'end' are not the "
        "same, and the outputs count. List the same names and types."
    )


def test_what_several_nodes_share_is_refused_once() -> None:
    asks = {**agent("asks", tools=[component("ClientTool", "ui")]), "id": "asks"}
    nodes = [component("AgentNode", name, agent=ref("asks")) for name in ("once", "twice")]
    plain = flow(
        [start(), *nodes, end()], ["start", "once", "twice", "end"], shared=[model(), asks]
    )
    with pytest.raises(DocumentError) as raised:
        make_plan(read_document(document(plain)))
    assert len(raised.value.problems) == 1
