"""A run of many events on a terminal that is slow, made smaller, and left in the middle."""

import re
import termios
from pathlib import Path
from typing import Any

from tests.heddle.cli.conftest import WriteTool
from tests.heddle.cli.live.test_reader import UNTIL, go, on_a_terminal
from tests.support.flows import component, document, end, flow, inner, llm, model, start
from tests.support.flows import tool as tool_node


def write_map(folder: Path, items: int, *more: dict[str, Any]) -> tuple[str, ...]:
    """A flow that asks a model inside heddle for each item; how to run it."""
    number = {"title": "x", "type": "integer"}
    script = [{"content": "one two three four five"}]
    one = inner(
        "one",
        [start(inputs=[number]), llm("ask", "{{x}}"), end(outputs=[number])],
        ["start", "ask", "end"],
    )
    nodes = [start(), component("MapNode", "each", subflow=one), *more, end()]
    shared = [model("scripted:", metadata={"script": script})]
    made = flow(nodes, [each["name"] for each in nodes], shared=shared)
    (folder / "flow.json").write_bytes(document(made))
    (folder / "in.json").write_text(f'{{"iterated_x": {list(range(items))}}}')
    return ("run", "flow.json", "--input", "@in.json", "--max-iterations", "100000")


def test_a_flood_on_a_paused_terminal_that_is_made_smaller_ends_in_the_truth(
    tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", f"touch {tmp_path}/begun; {UNTIL.format(tmp_path / 'go')}")
    arguments = write_map(tmp_path, 900, tool_node("t"))
    with on_a_terminal(tmp_path, *arguments, "--tools-dir", "tools") as screen:
        screen.pause()
        # 10,000 events went by while nothing could be drawn.
        screen.wait(lambda _: (tmp_path / "begun").exists())
        screen.resize(40, 10)
        termios.tcflow(screen._slave, termios.TCOON)
        screen.wait(lambda s: re.search(r"^  \S t  ", s.text, re.MULTILINE))
        assert "2 nodes done" in screen.text
        assert "✓ each" in screen.text
        go(tmp_path)
        assert screen.ended() == 0
        assert "900 model calls" in screen.scrollback
        told = re.findall(
            r"^ +(?:nodes +)?(\w+) .* 900 executions", screen.scrollback, re.MULTILINE
        )
        assert told == ["start", "ask", "end"]
        assert screen.scrollback.count("✓ flow.json") == 1


def test_ctrl_c_in_a_flood_tells_what_was_done_until_then(tmp_path: Path) -> None:
    with on_a_terminal(tmp_path, *write_map(tmp_path, 30_000)) as screen:
        screen.wait(lambda s: re.search(r"each  \S+ s · [\d,]{5,} nodes done", s.text))
        screen.type("\x03")
        assert screen.ended() == 130
        assert " failed" not in screen.text
        assert "⊘ flow.json" in screen.text
        counted = r"(start|ask|end) +\d+\.\d s  ([\d,]+) executions"
        told = dict(re.findall(counted, screen.text))
        done = {name: int(number.replace(",", "")) for name, number in told.items()}
        assert done["start"] >= done["ask"] >= done["end"] >= done["start"] - 1 > 100
        calls = re.search(r" ([\d,]+) model calls?\n", screen.text)
        assert calls
        assert done["end"] <= int(calls[1].replace(",", "")) <= done["start"]
