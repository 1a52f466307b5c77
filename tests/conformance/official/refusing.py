"""Small documents with one thing about each that a reader may refuse.

A row is one change to a flow of three nodes, or another node in its middle. Which of the
two readers refuses it says `differing`.
"""

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.heddle.spec.documents import AGENT, LLM, control_edge, data_edge, flow, ref, text

Document = dict[str, Any]
Change = Callable[[Document], object]


def fixed(**defaults: Any) -> Document:
    """A copy of what is given, so that no two documents share anything."""
    return copy.deepcopy(defaults)


def node(identity: str, kind: str, **fields: Any) -> Document:
    """A node to put into the definitions of a document."""
    return fixed(component_type=kind, id=identity, name=identity, **fields)


def inner(*outputs: Document, ends: int = 1) -> Document:
    """A flow to run inside another: it gives back what it takes."""
    names = [f"end{number}" for number in range(ends)]
    return {
        "component_type": "Flow",
        "name": "inner",
        "start_node": ref("begin"),
        "nodes": [ref("begin"), *map(ref, names)],
        "control_flow_connections": [control_edge("begin", names[0])],
        "$referenced_components": {
            "begin": node("begin", "StartNode", inputs=[text("name")]),
            **{one: node(one, "EndNode", outputs=list(outputs)) for one in names},
        },
    }


def part(name: str) -> Callable[[Document], Document]:
    """The node of that name."""
    return lambda document: document["$referenced_components"][name]


def sets(name: str, /, **fields: Any) -> Change:
    """Write other fields into a node."""
    return lambda document: part(name)(document).update(copy.deepcopy(fields))


def lacks(name: str, field: str) -> Change:
    """Leave a field of a node out."""
    return lambda document: part(name)(document).pop(field)


def root(**fields: Any) -> Change:
    """Write other fields into the document itself."""
    return lambda document: document.update(copy.deepcopy(fields))


def adds(field: str, *items: Any) -> Change:
    """Lengthen a list of the document."""
    return lambda document: document[field].extend(copy.deepcopy(items))


def edge(number: int, **fields: Any) -> Change:
    """Write other fields into a data edge."""
    return lambda document: document["data_flow_connections"][number].update(fields)


def defines(name: str, value: Any) -> Change:
    """Add a definition."""
    return lambda document: document["$referenced_components"].update({name: value})


def both(*changes: Change) -> Change:
    """One change after the other."""

    def all_of(document: Document) -> None:
        for one in changes:
            one(document)

    return all_of


NUMBER: Final = {"title": "answer", "type": "number"}

IN_A_FLOW: Final[Mapping[str, Change]] = {
    "nothing is wrong": root(),
    "a reference leads nowhere": adds("nodes", ref("lost")),
    "a reference leads to itself": defines("ask", ref("ask")),
    "a type that nobody knows": sets("ask", component_type="AskNode"),
    "no type": lacks("ask", "component_type"),
    "no name": lacks("ask", "name"),
    "no prompt": lacks("ask", "prompt_template"),
    "a prompt that is a number": sets("ask", prompt_template=5),
    "a field that nobody knows": sets("ask", colour="red"),
    "an id that is null": sets("ask", id=None),
    "an id that is a number": sets("ask", id=5),
    "no StartNode": root(nodes=[ref("ask"), ref("end")]),
    "two StartNodes": both(
        defines("other", node("other", "StartNode")),
        adds("nodes", ref("other")),
    ),
    "a start_node that is no StartNode": root(start_node=ref("ask")),
    "no EndNode": root(
        nodes=[ref("start"), ref("ask")],
        control_flow_connections=[control_edge("start", "ask")],
        data_flow_connections=None,
    ),
    "no nodes": root(nodes=[]),
    "an EndNode that nothing leads to": both(
        defines("other", node("other", "EndNode")), adds("nodes", ref("other"))
    ),
    "an edge to the StartNode": adds(
        "control_flow_connections", control_edge("ask", "start", "again")
    ),
    "an edge out of an EndNode": adds(
        "control_flow_connections", control_edge("end", "ask")
    ),
    "two edges out of the StartNode": adds(
        "control_flow_connections", control_edge("start", "end")
    ),
    "two edges out of a node": adds("control_flow_connections", control_edge("ask", "end")),
    "an edge of a branch that the node does not have": adds(
        "control_flow_connections", control_edge("ask", "end", "maybe")
    ),
    "an edge to a node that is not listed": both(
        defines("other", node("other", "EndNode")),
        adds("control_flow_connections", control_edge("ask", "other")),
    ),
    "a node that leads nowhere": root(
        control_flow_connections=[control_edge("start", "ask")]
    ),
    "a data edge from an output that there is not": edge(1, source_output="text"),
    "a data edge to an input that there is not": edge(0, destination_input="who"),
    "a data edge from text to a number": both(sets("end", outputs=[NUMBER])),
    "a data edge from a number to text": sets("ask", outputs=[NUMBER]),
    "a data edge to a node that is not listed": both(
        defines("other", node("other", "EndNode", outputs=[text("answer")])),
        adds("data_flow_connections", data_edge("ask", "answer", "other", "answer")),
    ),
    "no list of control edges": lambda it: it.pop("control_flow_connections"),
    "no list of data edges": lambda it: it.pop("data_flow_connections"),
    "one node twice": adds("nodes", ref("ask")),
    "two nodes of one name": sets("end", name="ask"),
    "inputs of a StartNode that are not its outputs": sets(
        "start", outputs=[text("other")]
    ),
    "inputs of an EndNode that are not its outputs": sets("end", inputs=[text("other")]),
    "a branch_name of null": sets("end", branch_name=None),
    "an input without a title": sets("ask", inputs=[{"type": "string"}]),
    "an empty title": sets("ask", inputs=[text("")]),
    "a title with a blank": sets("end", outputs=[text("the answer")]),
    "a title with a dot": sets("end", outputs=[text("the.answer")]),
    "a title with braces": sets("end", outputs=[text("{answer}")]),
    "a title used twice": sets("ask", outputs=[text("answer"), text("answer")]),
    "a default of another type": sets("end", outputs=[{**text("answer"), "default": [5]}]),
    "a schema that is none": sets("end", outputs=[{**text("answer"), "type": "word"}]),
    "a placeholder that no input declares": sets(
        "ask", prompt_template="{{name}} {{other}}"
    ),
    "an input that no placeholder names": sets("ask", inputs=[text("name"), text("other")]),
    "branches of an LlmNode": sets("ask", branches=["next", "other"]),
    "an output of the flow that an EndNode lacks": root(
        outputs=[text("answer"), text("other")]
    ),
    "an output of the flow with a default": root(
        outputs=[text("answer"), {**text("other"), "default": ""}]
    ),
    "inputs of the flow that its StartNode lacks": root(
        inputs=[text("name"), text("other")]
    ),
    "a version that is none": root(agentspec_version="20.99.99"),
    "a version that is not known yet": root(agentspec_version="99.1.0"),
    "a version that is a number": root(agentspec_version=26),
    "no version": lambda it: it.pop("agentspec_version"),
    "an LlmNode with several outputs, in a document that declares 25.4.1": both(
        root(agentspec_version="25.4.1"),
        sets("ask", outputs=[text("answer"), text("other")]),
    ),
    "a model without a url": sets(
        "ask", llm_config={k: v for k, v in LLM.items() if k != "url"}
    ),
    "a temperature that is text": sets(
        "ask", llm_config={**LLM, "default_generation_parameters": {"temperature": "x"}}
    ),
    "a retry policy of fewer than no attempts": sets(
        "ask", llm_config={**LLM, "retry_policy": {"max_attempts": -1}}
    ),
    "a retry policy whose longest delay is below its first": sets(
        "ask", llm_config={**LLM, "retry_policy": {"max_retry_delay": 0.5}}
    ),
    "a retry policy with a field that nobody knows": sets(
        "ask", llm_config={**LLM, "retry_policy": {"tries": 5}}
    ),
}
"""What is changed in a flow of a StartNode, an LlmNode and an EndNode."""

TOOL: Final = {
    "component_type": "ServerTool",
    "name": "tool",
    "inputs": [text("name")],
    "outputs": [text("answer")],
}
API: Final = {"url": "http://127.0.0.1:1/{{name}}", "http_method": "GET"}
PLAIN: Final = {**AGENT, "name": "other", "id": "other"}
ME: Final = {**AGENT, "id": "me"}


def transforming(**fields: Any) -> Document:
    """An agent whose long conversations are made shorter."""
    transform = fixed(
        component_type="ConversationSummarizationTransform", name="t", llm=LLM, **fields
    )
    return node("ask", "AgentNode", agent={**AGENT, "transforms": [transform]})


NODES: Final[Mapping[str, Document]] = {
    "a tool": node("ask", "ToolNode", tool=TOOL),
    "a tool box where a tool stands": node(
        "ask",
        "ToolNode",
        tool={
            "component_type": "MCPToolBox",
            "name": "box",
            "client_transport": {
                "component_type": "StdioTransport",
                "name": "t",
                "command": "x",
            },
        },
    ),
    "a flow where a tool stands": node("ask", "ToolNode", tool=inner()),
    "a ToolNode with other inputs than its tool": node(
        "ask", "ToolNode", tool=TOOL, inputs=[text("other")]
    ),
    "a request": node("ask", "ApiNode", **API),
    "a header in both maps": node(
        "ask", "ApiNode", **API, headers={"A": "1"}, sensitive_headers={"A": "2"}
    ),
    "a request without a url": node("ask", "ApiNode", http_method="GET"),
    "an allow list that is text": node(
        "ask", "ApiNode", **API, url_allow_list="http://127.0.0.1"
    ),
    "an allow list entry without a host": node(
        "ask", "ApiNode", **API, url_allow_list=["/only"]
    ),
    "a flow in a flow": node("ask", "FlowNode", subflow=inner(text("answer"))),
    "a map": node("ask", "MapNode", subflow=inner(text("answer"))),
    "a map with a reducer for an output that there is not": node(
        "ask", "MapNode", subflow=inner(text("answer")), reducers={"other": "append"}
    ),
    "a map that adds texts": node(
        "ask", "MapNode", subflow=inner(text("answer")), reducers={"answer": "sum"}
    ),
    "a reducer that nobody knows": node(
        "ask", "MapNode", subflow=inner(text("answer")), reducers={"answer": "avg"}
    ),
    "a map of an agent": node("ask", "MapNode", subflow=AGENT),
    "flows at once with one output twice": node(
        "ask",
        "ParallelFlowNode",
        subflows=[inner(text("answer")), {**inner(text("answer")), "name": "other"}],
    ),
    "a flow that is caught, without a default": node(
        "ask", "CatchExceptionNode", subflow=inner(text("answer"))
    ),
    "a CatchExceptionNode whose failure leads nowhere": node(
        "ask",
        "CatchExceptionNode",
        subflow=inner({**text("answer"), "default": ""}),
    ),
    "a flow that is caught, with an output of the reserved name": node(
        "ask",
        "CatchExceptionNode",
        subflow=inner({**text("caught_exception_info"), "default": ""}),
    ),
    "a choice": node("ask", "BranchingNode", mapping={"a": "next"}, inputs=[text("name")]),
    "a choice of two inputs": node(
        "ask",
        "BranchingNode",
        mapping={"a": "next"},
        inputs=[text("name"), text("other")],
    ),
    "a mapping that is a list": node("ask", "BranchingNode", mapping=["a"]),
    "a question with two outputs": node(
        "ask", "InputMessageNode", outputs=[text("answer"), text("other")]
    ),
    "a question with a number for an answer": node(
        "ask", "InputMessageNode", outputs=[NUMBER]
    ),
    "a message without words": node("ask", "OutputMessageNode"),
    "an agent": node("ask", "AgentNode", agent=AGENT),
    "an agent without instructions": node(
        "ask",
        "AgentNode",
        agent={k: v for k, v in AGENT.items() if k != "system_prompt"},
    ),
    "a swarm without relationships": node(
        "ask",
        "AgentNode",
        agent=fixed(component_type="Swarm", name="s", first_agent=PLAIN, relationships=[]),
    ),
    "an agent that asks itself": node(
        "ask",
        "AgentNode",
        agent={
            **fixed(
                component_type="Swarm",
                name="s",
                first_agent=ref("me"),
                relationships=[[ref("me"), ref("me")]],
            ),
            "$referenced_components": {"me": ME},
        },
    ),
    "a handing over that nobody knows": node(
        "ask",
        "AgentNode",
        agent={
            **fixed(
                component_type="Swarm",
                name="s",
                handoff="sometimes",
                first_agent=ref("me"),
                relationships=[[ref("me"), PLAIN]],
            ),
            "$referenced_components": {"me": ME},
        },
    ),
    "a manager without workers": node(
        "ask",
        "AgentNode",
        agent=fixed(
            component_type="ManagerWorkers", name="m", group_manager=PLAIN, workers=[]
        ),
    ),
    "a manager who works for himself": node(
        "ask",
        "AgentNode",
        agent={
            **fixed(
                component_type="ManagerWorkers",
                name="m",
                group_manager=ref("me"),
                workers=[ref("me")],
            ),
            "$referenced_components": {"me": ME},
        },
    ),
    "an agent that is made of a flow": node(
        "ask",
        "AgentNode",
        agent=fixed(
            component_type="SpecializedAgent",
            name="s",
            agent=inner(),
            agent_specialization_parameters={
                "component_type": "AgentSpecializationParameters",
                "name": "p",
            },
        ),
    ),
    "a conversation that is not measured": transforming(max_num_messages=None),
    "a conversation whose last messages are all that may be": transforming(
        max_num_messages=5, min_num_messages=5
    ),
    "a conversation that is measured in characters alone": transforming(
        max_num_messages=None, max_num_characters=5
    ),
    "a limit of characters, and none of messages written": transforming(
        max_num_characters=5
    ),
    "a cache of summaries with no room for any": transforming(max_cache_size=0),
    "a conversation that is measured in two ways": transforming(
        max_num_messages=20, max_num_characters=5
    ),
    "a server of tools with a header in both maps": node(
        "ask",
        "ToolNode",
        tool={
            "component_type": "MCPTool",
            "name": "t",
            "inputs": [text("name")],
            "client_transport": {
                "component_type": "SSETransport",
                "name": "x",
                "url": "http://127.0.0.1:1",
                "headers": {"A": "1"},
                "sensitive_headers": {"A": "2"},
            },
        },
    ),
    "a server of tools without a url": node(
        "ask",
        "ToolNode",
        tool={
            "component_type": "MCPTool",
            "name": "t",
            "client_transport": {"component_type": "SSETransport", "name": "x"},
        },
    ),
}
"""What stands between the StartNode and the EndNode, with values flowing by name."""


@functools.cache
def documents() -> dict[str, Document]:
    """All of them by what is the matter."""
    found: dict[str, Document] = {}
    for name, change in IN_A_FLOW.items():
        found[name] = flow()
        change(found[name])
    for name, middle in NODES.items():
        found[name] = flow()
        found[name]["$referenced_components"]["ask"] = copy.deepcopy(middle)
        found[name]["data_flow_connections"] = None
    return found
