from heddle.cli.reporting.plain import PlainLines, warning
from heddle.events import (
    ErrorInfo,
    Event,
    FlowCompleted,
    FlowStarted,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    PluginEmitted,
    PluginLogged,
    TokenDelta,
    TokensDiscarded,
    ToolCalled,
    ToolReturned,
    Warned,
)

FAILED = ErrorInfo("ToolFailed", "tool 't': exited with status 1:\nline two\x1b[31m")
A_RUN: tuple[tuple[float, Event], ...] = (
    (0, FlowStarted()),
    (0, NodeStarted("start", "StartNode", {}, 1)),
    (0, NodeCompleted("start", "StartNode", {"q": "x"}, 1)),
    (0, NodeStarted("ask", "AgentNode", {"q": "x"}, 1)),
    (1, NodeFailed("ask", "AgentNode", ErrorInfo("ModelServerError", "status 500"), 1)),
    (1, NodeStarted("ask", "AgentNode", {"q": "x"}, 2)),
    (2, TokenDelta("ask", "thinking")),
    (2, TokensDiscarded("ask", 8)),
    (2, ToolCalled("ask", "search", {"for": "x"}, "1", 0)),
    (3, ToolReturned("ask", "search", "1", 1000, {"hits": 3})),
    (3, ToolCalled("ask", "search", {"for": "y"}, "2", 0)),
    (4, ToolReturned("ask", "search", "2", 1000, error=FAILED)),
    (4, Warned("first")),
    (4, Warned("seen before")),
    (4, PluginLogged("ask", "AgentNode", "info", "hello\nthere")),
    (4, PluginEmitted("plugin:Audit:node", "ask", "AgentNode", {"ok": True})),
    (15, NodeCompleted("ask", "AgentNode", {"result": "y"}, 2)),
    (15, FlowCompleted({"result": "y"})),
)


def lines_of(run: tuple[tuple[float, Event], ...], *, verbose: bool) -> list[str]:
    now = 0.0
    plain = PlainLines(verbose=verbose, shown=frozenset({"seen before"}), clock=lambda: now)
    lines: list[str] = []
    for now, event in run:  # noqa: B007  the clock reads it
        lines += plain.lines(event)
    return lines


def test_a_run_as_lines() -> None:
    assert lines_of(A_RUN, verbose=False) == [
        "> start (StartNode)",
        "> ask (AgentNode)",
        "x ask: status 500",
        "> ask (AgentNode, attempt 2)",
        "  ask: search",
        "  ask: search",
        "  ask: search failed: tool 't': exited with status 1:\n"
        "    line two\\x1b[31m (1.0 s)",
        "! first",
        "< ask (14 s)",
    ]


def test_a_verbose_run_shows_what_goes_in_and_comes_out() -> None:
    assert lines_of(A_RUN, verbose=True) == [
        "> start (StartNode) {}",
        '< start (0.0 s) {"q":"x"}',
        '> ask (AgentNode) {"q":"x"}',
        "x ask: status 500",
        '> ask (AgentNode, attempt 2) {"q":"x"}',
        '  ask: search {"for":"x"}',
        '  ask: search answered (1.0 s) {"hits":3}',
        '  ask: search {"for":"y"}',
        "  ask: search failed: tool 't': exited with status 1:\n"
        "    line two\\x1b[31m (1.0 s)",
        "! first",
        "  [info] hello\n    there",
        '  [plugin:Audit:node] {"ok":true}',
        '< ask (14 s) {"result":"y"}',
    ]


def test_the_failure_that_ends_a_run_is_left_to_the_error_that_ends_the_program() -> None:
    assert lines_of(A_RUN[:5], verbose=False) == [
        "> start (StartNode)",
        "> ask (AgentNode)",
    ]


def test_what_a_policy_says_unseen_about_the_failure_does_not_tell_it_twice() -> None:
    audit = PluginEmitted("plugin:Audit:node", "ask", "AgentNode", {"ok": False})
    assert lines_of((*A_RUN[:5], (1, audit)), verbose=False) == [
        "> start (StartNode)",
        "> ask (AgentNode)",
    ]


def test_names_and_values_cannot_break_a_line_or_move_a_terminal() -> None:
    nasty = "a\nb\x1b[2J"
    lines = lines_of(((0, NodeStarted(nasty, nasty, {nasty: nasty}, 1)),), verbose=True)
    assert lines == [
        '> a\\nb\\x1b[2J (a\\nb\\x1b[2J) {"a\\nb\\u001b[2J":"a\\nb\\u001b[2J"}'
    ]


def test_a_large_value_is_cut() -> None:
    (text,) = lines_of(
        ((0, NodeStarted("n", "N", {"a": "x" * 1_000_000}, 1)),), verbose=True
    )
    assert len(text) < 2100
    assert text.endswith("…")


def test_a_warning_is_one_mark_however_many_lines_it_has() -> None:
    assert warning("a\nb") == "! a\n    b"


def test_of_several_agents_of_a_node_the_one_who_uses_a_tool_is_named() -> None:
    used: tuple[tuple[float, Event], ...] = (
        (0, ToolCalled("team", "look", {}, "1", 0, ("outer", "team"), "expert")),
        (
            1,
            ToolReturned(
                "team", "look", "1", 9, {"x": 1}, None, ("outer", "team"), "expert"
            ),
        ),
    )
    assert lines_of(used, verbose=True) == [
        "  outer / team (expert): look {}",
        '  outer / team (expert): look answered (0.0 s) {"x":1}',
    ]
