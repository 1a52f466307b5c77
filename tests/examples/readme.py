"""Reads the commands of a README and what they print, and runs them.

A fence ``console`` holds one command after ``$``, its further lines after ``>``, and then
all that it prints. Durations may differ.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Block(NamedTuple):
    """One command and what it should print. ``head`` is the command as it is written."""

    whole: str
    head: str
    command: str
    printed: str


def blocks(text: str) -> list[Block]:
    """The commands of a README, in order."""
    return [
        _block(found) for found in re.finditer(r"```console\n(.*?)```", text, re.DOTALL)
    ]


def _block(found: re.Match[str]) -> Block:
    lines = found[1].splitlines(keepends=True)
    count = 1
    while lines[count - 1].endswith("\\\n"):
        count += 1
    written = "".join(lines[:count])
    command = re.sub(r"^[$>] ", "", written, flags=re.MULTILINE)
    return Block(found[0], written, command, "".join(lines[count:]))


def run(command: str, folder: Path, temporary: Path) -> str:
    """Run a command of a README in its folder; stdout and stderr as one."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={"PATH": path, "HOME": str(temporary), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=100,
        check=False,
    )
    return done.stdout.decode()


def settled(printed: str) -> str:
    """What was printed, without what differs from run to run.

    Without ``--verbose``, that a node has ended is told when it took its time.
    """
    printed = re.sub(r"^< \w+ \([^)]*\)\n", "", printed, flags=re.MULTILINE)
    printed = re.sub(r"\d+\.\d\d? s\b(?=[,)]|$)", "0.1 s", printed, flags=re.MULTILINE)
    printed = re.sub(r"after \d\.\d\d s", "after 0.05 s", printed)
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:40000", printed)
