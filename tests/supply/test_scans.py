"""The scans for secrets and known faults say what they saw, and when they saw nothing."""

import subprocess
from pathlib import Path

import pytest

from tests.supply import audit, secrets

HOOK = """#!/bin/sh
# Stands in for detect-secrets: whatever has AKIA or "secret" in it has a secret.
while [ "${1#--}" != "$1" ]; do shift 2; done
grep -l "AKIA\\|secret" "$@" && exit 1
exit 0
"""


def program(folder: Path, text: str) -> Path:
    """A program that says this."""
    made = folder / "program"
    made.write_text(text)
    made.chmod(0o755)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of two files, one of which is not added yet."""
    root = tmp_path / "root"
    (root / "tests").mkdir(parents=True)
    (root / "code.py").write_text("a = 1\n")
    (root / "tests" / "test_a.py").write_text("b = 2\n")
    (root / "requirements.lock").write_text("secret hashes\n")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    subprocess.run(["git", "add", "code.py"], cwd=root, check=True)
    return root


@pytest.mark.parametrize("name", ["code.py", "tests/test_a.py", "new.txt"])
def test_a_secret_in_any_file_is_told(
    name: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = program(tmp_path, HOOK)
    assert secrets.main(hook, root) == 0
    assert capsys.readouterr().out == "2 files, and no secret in them\n"
    (root / name).write_text("secret\n")
    assert secrets.main(hook, root) == 1
    assert capsys.readouterr().out == f"{name}\n"


def test_a_scan_that_finds_nothing_at_all_is_no_success(root: Path, tmp_path: Path) -> None:
    assert secrets.main(program(tmp_path, "#!/bin/sh\nexit 0\n"), root) == 2


def test_a_scan_of_nothing_is_no_success(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("*\n")
    assert secrets.main(program(tmp_path, HOOK), tmp_path) == 2


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("echo No known vulnerabilities found >&2; exit 0", 0),
        ("echo x 1.0 CVE-1; echo Found 1 known vulnerability in 1 package >&2; exit 1", 1),
        ("echo ERROR:pip_audit:x: not found >&2; exit 1", 2),
        ("echo Traceback of a connection >&2; exit 1", 2),
    ],
)
def test_an_audit_that_could_not_be_made_is_no_success(
    said: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "requirements.lock").write_text("x==1.0\n")
    assert audit.main(program(tmp_path, f"#!/bin/sh\n{said}\n"), tmp_path) == status
    assert ("nothing is known" in capsys.readouterr().out) == (status == 2)
    # `make check` goes on then, but not with what is known to be wrong.
    asked = program(tmp_path, f"#!/bin/sh\n{said}\n")
    assert audit.main(asked, tmp_path, if_told=True) == status % 2
    assert ("nothing is known" in capsys.readouterr().out) == (status == 2)
