"""What the README says, done: the demo with its policies, and the commands of "Use"."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DEMO: Final = ROOT / "examples" / "demo"
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")


def environment(**more: str) -> dict[str, str]:
    """This environment with the ``heddle`` that is being tested in front."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **more}


def run(
    command: list[str | Path], folder: Path, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A model that echoes what it is told, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.model_endpoint"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(timeout=10)


def test_the_demo_reports_on_the_repository_under_its_policies(tmp_path: Path) -> None:
    done = run([DEMO / "run"], tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["report"]
    modules = len(list((ROOT / "heddle").rglob("*.py")))
    assert f"heddle has {modules} modules" in report
    assert (
        "middleware 'ApprovalGate' of plugin 'approval-gate', toolCall.before"
        in done.stderr
    )
    assert "destructive command: rm" in done.stderr
    assert done.stderr.count("[plugin:RoundBudget:round]") == 3


def test_the_demo_takes_a_real_model(tmp_path: Path, endpoint: str) -> None:
    done = run([DEMO / "run"], tmp_path, HEDDLE_DEMO_URL=endpoint, HEDDLE_DEMO_MODEL="any")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["report"].startswith("ECHO:")


def test_the_commands_of_the_use_section_do_what_they_say(tmp_path: Path) -> None:
    section = README.split("## Use", 1)[1].split("```")[1]
    lines = [
        line[2:].split("  #")[0].strip() for line in section.splitlines() if "$ " in line
    ]
    commands = [line for line in lines if line.startswith("heddle")]
    *commands, chat = commands
    assert len(commands) == 5
    folder = tmp_path
    for command in commands:
        for part in command.split(" && "):
            if part.startswith("cd "):
                folder = folder / part[3:]
                continue
            done = run(list(shlex.split(part)), folder)
            assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    # Nobody says anything in it.
    assert chat.endswith(" -i")
    assert run(list(shlex.split(chat)), folder).returncode == 0


def test_every_make_target_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"demo", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    local = [link for link in links if "://" not in link]
    assert local
    for link in local:
        assert (ROOT / link).exists(), link
