"""The commands that are shown, run for real on a terminal of a few columns.

    with showing(SCENES["live"]) as screen:
        screen.text            the screen at the moment that is shown

Flow and tools are those in ``release``, the policies those in ``examples/policies``. Where
a run is shown in its middle, its last tool waits until the screen has been read.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.screen import Screen

FOLDER: Final = Path(__file__).parent
POLICIES: Final = FOLDER.parents[1] / "examples" / "policies"
PLUGINS: Final = ("approval_gate", "round_budget")

WAITING: Final = """#!/bin/sh
while [ -e {held} ]; do sleep 0.02; done
exec {tool} "$@"
"""


class Scene(NamedTuple):
    """One of them.

    Attributes:
        command: What a person types, in the folder of the flow.
        columns: Of the terminal.
        rows: Of the terminal.
        title: What can be seen, for those who can't see it.
        until: What is on the screen when it is shown; "" for when the command has ended.
    """

    command: str
    columns: int
    rows: int
    title: str
    until: str = ""


RUN: Final = (
    "heddle run flow.json --tools-dir tools --plugin approval_gate.json "
    '--plugin round_budget.json --plugin-config RoundBudget={"maxRounds":6}'
)

SCENES: Final[Mapping[str, Scene]] = {
    "live": Scene(
        RUN,
        96,
        18,
        "A run in its middle: its nodes, the rounds of an agent, a refused tool call",
        until="ls docs",
    ),
    "summary": Scene(
        RUN, 96, 28, "The summary of a run: times, model calls, tools, what policies said"
    ),
    "validate": Scene(
        "heddle validate broken.yaml", 96, 18, "Three faults of a flow, each with its line"
    ),
    "graph": Scene(
        "heddle graph flow.json --plugin approval_gate.json --plugin round_budget.json",
        80,
        62,
        "A flow as boxes and lines, with the policies that are asked at its nodes",
    ),
    "explain": Scene(
        "heddle explain flow.json --plugin approval_gate.json --plugin round_budget.json",
        96,
        28,
        "Policies, where they are asked, and the limits that apply",
    ),
}


TIMES: Final = re.compile(r"\d+\.\d s")
TURNING: Final = re.compile("[\u2801-\u28ff]")


def settled(text: str) -> str:
    """What is on a screen, without what differs from run to run: times, and what turns."""
    return TURNING.sub("⠋", TIMES.sub("0.0 s", text))


@contextmanager
def showing(scene: Scene) -> Iterator[Screen]:
    """The screen at the moment that is shown; the command has ended when this is left."""
    with tempfile.TemporaryDirectory(prefix="heddle-scene-") as name:
        folder = Path(name)
        held = _stage(folder)
        if scene.until:
            held.touch()
        program, *arguments = scene.command.split()
        command = [str(Path(sys.executable).with_name(program)), *arguments]
        kept = ("PATH", "HOME", "COVERAGE_PROCESS_START")
        env = {each: os.environ[each] for each in kept if each in os.environ}
        env |= {"LC_ALL": "C.UTF-8", "TMPDIR": name}
        size = {"columns": scene.columns, "rows": scene.rows}
        with Screen(command, cwd=folder, env=env, **size) as screen:
            if scene.until:
                screen.wait_for(scene.until)
            else:
                screen.ended()
            yield screen
            held.unlink(missing_ok=True)
            screen.ended()


def _stage(folder: Path) -> Path:
    """Lay out what the commands name; the file whose presence holds up the shell tool."""
    for each in ("flow.json", "broken.yaml"):
        shutil.copy(FOLDER / "release" / each, folder)
    for name in PLUGINS:
        for suffix in (".json", ".py"):
            shutil.copy(POLICIES / f"{name}{suffix}", folder)
    tools = folder / "tools"
    shutil.copytree(FOLDER / "release" / "tools", tools)
    held, real = folder / "held", folder / "shell"
    (tools / "shell").rename(real)
    (tools / "shell").write_text(WAITING.format(held=held, tool=real))
    (tools / "shell").chmod(0o755)
    return held
