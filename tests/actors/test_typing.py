"""Both type checkers know what a call is answered with, and what cannot be sent."""

import subprocess
import sys
from pathlib import Path

import pytest

READ_BY_CHECKERS = Path(__file__).with_name("typed_calls.py")
ROOT = Path(__file__).parents[2]


def check(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, str(READ_BY_CHECKERS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.slow
def test_mypy_agrees_with_every_line() -> None:
    checked = check(
        sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-pretty"
    )
    assert checked.returncode == 0, checked.stdout
    assert "no issues found in 1 source file" in checked.stdout


@pytest.mark.slow
def test_pyright_agrees_with_every_line() -> None:
    checked = check(sys.executable, "-m", "pyright")
    assert checked.returncode == 0, checked.stdout
    assert "0 errors" in checked.stdout
