"""The first hour as its page has it: every command, in its order, and what it prints."""

import json
import re
import shlex
from pathlib import Path
from typing import Final

from tests.examples.readme import blocks, run
from tests.heddle.server.serving import server

PAGE: Final = Path(__file__).parents[2] / "docs" / "getting-started.md"
TEXT: Final = PAGE.read_text(encoding="utf-8")


def settled(printed: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"after \d+\.\d\d s", "after 0.24 s", printed)


def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    folder = tmp_path
    for block in blocks(TEXT):
        assert settled(run(block.command, folder, tmp_path)) == block.printed, block.head
        if block.command.startswith("heddle init"):
            assert "cd hello\n" in TEXT
            folder /= "hello"
    _served_as_the_page_says(folder)


def _served_as_the_page_says(folder: Path) -> None:
    started, asked = re.findall(r"```sh\n((?:heddle-server|curl).*?)```", TEXT, re.DOTALL)
    body = re.search(r"-d '(.*)'", asked)
    path = re.search(r"localhost:4319(\S+)", asked)
    assert body is not None
    assert path is not None
    with server(folder, *shlex.split(started)[1:]) as served:
        answer = served.ask("POST", path[1], body[1].encode())
    promised = re.search(r"answers `(.*?),\"run\":…}`", TEXT)
    assert promised is not None
    assert {**json.loads(answer.body), "run": 0} == json.loads(promised[1] + ',"run":0}')
