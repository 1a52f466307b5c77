"""A run live, on a pseudo-terminal of the test's own: the screen is what is asserted."""

import re
import signal
import termios
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from heddle.cli.live.reader import EACH, SHARE, Live
from heddle.events import FlowStarted
from heddle.policy_counts import PolicyCounts
from tests.conformance.policies.staging import alive
from tests.heddle.cli.conftest import (
    COMMAND,
    Script,
    WriteFlow,
    WriteTool,
    agent_node,
    surroundings,
    tool_node,
)
from tests.support.screen import Screen

COLOURED = re.compile(rb"\x1b\[[0-9;]*3[0-9][0-9;]*m")
# A tool that works until a file is there: the test says how long.
UNTIL = "while [ ! -e {0} ]; do sleep 0.02; done; echo '{{\"done\":1}}'"
GATE = """
from heddle.plugin import proceed, reject, serve


def before(event, ctx):
    if event.subject.tool_name == "shell":
        return reject("not here")
    return proceed()


serve({"Gate": {"toolCall": {"before": before}}})
"""
MANIFEST = """{"name": "gate", "version": "1.0.0", "capabilities": [],
 "components": [{"kind": "middleware", "componentType": "Gate",
                 "seams": {"toolCall": ["before"]}}]}"""


@pytest.mark.parametrize(
    ("takes", "between"), [(0.001, EACH + 0.001), (0.5, 0.5 + 0.5 / SHARE)]
)
async def test_a_picture_that_is_slow_is_drawn_less_often(
    autojump_clock: MockClock, takes: float, between: float
) -> None:
    class Slow(Live):
        def _draw(self) -> None:
            drawn.append(trio.current_time())
            autojump_clock.jump(takes)

    drawn: list[float] = []
    live = Slow("flow.json", PolicyCounts(), clock=trio.current_time)
    with trio.move_on_after(4 * between - 0.01):
        await live.animate()
    assert [b - a for a, b in pairwise(drawn)] == pytest.approx([between] * 3)


async def test_nothing_is_drawn_below_the_summary_however_long_a_terminal_takes_for_it(
    autojump_clock: MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    live = Live("flow.json", PolicyCounts(), clock=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.animate)
        live.see(FlowStarted())
        await trio.sleep(10 * EACH)
        assert capfd.readouterr().err.count("flow.json") > 5
        live.ended(None)
        assert "flow.json" in capfd.readouterr().err
        await trio.sleep(10 * EACH)
        nursery.cancel_scope.cancel()
    assert capfd.readouterr().err == ""


def on_a_terminal(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    columns: int = 80,
    rows: int = 24,
    term: str = "xterm-256color",
) -> Screen:
    return Screen(
        [*COMMAND, *arguments],
        columns=columns,
        rows=rows,
        env=surroundings(folder, environment),
        cwd=folder,
        term=term,
    )


def go(folder: Path) -> None:
    """Let the tool of `UNTIL` end."""
    (folder / "go").touch()


def waiting_tool(tool: WriteTool, folder: Path, name: str = "t") -> None:
    tool(name, UNTIL.format(folder / "go"))


@pytest.mark.parametrize("columns", [80, 200])
def test_a_run_is_a_tree_while_it_goes_on_and_a_summary_when_it_is_over(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path, columns: int
) -> None:
    waiting_tool(tool, tmp_path, "look")
    script: Script = [
        {"content": "Let me look.", "tool_calls": [{"name": "look"}]},
        {"content": "I have seen it."},
    ]
    name = flow(agent_node("ask", script, "look"))
    arguments = ("run", name, "--tools-dir", "tools")
    with on_a_terminal(tmp_path, *arguments, columns=columns) as screen:
        screen.wait_for("round 1")
        head, start, ask, call = screen.text.splitlines()
        assert re.fullmatch(r"\S flow\.json  \d\.\d s · 1 node done", head)
        assert re.fullmatch(r"  ✓ start  0\.\d s", start)
        assert re.fullmatch(r"  \S ask  \d\.\d s", ask)
        assert re.fullmatch(r"    round 1  \S look  \d\.\d s", call)
        assert screen.style("ask").bold
        assert not screen.cursor_hidden
        go(tmp_path)
        assert screen.ended() == 0
        headline, *table = screen.text.splitlines()
        assert re.match(r"✓ flow\.json  \d\.\d s · 2 model calls · ", headline)
        assert [each.split()[0] for each in table[:4]] == ["nodes", "ask", "end", "tools"]
        assert '"result": "I have seen it."' in screen.text
        assert "round 1" not in screen.scrollback
        assert screen.modes() == screen.modes_before


def test_what_a_policy_did_is_told_in_its_colour_with_its_name_and_seam(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("shell", "echo '{}'")
    waiting_tool(tool, tmp_path, "look")
    (tmp_path / "gate.py").write_text(GATE)
    (tmp_path / "gate.json").write_text(MANIFEST.replace("{python}", COMMAND[0]))
    script: Script = [
        {"tool_calls": [{"name": "shell"}]},
        {"tool_calls": [{"name": "look"}]},
        {"content": "Done."},
    ]
    name = flow(agent_node("ask", script, "shell", "look"))
    arguments = ("run", name, "--tools-dir", "tools", "--plugin", "gate.json")
    with on_a_terminal(tmp_path, *arguments) as screen:
        screen.wait_for("round 2")
        assert "! Gate · toolCall.before  refuses" in screen.text
        assert screen.style("Gate · toolCall").fg == "brown"  # pyte's word for yellow
        go(tmp_path)
        assert screen.ended() == 0
        assert screen.text.startswith("! middleware 'Gate' of plugin 'gate'")
        assert "toolCall.before: 1 reject, 1 proceed" in screen.text


def ends(pid: int) -> None:
    """Wait for the end of a process that is nobody's here."""
    until = time.monotonic() + 20
    while alive(pid):
        assert time.monotonic() < until, "a tool is left"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
        (signal.SIGKILL, -9),
    ],
)
def test_whatever_ends_a_run_leaves_the_terminal_usable(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path, number: int, status: int
) -> None:
    pid = tmp_path / "pid"
    tool("t", f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 60")
    with on_a_terminal(tmp_path, "run", flow(tool_node("t")), "--tools-dir", "tools") as s:
        s.wait(lambda s: " t  " in s.text and pid.exists())
        # Also in the middle there is nothing to give back.
        assert s.modes() == s.modes_before
        if number == signal.SIGINT:
            s.type("\x03")
        else:
            s.signal(number)
        assert s.ended() == status
        assert s.modes() == s.modes_before
        assert not s.cursor_hidden
        ends(int(pid.read_text()))
        assert b"\x1b[?" not in s.raw  # no mode of the terminal was ever touched
        if status > 0:
            assert "⊘ flow.json" in s.text
            assert s.text.endswith("Interrupted.")
        column, _ = s.cursor
        assert column == 0


def test_a_failure_is_told_below_what_happened(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "printf '\\033[2Jbad' >&2; exit 1")
    arguments = ("run", flow(tool_node("t")), "--tools-dir", "tools")
    with on_a_terminal(tmp_path, *arguments, columns=200) as screen:
        assert screen.ended() == 1
        lines = screen.text.splitlines()
        assert lines[0].startswith("✗ flow.json")
        assert lines[-1].startswith("Error: node 't' (ToolNode)")
        assert "exited with status 1: \\x1b[2Jbad" in lines[-1]
        assert b"\x1b[2J" not in screen.raw


def test_a_resized_terminal_is_drawn_anew(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    waiting_tool(tool, tmp_path)
    for n in range(9):
        tool(f"n{n}", "echo '{}'")
    name = flow(*(tool_node(f"n{n}") for n in range(9)), tool_node("t"))
    with on_a_terminal(tmp_path, "run", name, "--tools-dir", "tools") as screen:
        screen.wait(lambda s: re.search(r"^  \S t  ", s.text, re.MULTILINE))
        assert "✓ n0" in screen.text
        screen.resize(80, 6)
        screen.wait(lambda s: "10 nodes done" in s.text and "✓ n0" not in s.text)
        screen.resize(200, 24)
        screen.wait(lambda s: "✓ n0" in s.text and re.search(r"\S t  ", s.text))
        go(tmp_path)
        assert screen.ended() == 0
        assert "✓ flow.json" in screen.text


def test_ctrl_z_suspends_a_run_and_it_goes_on_below_what_the_shell_wrote(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    tool("t", f"touch {begun}; {UNTIL.format(tmp_path / 'go')}")
    environment = surroundings(tmp_path, {"PS1": "$ ", "ENV": "/dev/null"})
    with Screen(["sh", "-i"], env=environment, cwd=tmp_path) as screen:
        screen.wait_for("$")
        command = [*COMMAND, "run", flow(tool_node("t")), "--tools-dir", "tools"]
        screen.type(" ".join(command) + "\r")
        screen.wait_for(" t  ")
        # A program that is just being started is stopped with its parent, and holds it up.
        screen.wait(lambda _: begun.exists())
        screen.type("\x1a")
        screen.wait_for("Stopped")
        # What is typed before the prompt is echoed before it, and its output stands behind.
        screen.wait(lambda s: s.text.endswith("\n$"))
        screen.type("echo one$((1+1))\r")
        screen.wait_for("\none2\n")
        screen.type("fg\r")
        screen.wait(lambda s: " t  " in s.text.partition("fg\n")[2])
        go(tmp_path)
        screen.wait(lambda s: s.text.endswith("}\n$"))
        above, _, below = screen.text.partition("fg\n")
        assert " t  " in above.partition("Stopped")[0]
        assert "\none2\n" in above
        assert "✓ flow.json" in below
        screen.type("exit\r")
        screen.ended()


def test_no_colour_is_respected(flow: WriteFlow, tmp_path: Path) -> None:
    with on_a_terminal(tmp_path, "run", flow()) as screen:
        assert screen.ended() == 0
        assert COLOURED.search(screen.raw)
    with on_a_terminal(tmp_path, "run", flow(), environment={"NO_COLOR": "1"}) as screen:
        assert screen.ended() == 0
        assert "✓ flow.json" in screen.text
        assert not COLOURED.search(screen.raw)


def test_quiet_shows_the_result_alone(flow: WriteFlow, tmp_path: Path) -> None:
    with on_a_terminal(tmp_path, "run", flow(), "-q") as screen:
        assert screen.ended() == 0
        assert screen.raw == b"{}\r\n"


def test_verbose_leaves_everything_above_the_summary(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "echo '{\"out\":1}'")
    arguments = ("run", flow(tool_node("t")), "--tools-dir", "tools", "-v")
    with on_a_terminal(tmp_path, *arguments, "--input", '{"in": 1}') as screen:
        assert screen.ended() == 0
        text = screen.text
        assert '> t (ToolNode) {"in":1}' in text
        assert text.index('> t (ToolNode) {"in":1}') < text.index("✓ flow.json")


def test_json_is_lines_of_json_on_a_terminal_too(flow: WriteFlow, tmp_path: Path) -> None:
    with on_a_terminal(tmp_path, "run", flow(), "--json") as screen:
        assert screen.ended() == 0
        assert screen.raw.startswith(b'{"type":"flow_start"}\r\n{"type":"node_start"')
        assert b"\x1b" not in screen.raw


def test_a_terminal_that_can_do_nothing_gets_plain_lines(
    flow: WriteFlow, tmp_path: Path
) -> None:
    with on_a_terminal(tmp_path, "run", flow(), term="dumb") as screen:
        assert screen.ended() == 0
        assert screen.raw == b"> start (StartNode)\r\n> end (EndNode)\r\n{}\r\n"


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (5, 2)])
def test_a_terminal_of_no_size_or_hardly_any_is_no_trouble(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path, size: tuple[int, int]
) -> None:
    with on_a_terminal(tmp_path, "run", flow()) as screen:
        termios.tcsetwinsize(screen._slave, (size[1], size[0]))
        assert screen.ended() == 0


@pytest.mark.parametrize("size", [(8, 5), (20, 10), (80, 24)])
def test_a_narrow_terminal_is_left_without_a_piece_of_a_picture(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path, size: tuple[int, int]
) -> None:
    waiting_tool(tool, tmp_path)
    name = flow(tool_node("t"), name="a-flow-of-a-long-name.json")
    arguments = ("run", name, "--tools-dir", "tools")
    with on_a_terminal(tmp_path, *arguments, columns=size[0], rows=size[1]) as screen:
        screen.wait(lambda s: re.search(r"^  \S t", s.text, re.MULTILINE))
        assert len(screen.text.splitlines()) == 3
        go(tmp_path)
        assert screen.ended() == 0
        told = screen.scrollback.replace("\n", "")
        assert told.startswith("✓ a-flow-of-a-long-name.json  ")
        assert "starting" not in told


def test_control_characters_in_the_result_are_escaped(
    flow: WriteFlow, tmp_path: Path
) -> None:
    state = '{"a": "\\u009b2J\\u001b[2J\\u007f\\u202etxet"}'
    with on_a_terminal(tmp_path, "run", flow(), "--input", state) as screen:
        assert screen.ended() == 0
        assert '"a": "\\u009b2J\\u001b[2J\\u007f\\u202etxet"' in screen.text
