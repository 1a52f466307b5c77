"""``heddle plugin``: what it writes runs at once, and a check tells what is wrong."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from heddle.cli.plugin_new import LANGUAGES, TEMPLATES, words_of
from tests.heddle.cli.conftest import Done, Heddle, surroundings

needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="there is no node on PATH"
)
TESTS = {
    "py": [sys.executable, "test_approval_gate.py"],
    "js": ["node", "--test"],
}
MANIFESTS = {"py": "approval_gate.json", "js": "approval-gate.json"}


@pytest.mark.parametrize("language", ["py", pytest.param("js", marks=needs_node)])
def test_a_new_policy_passes_its_test_and_its_check(
    heddle: Heddle, tmp_path: Path, language: str
) -> None:
    made = heddle("plugin", "new", "approval-gate", "--language", language)
    folder = tmp_path / "approval-gate"
    tested = subprocess.run(
        TESTS[language],
        cwd=folder,
        env=surroundings(tmp_path),
        capture_output=True,
        check=False,
    )
    checked = heddle("plugin", "check", f"approval-gate/{MANIFESTS[language]}")

    assert made.status == 0
    assert f"heddle plugin check {MANIFESTS[language]}" in made.stdout
    assert tested.returncode == 0, tested.stderr.decode()
    assert checked.status == 0, checked.stdout
    assert checked.stderr == ""


def test_every_template_is_there() -> None:
    names = {template for written in LANGUAGES.values() for template, _ in written.files}

    assert {each.name for each in TEMPLATES.iterdir()} == {f"{n}.template" for n in names}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gate", ["gate"]),
        ("approval-gate", ["approval", "gate"]),
        ("approval_gate2", ["approval", "gate2"]),
        ("ApprovalGate", ["approvalGate"]),
        ("URL-gate", ["url", "gate"]),
    ],
)
def test_a_name_is_taken_apart(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize("name", ["9lives", "a b", "é", "-x", "", "a.b", "x/"])
def test_a_name_that_cannot_name_a_plugin_is_refused(heddle: Heddle, name: str) -> None:
    done = heddle("plugin", "new", "--", name)

    assert done.status == (0 if name == "x/" else 2)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("agent", "Agent Spec has a component type 'Agent'"),
        ("class", "'class' is a word of Python"),
        ("logging", "a module 'logging' would hide the one that Python programs import"),
        ("heddle", "Call it heddle-policy, or what you like."),
    ],
)
def test_a_name_that_is_taken_is_refused(
    heddle: Heddle, tmp_path: Path, name: str, says: str
) -> None:
    done = heddle("plugin", "new", name)

    assert done.status == 2
    assert says in done.stderr
    assert not (tmp_path / name).exists()


def test_a_name_that_only_python_has_is_free_in_javascript(heddle: Heddle) -> None:
    assert heddle("plugin", "new", "logging", "--language", "js").status == 0


def test_the_commands_that_it_shows_can_be_typed(heddle: Heddle) -> None:
    assert "  cd 'my policies/gate'\n" in heddle("plugin", "new", "my policies/gate").stdout


def test_nothing_is_overwritten(heddle: Heddle, tmp_path: Path) -> None:
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "mine").touch()

    done = heddle("plugin", "new", "gate")

    assert done.status == 2
    assert "it exists already, and nothing is overwritten" in done.stderr
    assert [each.name for each in (tmp_path / "gate").iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_written_leaves_nothing(
    heddle: Heddle, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    done = heddle("plugin", "new", "file/gate")

    assert done.status == 1
    assert "cannot be written" in done.stderr


def test_a_fault_is_told_with_its_frames_and_ends_in_status_1(
    heddle: Heddle, tmp_path: Path
) -> None:
    heddle("plugin", "new", "gate")
    program = tmp_path / "gate" / "gate.py"
    program.write_text(program.read_text().replace("return proceed()", "return None"))

    done = heddle("plugin", "check", "gate/gate.json")

    assert done.status == 1
    assert "Gate toolCall.before returned None" in done.stdout
    assert '        > {"id":' in done.stdout
    assert '        < {"id":' in done.stdout


def test_a_manifest_that_is_wrong_is_told_before_anything_starts(
    heddle: Heddle, tmp_path: Path
) -> None:
    heddle("plugin", "new", "gate")
    manifest = tmp_path / "gate" / "gate.json"
    manifest.write_text(manifest.read_text().replace("toolCall", "toolcall"))

    done = heddle("plugin", "check", "gate/gate.json")

    assert done.status == 1
    assert done.stderr.startswith("Error: gate/gate.json $.components[0].seams (plugin")
    assert done.stdout == ""


def test_settings_are_checked_and_given(heddle: Heddle) -> None:
    heddle("plugin", "new", "gate")

    def checked(settings: str) -> Done:
        return heddle("plugin", "check", "gate/gate.json", "--plugin-config", settings)

    wrong, right = checked('Gate={"words": 1}'), checked('Gate={"words": ["ls"]}')

    assert wrong.status == 1
    assert "$.words: 1 is not of type 'array'" in wrong.stderr
    assert "reject: 'ls' is not allowed" in right.stdout
