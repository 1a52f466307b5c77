"""What happens in a run, as styled text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.cli.live.telling import (
    ASCII,
    UNICODE,
    arguments,
    counted,
    marks_for,
    tokens,
    tool_called,
    tool_returned,
    warned,
)
from heddle.cli.text.wording import UNFIT
from heddle.events import ErrorInfo, ToolReturned
from plugins_host import Usage

ARGUMENTS = [
    ({}, ""),
    ({"path": "src/a.py", "depth": 2}, "path=src/a.py, depth=2"),
    ({"q": "two words"}, 'q="two words"'),
    ({"q": ""}, 'q=""'),
    ({"deep": {"a": [1, True, None]}}, 'deep={"a":[1,true,null]}'),
    ({"text": "x" * 50}, f'text="{"x" * 38}…'),
    ({"text": "a\x1b[2J\nb"}, 'text="a\\u001b[2J\\nb"'),
    ({"a\n": 1}, "a\\n=1"),
    (["no", "object"], '["no","object"]'),
    ({f"n{n}": n for n in range(100)}, None),
]


@pytest.mark.parametrize(("value", "said"), ARGUMENTS)
def test_arguments_are_short_and_on_one_line(value: Any, said: str | None) -> None:
    found = arguments(value)
    assert len(found) <= 100
    if said is None:
        assert found.endswith("…")
    else:
        assert found == said


def words(spans: tuple[tuple[str, str], ...]) -> str:
    return "".join(text for text, _ in spans)


def test_a_call_and_how_it_went() -> None:
    assert words(tool_called("look", {"at": "it"})) == "look at=it"
    assert words(tool_called("look", {})) == "look"
    well = ToolReturned("ask", "look", "c", 210.0, {"seen": 1})
    assert words(tool_returned(well, {"at": "it"})) == "✓ look at=it  0.2 s"
    bad = ToolReturned("ask", "look", "c", 0.0, error=ErrorInfo("ToolFailed", "it\nbroke"))
    assert words(tool_returned(bad, {}, marks=ASCII)) == "x look  0.0 s  it\\nbroke"


def test_who_decided_something_and_at_which_seam_stands_out() -> None:
    message = "middleware 'Gate' of plugin 'g', toolCall.before: refuses it: no"
    told = warned(message)
    assert words(told) == f"! {message}"
    assert told[1] == ("middleware 'Gate' of plugin 'g', toolCall.before", "bold yellow")
    assert words(warned("a\nb")) == "! a\n    b"


def test_numbers() -> None:
    assert tokens(Usage(1204, 88)) == "1,204 tokens in · 88 out"
    assert tokens(Usage(1, 0), marks=ASCII) == "1 tokens in, 0 out"
    assert [counted(n, "tool call") for n in (0, 1, 1000)] == [
        "0 tool calls",
        "1 tool call",
        "1,000 tool calls",
    ]


@pytest.mark.parametrize(
    ("encoding", "marks"),
    [("utf-8", UNICODE), ("latin-1", ASCII), ("ascii", ASCII), (None, ASCII), ("?", ASCII)],
)
def test_marks_are_those_that_a_stream_can_take(
    encoding: str | None, marks: object
) -> None:
    assert marks_for(encoding) is marks


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.text(), JSON, st.text())
def test_nothing_that_is_said_acts_on_a_terminal(name: str, value: Any, why: str) -> None:
    failed = ToolReturned("n", name, "c", 1.0, error=ErrorInfo("E", why))
    for spans in (tool_returned(failed, value), warned(why), tool_called(name, value)):
        assert not UNFIT.search(words(spans))
    assert "\n" not in words(tool_returned(failed, value))
