"""Flow documents in a few words, for tests and benchmarks.

    flow([start(), tool("double"), end()], ["start", "double", "end"])

A chain is a list of node names; other edges are ``edge(a, b, branch)``. Every function
returns plain data as a document has it, so a test can spoil what it wants to.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

Plain = dict[str, Any]


def prop(title: str, kind: str | None = "string", **more: Any) -> Plain:
    """An input or output: a JSON Schema with a title."""
    return {"title": title, **({} if kind is None else {"type": kind}), **more}


def component(kind: str, name: str, **fields: Any) -> Plain:
    """Any component; fields that are None are left out."""
    present = {key: value for key, value in fields.items() if value is not None}
    return {"component_type": kind, "id": name, "name": name, **present}


def start(name: str = "start", **fields: Any) -> Plain:
    """A StartNode."""
    return component("StartNode", name, **fields)


def end(name: str = "end", **fields: Any) -> Plain:
    """An EndNode."""
    return component("EndNode", name, **fields)


def model(url: str = "http://127.0.0.1:9/v1", **fields: Any) -> Plain:
    """An LLM configuration for an OpenAI-compatible endpoint."""
    return component("OpenAiCompatibleConfig", "model", model_id="stub", url=url, **fields)


def llm(name: str, prompt: str, *, llm_config: Plain | None = None, **fields: Any) -> Plain:
    """An LlmNode."""
    config = {"$component_ref": "model"} if llm_config is None else llm_config
    return component("LlmNode", name, prompt_template=prompt, llm_config=config, **fields)


def server_tool(name: str, **fields: Any) -> Plain:
    """A ServerTool under an id of its own."""
    return {**component("ServerTool", name, **fields), "id": f"tool-{name}"}


def tool(name: str, *, uses: Plain | None = None, **fields: Any) -> Plain:
    """A ToolNode that runs the tool of its own name, or the one given."""
    return component(
        "ToolNode", name, tool=server_tool(name) if uses is None else uses, **fields
    )


def agent(
    name: str,
    *,
    tools: Sequence[Plain] = (),
    system_prompt: str = "",
    llm_config: Plain | None = None,
    outputs: Any = None,
    **fields: Any,
) -> Plain:
    """An AgentNode with an Agent."""
    config = {"$component_ref": "model"} if llm_config is None else llm_config
    inner = component(
        "Agent",
        f"{name}-agent",
        llm_config=config,
        system_prompt=system_prompt,
        tools=list(tools),
        outputs=outputs,
    )
    return component("AgentNode", name, agent=inner, **fields)


def branching(name: str, mapping: dict[str, str], **fields: Any) -> Plain:
    """A BranchingNode."""
    return component("BranchingNode", name, mapping=mapping, **fields)


def ref(name: str) -> Plain:
    """A reference to a component."""
    return {"$component_ref": name}


def edge(source: str, target: str, branch: str | None = None) -> Plain:
    """A control edge."""
    return component(
        "ControlFlowEdge",
        f"{source}-{branch or ''}-{target}",
        from_node=ref(source),
        from_branch=branch,
        to_node=ref(target),
    )


def data(source: str, output: str, target: str, given: str) -> Plain:
    """A data edge."""
    return component(
        "DataFlowEdge",
        f"{source}.{output}-{target}.{given}",
        source_node=ref(source),
        source_output=output,
        destination_node=ref(target),
        destination_input=given,
    )


def flow(
    nodes: Sequence[Plain],
    chain: Sequence[str] = (),
    edges: Iterable[Plain] = (),
    *,
    data_edges: Sequence[Plain] | None = None,
    shared: Sequence[Plain] = (),
    **fields: Any,
) -> Plain:
    """A whole document; ``shared`` components can be referred to beside the nodes."""
    links = [edge(a, b) for a, b in pairwise(chain)]
    return {
        **component(
            "Flow",
            "flow",
            start_node=ref(nodes[0]["id"]) if nodes else None,
            nodes=[ref(node["id"]) for node in nodes],
            control_flow_connections=[*links, *edges],
            data_flow_connections=None if data_edges is None else list(data_edges),
            **fields,
        ),
        "$referenced_components": {each["id"]: each for each in (*shared, *nodes)},
        "agentspec_version": "26.1.2",
    }


def inner(name: str, nodes: Sequence[Plain], *args: Any, **fields: Any) -> Plain:
    """A flow to stand inside a node; its nodes are named ``<name>.<their name>``."""
    made = flow(nodes, *args, **fields)
    made.pop("agentspec_version")
    known = {node["id"] for node in nodes}

    def renamed(plain: Any) -> Any:
        if isinstance(plain, list):
            return [renamed(each) for each in plain]
        if not isinstance(plain, dict):
            return plain
        if plain.get("$component_ref") in known:
            return {"$component_ref": f"{name}.{plain['$component_ref']}"}
        return {
            key: f"{name}.{value}"
            if key == "id" and value in known
            else {f"{name}.{k}" if k in known else k: renamed(v) for k, v in value.items()}
            if key == "$referenced_components"
            else renamed(value)
            for key, value in plain.items()
        }

    edges = made["control_flow_connections"] + (made.get("data_flow_connections") or [])
    for each in edges:
        each["id"] = f"{name}:{each['id']}"
    found: Plain = renamed(made)
    return {**found, "id": name, "name": name}


def document(plain: Plain) -> bytes:
    """The document as the bytes of a file."""
    return msgspec.json.encode(plain)
