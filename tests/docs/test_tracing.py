"""docs/tracing.md has a row for each event of ours and each of Agent Spec Tracing."""

from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_args

from heddle.events import Event, PluginEmitted, Traced

PAGE = Path(__file__).parents[2] / "docs" / "tracing.md"

AGENT_SPEC: Final = {
    "AgentExecutionStart",
    "AgentExecutionEnd",
    "ExceptionRaised",
    "FlowExecutionStart",
    "FlowExecutionEnd",
    "HumanInTheLoopRequest",
    "HumanInTheLoopResponse",
    "LlmGenerationChunkReceived",
    "LlmGenerationRequest",
    "LlmGenerationResponse",
    "ManagerWorkersExecutionStart",
    "ManagerWorkersExecutionEnd",
    "NodeExecutionStart",
    "NodeExecutionEnd",
    "StateSnapshotEmitted",
    "SwarmExecutionStart",
    "SwarmExecutionEnd",
    "ToolConfirmationRequest",
    "ToolConfirmationResponse",
    "ToolExecutionRequest",
    "ToolExecutionResponse",
    "ToolExecutionStreamingChunkReceived",
}
"""Its events, as of 26.3.1."""

SPANS: Final = {
    "AgentExecutionSpan",
    "FlowExecutionSpan",
    "LlmGenerationSpan",
    "ManagerWorkersExecutionSpan",
    "NodeExecutionSpan",
    "RootSpan",
    "SwarmExecutionSpan",
    "ToolExecutionSpan",
}

INSIDE: Final = {"FlowExecutionStart", "FlowExecutionEnd"}
"""What two of ours are: of the outermost flow, and of one inside a node."""


def rows() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    table = [each for each in lines if each.startswith(("| `", "| – |"))]
    return [[cell.strip() for cell in each.strip("|").split("|")] for each in table]


def tag(event: Any) -> str:
    if event is PluginEmitted:
        return "plugin:<Type>:<name>"
    return str(event.__struct_config__.tag)


def test_every_event_has_one_row_and_nothing_else_has() -> None:
    ours = [row[0].strip("`") for row in rows() if row[0] != "–"]
    assert sorted(ours) == sorted(map(tag, get_args(Event)))


def test_every_event_of_agent_spec_has_one_of_ours_but_for_one_that_never_happens() -> None:
    named = [name for row in rows() for name in row[2].split(", ") if name != "–"]
    assert set(named) == AGENT_SPEC
    assert {name for name in named if named.count(name) > 1} == INSIDE
    never = [row[2] for row in rows() if row[0] == "–"]
    assert never == ["ToolExecutionStreamingChunkReceived"]


def test_every_span_of_agent_spec_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert {each for each in SPANS if each in text} == SPANS


def test_the_page_says_which_events_only_traced_runs_have() -> None:
    said = {row[0].strip("`") for row in rows() if row[1] == "yes"}
    assert said == set(map(tag, get_args(Traced)))


def test_the_events_and_spans_are_those_of_the_official_package() -> None:
    def names(module: str) -> set[str]:
        found = vars(import_module(f"pyagentspec.tracing.{module}"))
        base = found["Event" if module == "events" else "Span"]
        classes = (each for each in found.values() if isinstance(each, type))
        return {each.__name__ for each in classes if issubclass(each, base)} - {
            base.__name__
        }

    assert names("events") == AGENT_SPEC
    assert names("spans") == SPANS
