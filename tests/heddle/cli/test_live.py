"""The live picture, on a pseudo-terminal of the test's own."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from tests.heddle.cli.conftest import (
    COMMAND,
    Done,
    Script,
    WriteFlow,
    WriteTool,
    agent_node,
    surroundings,
    tool_node,
)

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    size: tuple[int, int] = (24, 80),
    press: str = "",
    when: str = "",
) -> Done:
    """Run a command on a terminal; what was on it is ``stdout``.

    ``press`` is typed as soon as ``when`` has appeared.
    """
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover  another program follows at once
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        os.chdir(folder)
        more = {"TERM": "xterm", **(environment or {})}
        os.execve(COMMAND[0], [*COMMAND, *arguments], surroundings(folder, more))
    shown = b""
    end = time.monotonic() + 100
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            shown += data
        if press and when in CONTROL.sub("", shown.decode(errors="replace")):
            os.write(terminal, press.encode())
            press = ""
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return Done(os.waitstatus_to_exitcode(status), shown.decode(), "")


def words(shown: str) -> str:
    return CONTROL.sub("", shown).replace("\r", "\n")


def last_screen(shown: str) -> str:
    """What stays: the text after the last time the picture was taken away."""
    return CONTROL.sub("", shown.rpartition("\x1b[?25h")[2])


def test_a_running_node_is_shown_with_its_time_and_leaves_its_line(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "sleep 1; echo '{\"done\":1}'")
    done = on_a_terminal(tmp_path, "run", flow(tool_node("t")), "--tools-dir", "tools")
    assert done.status == 0
    assert re.search(r"\S t \d\.\d s", words(done.stdout))
    assert re.search(r"< t \(\d\.\d s\)", words(done.stdout))
    assert last_screen(done.stdout).split() == ["{", '"done":', "1", "}"]


def test_tool_calls_and_text_are_shown(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("look", """sleep 1.5; printf '{"seen":"a cat"}'""")
    tool("wait", "true")
    script: Script = [
        {"content": "Let me look.", "tool_calls": [{"name": "look"}]},
        {"content": "I see {{seen}}."},
    ]
    name = flow(agent_node("ask", script, "look"), tool_node("wait"))
    done = on_a_terminal(tmp_path, "run", name, "--tools-dir", "tools")
    assert done.status == 0
    shown = words(done.stdout)
    assert re.search(r"ask \d\.\d s  look \d\.\d s", shown)
    assert "  ask: look" in shown


def test_ctrl_c_ends_the_run_and_gives_the_cursor_back(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "sleep 600")
    name = flow(tool_node("t"))
    done = on_a_terminal(
        tmp_path, "run", name, "--tools-dir", "tools", press="\x03", when=" t "
    )
    assert done.status == 130
    assert last_screen(done.stdout).strip() == "Interrupted."
    assert done.stdout.rfind("\x1b[?25h") > done.stdout.rfind("\x1b[?25l")


def test_a_failure_is_told_below_what_happened(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "printf '\\033[2Jbad' >&2; exit 1")
    done = on_a_terminal(tmp_path, "run", flow(tool_node("t")), "--tools-dir", "tools")
    assert done.status == 1
    assert "exited with status 1: \\x1b[2Jbad" in last_screen(done.stdout)
    assert "\x1b[2J" not in done.stdout


def test_no_colour_is_respected(flow: WriteFlow, tool: WriteTool, tmp_path: Path) -> None:
    tool("t", "sleep 0.4")
    arguments = ["run", flow(tool_node("t")), "--tools-dir", "tools"]
    coloured = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
    plain = on_a_terminal(tmp_path, *arguments, environment={"NO_COLOR": "1"})
    assert not coloured.search(plain.stdout)
    assert coloured.search(on_a_terminal(tmp_path, *arguments).stdout)


def test_a_terminal_that_can_do_nothing_gets_plain_lines(
    flow: WriteFlow, tmp_path: Path
) -> None:
    done = on_a_terminal(tmp_path, "run", flow(), environment={"TERM": "dumb"})
    assert done.stdout == "> start (StartNode)\r\n> end (EndNode)\r\n{}\r\n"


def test_a_terminal_of_no_size_or_hardly_any_is_no_trouble(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "sleep 0.4")
    for size in ((0, 0), (1, 1), (2, 5)):
        done = on_a_terminal(
            tmp_path, "run", flow(tool_node("t")), "--tools-dir", "tools", size=size
        )
        assert done.status == 0


def test_control_characters_in_the_result_are_escaped(
    flow: WriteFlow, tmp_path: Path
) -> None:
    state = '{"a": "\\u009b2J\\u001b[2J\\u007f"}'
    done = on_a_terminal(tmp_path, "run", flow(), "--input", state)
    assert '"a": "\\u009b2J\\u001b[2J\\u007f"' in done.stdout
