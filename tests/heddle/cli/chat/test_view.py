"""What is seen of one turn of a chat: the rows that stay, in order, and the picture."""

import pytest

from heddle.cli.chat.loop import Answer
from heddle.cli.chat.view import CALLS_SHOWN, TurnView
from heddle.events import (
    ErrorInfo,
    Event,
    FlowCompleted,
    MessageSaid,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    TokenDelta,
    TokensDiscarded,
    ToolCalled,
    ToolReturned,
    Warned,
)
from plugins_host import Usage

BEGUN = NodeStarted("ask", "AgentNode", {}, 1)
REFUSES = "middleware 'Gate' of plugin 'gate', toolCall.before: refuses it"


def view(speakers: tuple[str, ...] = ("ask",), **more: bool) -> TurnView:
    return TurnView(0.0, frozenset(speakers), **more)


def fold(seen: TurnView, *events: Event | str, now: float = 0.0, width: int = 60) -> None:
    seen.fold([(now, each) for each in events], width)


def left(seen: TurnView) -> list[str]:
    """What stays; taken, as whoever draws does."""
    rows, seen.leaving = seen.leaving, []
    return ["".join(segment.text for segment in row) for row in rows]


def drawn(seen: TurnView, now: float = 0.0, height: int = 20) -> list[str]:
    rows = seen.picture(now=now, height=height, turn=0)
    return ["".join(segment.text for segment in row) for row in rows]


def call(name: str, number: int = 1) -> ToolCalled:
    return ToolCalled("ask", name, {}, f"call_{number}", 0.0)


def test_text_stays_row_by_row_and_is_not_left_again_as_the_answer() -> None:
    seen = view()
    fold(seen, BEGUN, TokenDelta("ask", "# One\n\nTw"))
    assert left(seen) == ["", "One"]
    assert drawn(seen, 1.0) == ["", "Tw", "", "⠋ 1.0 s · Ctrl-C cancels"]
    fold(seen, TokenDelta("ask", "o."), NodeCompleted("ask", "AgentNode", {}, 1))
    fold(seen, FlowCompleted({}, Usage(3, 5), 1))
    seen.answer(Answer("# One\n\nTwo."), 2.0)
    assert left(seen) == [
        *("", "Two.", ""),
        "2.0 s · 1 model call · 3 tokens in · 5 out",
    ]


def test_an_answer_that_nobody_streamed_or_that_is_another_one_is_left_whole() -> None:
    seen = view()
    seen.answer(Answer("**Whole**."), 1.0)
    assert left(seen) == ["", "Whole.", "", "1.0 s"]
    seen = view()
    fold(seen, BEGUN, TokenDelta("ask", "Streamed."))
    seen.answer(Answer("Replaced."), 1.0)
    assert left(seen) == ["", "Streamed.", "", "Replaced.", "", "1.0 s"]


def test_a_result_without_a_text_is_shown_as_json_and_an_empty_one_is_named() -> None:
    seen = view()
    seen.answer(Answer('{"n":[1,"é"]}', is_json=True), 1.0)
    assert left(seen)[1:-2] == [
        *("    {", '      "n": [', "        1,", '        "é"', "      ]", "    }")
    ]
    seen = view()
    seen.answer(Answer(""), 1.0)
    assert left(seen)[1] == "(an empty answer)"


def test_text_before_a_tool_call_is_no_answer() -> None:
    seen = view()
    fold(seen, BEGUN, TokenDelta("ask", "Same."), call("look"))
    fold(seen, ToolReturned("ask", "look", "call_1", 400.0, {}))
    seen.answer(Answer("Same."), 1.0)
    assert left(seen) == ["", "Same.", "", "✓ look  0.4 s", "", "Same.", "", "1.0 s"]


def test_what_a_policy_refuses_stands_below_what_the_model_said() -> None:
    seen = view()
    warned = Warned(REFUSES, "ask", policy="Gate", plugin="gate", seam="toolCall.before")
    fold(seen, BEGUN, TokenDelta("ask", "Let me."), warned, call("shell"))
    assert left(seen) == ["", "Let me.", "", f"! {REFUSES}"[:-11], "  refuses it"]


def test_a_warning_in_the_middle_of_a_text_does_not_end_it() -> None:
    seen = view()
    fold(seen, BEGUN, TokenDelta("ask", "One.\n\nTw"), Warned("careful"))
    fold(seen, TokenDelta("ask", "o.\n\nThree."))
    assert left(seen) == ["", "! careful", "", "One.", "", "Two."]
    seen.answer(Answer("One.\n\nTwo.\n\nThree."), 1.0)
    assert left(seen) == ["", "Three.", "", "1.0 s"]


def test_text_that_is_taken_back_while_it_is_written_was_never_there() -> None:
    seen = view()
    fold(seen, BEGUN, TokenDelta("ask", "Wrong"), TokensDiscarded("ask", 5))
    fold(seen, TokenDelta("ask", "Right."))
    seen.answer(Answer("Right."), 1.0)
    assert left(seen) == ["", "Right.", "", "1.0 s"]


@pytest.mark.parametrize("ended", [False, True])
def test_text_that_stays_already_is_said_to_be_taken_back(ended: bool) -> None:
    seen = view()
    fold(seen, BEGUN, TokenDelta("ask", "Wrong.\n\nAll of it."))
    assert left(seen) == ["", "Wrong."]
    if ended:
        fold(seen, call("look"))
        assert left(seen) == ["", "All of it."]
    fold(seen, TokensDiscarded("ask", 18), TokenDelta("ask", "Right."))
    seen.answer(Answer("Right."), 1.0)
    assert left(seen) == [
        *("", "… taken back; what follows takes its place"),
        *("", "Right.", "", "1.0 s"),
    ]


def test_nodes_on_the_way_are_seen_while_they_write_and_then_named() -> None:
    seen = view(("write",))
    fold(seen, NodeStarted("plan", "LlmNode", {}, 1), TokenDelta("plan", "1. read\n2. w"))
    assert drawn(seen, 1.0) == ["", "1. read\\n2. w", "⠋ 1.0 s · plan · Ctrl-C cancels"]
    fold(seen, NodeCompleted("plan", "LlmNode", {}, 1), now=2.0)
    assert left(seen) == ["", "✓ plan  2.0 s"]
    fold(seen, NodeStarted("write", "LlmNode", {}, 1), now=2.0)
    assert drawn(seen, 3.0) == ["⠋ 3.0 s · Ctrl-C cancels"]


def test_agents_of_a_team_are_named_where_another_one_speaks() -> None:
    seen = view()
    fold(seen, BEGUN, TokenDelta("ask", "To you.", agent="ann"))
    fold(seen, TokenDelta("ask", "Thanks.", agent="bob"))
    seen.answer(Answer("Thanks."), 1.0)
    assert left(seen)[:-2] == ["", "ann", "", "To you.", "", "bob", "", "Thanks."]


def test_an_attempt_that_failed_is_told_once_the_run_goes_on() -> None:
    seen = view()
    fold(seen, BEGUN, NodeFailed("ask", "AgentNode", ErrorInfo("E", "no luck"), 1))
    assert left(seen) == []
    fold(seen, NodeStarted("ask", "AgentNode", {}, 2))
    assert left(seen) == ["", "✗ ask: no luck"]
    fold(seen, NodeFailed("ask", "AgentNode", ErrorInfo("E", "again"), 2))
    seen.fail("Error: node 'ask': again")
    assert left(seen) == ["Error: node 'ask': again"]


def test_what_the_flow_says_is_shown_and_what_the_person_typed_is_not_again() -> None:
    seen = view()
    fold(seen, MessageSaid("who", "agent", "*Who?*"), MessageSaid("who", "user", "Ann"))
    fold(seen, MessageSaid("bye", "agent", "Bye."))
    seen.answer(Answer("Bye."), 1.0)
    assert left(seen) == ["", "Who?", "", "Bye.", "", "1.0 s"]


def test_the_picture_fits_and_shows_the_end_of_what_is_written() -> None:
    seen = view()
    fold(seen, BEGUN, *(call("look", number) for number in range(9)))
    fold(seen, TokenDelta("ask", "word " * 200))
    for height in range(12):
        rows = drawn(seen, height=height)
        assert len(rows) <= height
        assert not rows or rows[-1].endswith("Ctrl-C cancels")
    assert sum("look" in each for each in drawn(seen, height=40)) == CALLS_SHOWN


def test_verbose_lines_stand_in_the_place_of_short_ones() -> None:
    seen = view(all_told=True)
    fold(seen, BEGUN, "> ask (AgentNode) {}", call("look"), "  ask: look {}")
    fold(seen, ToolReturned("ask", "look", "call_1", 400.0, {}), Warned("careful"))
    assert left(seen) == ["", "> ask (AgentNode) {}", "  ask: look {}"]


def test_what_is_shown_does_nothing_to_the_terminal() -> None:
    seen = view()
    bad = "\x1b[2J\u202e"
    fold(seen, BEGUN, TokenDelta("ask", bad), call(bad), bad, Warned(bad))
    fold(seen, MessageSaid("n", "agent", bad), TokenDelta("other", bad))
    seen.fail(bad)
    assert "\x1b" not in "".join((*left(seen), *drawn(seen)))
