"""docs/tracing.md has a row for each event that a run can tell."""

from pathlib import Path
from typing import Any, get_args

from heddle.events import Event, PluginEmitted

PAGE = Path(__file__).parents[2] / "docs" / "tracing.md"


def rows() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    table = [each for each in lines if each.startswith("| `")]
    return [[cell.strip() for cell in each.strip("|").split("|")] for each in table]


def tag(event: Any) -> str:
    if event is PluginEmitted:
        return "plugin:<Type>:<name>"
    return str(event.__struct_config__.tag)


def test_every_event_has_one_row_and_nothing_else_has() -> None:
    assert sorted(row[0].strip("`") for row in rows()) == sorted(map(tag, get_args(Event)))


def test_no_agent_spec_event_stands_for_two_of_ours() -> None:
    named = [name for row in rows() for name in row[1].split(", ") if name != "–"]
    assert len(named) == len(set(named)) == 12
