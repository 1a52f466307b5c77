"""Small documents that the tests start from, as plain data."""

import copy
import json
from typing import Any

from heddle.spec import Document, DocumentError, Problem, read_document


def ref(identity: str) -> dict[str, str]:
    return {"$component_ref": identity}


def control_edge(source: str, target: str, branch: str | None = None) -> dict[str, Any]:
    return {
        "component_type": "ControlFlowEdge",
        "name": f"{source}_to_{target}",
        "from_node": ref(source),
        "from_branch": branch,
        "to_node": ref(target),
    }


def data_edge(source: str, output: str, target: str, into: str) -> dict[str, Any]:
    return {
        "component_type": "DataFlowEdge",
        "name": f"{source}_{output}_to_{target}_{into}",
        "source_node": ref(source),
        "source_output": output,
        "destination_node": ref(target),
        "destination_input": into,
    }


def text(title: str) -> dict[str, str]:
    return {"title": title, "type": "string"}


LLM = {
    "component_type": "OpenAiCompatibleConfig",
    "name": "model",
    "model_id": "m1",
    "url": "http://127.0.0.1:1/v1",
}

FLOW: dict[str, Any] = {
    "component_type": "Flow",
    "name": "greeting",
    "agentspec_version": "26.1.2",
    "start_node": ref("start"),
    "nodes": [ref("start"), ref("ask"), ref("end")],
    "control_flow_connections": [control_edge("start", "ask"), control_edge("ask", "end")],
    "data_flow_connections": [
        data_edge("start", "name", "ask", "name"),
        data_edge("ask", "answer", "end", "answer"),
    ],
    "$referenced_components": {
        "start": {"component_type": "StartNode", "name": "start", "inputs": [text("name")]},
        "ask": {
            "component_type": "LlmNode",
            "name": "ask",
            "prompt_template": "Greet {{name}}",
            "llm_config": LLM,
            "inputs": [text("name")],
            "outputs": [text("answer")],
        },
        "end": {"component_type": "EndNode", "name": "end", "outputs": [text("answer")]},
    },
}

AGENT: dict[str, Any] = {
    "component_type": "Agent",
    "name": "helper",
    "llm_config": LLM,
    "system_prompt": "Help.",
}


def flow() -> dict[str, Any]:
    """A fresh copy of `FLOW` to change."""
    return copy.deepcopy(FLOW)


def agent(**fields: Any) -> dict[str, Any]:
    """A fresh copy of `AGENT` with other fields."""
    return {**copy.deepcopy(AGENT), **fields}


def read(document: Any, **options: Any) -> Document:
    return read_document(json.dumps(document).encode(), **options)


def problems_of(document: Any, **options: Any) -> tuple[Problem, ...]:
    """The problems that a document is refused for; none when it is read."""
    try:
        read(document, **options)
    except DocumentError as error:
        return error.problems
    return ()


def sentences_of(document: Any, **options: Any) -> list[str]:
    return [str(problem) for problem in problems_of(document, **options)]
