"""``heddle plugin``: what it writes runs at once, and a check tells what is wrong."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from heddle.cli.plugin_new import KINDS, LANGUAGES, TEMPLATES, command, words_of
from plugins_host import Finding, check_plugin, load_plugins
from tests.heddle.cli.conftest import Done, Heddle, surroundings

needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="there is no node on PATH"
)
TESTS = {
    "py": [sys.executable, "test_word_thing.py"],
    "js": ["node", "--test"],
}
MANIFESTS = {"py": "word_thing.json", "js": "word-thing.json"}


@pytest.mark.parametrize("language", ["py", pytest.param("js", marks=needs_node)])
async def test_new_plugins_of_every_kind_pass_their_tests_and_their_checks(
    tmp_path: Path, language: str
) -> None:
    def make(kind: str) -> None:
        flags = ["--kind", kind, "--language", language]
        made = CliRunner().invoke(command, [str(tmp_path / kind / "word-thing"), *flags])
        assert made.exit_code == 0, made.output
        manifest = tmp_path / kind / "word-thing" / MANIFESTS[language]
        assert f"heddle plugin check {manifest}" in made.output
        assert "{" not in made.output.replace('{"', "")

    async def test(kind: str) -> None:
        tested = await trio.run_process(
            TESTS[language],
            cwd=tmp_path / kind / "word-thing",
            env=surroundings(tmp_path),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        assert tested.returncode == 0, tested.stderr + tested.stdout
        passed.append(kind)

    async def check(kind: str) -> None:
        plugin = tmp_path / kind / "word-thing" / MANIFESTS[language]
        found: list[Finding] = []
        assert await check_plugin(load_plugins([str(plugin)]), found.append), found
        assert {each.outcome.value for each in found} == {"ok"}, found
        passed.append(kind)

    passed: list[str] = []
    for kind in KINDS:
        make(kind)
    async with trio.open_nursery() as nursery:
        for kind in KINDS:
            nursery.start_soon(test, kind)
            nursery.start_soon(check, kind)

    assert sorted(passed) == sorted([*KINDS, *KINDS])


def test_the_command_makes_a_policy_when_it_is_told_nothing(heddle: Heddle) -> None:
    made = heddle("plugin", "new", "word-thing")
    checked = heddle("plugin", "check", "word-thing/word_thing.json")

    assert "a policy that gates tool calls" in made.stdout
    assert (checked.status, checked.stderr) == (0, "")


SHOWN = {
    "node": '{"words":4}\n',
    "transform": '{"result":"That is a fox, and quick."}\n',
    "component": '{"text":"Hello, Ada"}\n',
    "provider": '{"generated_text":"You said: What do you make of: The quick brown fox"}\n',
    "encoder": '{"event":"end","data":{"characters":25}}\n',
    "tools": '{"words":4}\n',
}


@pytest.mark.parametrize(
    ("kind", "language"),
    # The flows of both languages are the same.
    [*((kind, "py") for kind in SHOWN), pytest.param("node", "js", marks=needs_node)],
)
def test_the_flow_that_comes_with_a_plugin_runs_as_it_is_shown(
    heddle: Heddle, kind: str, language: str
) -> None:
    shown = heddle("plugin", "new", "my-thing", "--kind", kind, "--language", language)
    (command,) = re.findall(r"^  heddle (run .*)$", shown.stdout, re.MULTILINE)
    done = heddle(*shlex.split(command))
    assert done.status == 0, done.stderr
    assert done.stdout.endswith(SHOWN[kind])
    assert "!" not in done.stderr


def test_every_template_is_there() -> None:
    names = {template for written in LANGUAGES.values() for template, _ in written.files}

    assert {each.name for each in TEMPLATES.iterdir()} == set(KINDS)
    for kind in KINDS:
        there = {each.name for each in (TEMPLATES / kind).iterdir()}
        flow = {"flow.json.template"} if KINDS[kind].with_flow else set()
        assert there == {f"{name}.template" for name in names} | flow


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
        ("heddle", "Call it my-heddle, or what you like."),
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
    shown = heddle("plugin", "new", "my policies/gate").stdout
    assert "  (cd 'my policies/gate' && python test_gate.py)\n" in shown
    assert "  heddle plugin check 'my policies/gate'/gate.json\n" in shown


@pytest.mark.parametrize("language", ["py", pytest.param("js", marks=needs_node)])
def test_the_run_that_it_shows_is_one_in_which_the_policy_does_something(
    heddle: Heddle, tmp_path: Path, language: str
) -> None:
    shutil.copytree(TEMPLATES.parent / "demo", tmp_path, dirs_exist_ok=True)
    shown = heddle("plugin", "new", "my-gate", "--language", language).stdout
    (found,) = re.findall(r"^  heddle (run .*?[^\\])$", shown, re.DOTALL | re.MULTILINE)
    command = shlex.split(found.replace("\\\n", " "))

    done = heddle(*command)
    assert (
        "! middleware 'MyGate' of plugin 'my-gate', toolCall.before: refuses" in done.stderr
    )
    assert "'fox' is not allowed" in done.stderr

    without = heddle(*command[: command.index("--plugin-config")], "--verbose")
    assert "[info] found nothing forbidden in a call of count_words" in without.stderr


def test_a_kind_that_is_misspelt_gets_a_guess(heddle: Heddle) -> None:
    done = heddle("plugin", "new", "gate", "--kind", "middelware")
    assert done.status == 2
    assert done.stderr.endswith(" Did you mean 'middleware'?\n")
    other = heddle("plugin", "new", "gate", "--kind", "x")
    assert "Did you mean" not in other.stderr


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
    assert "$.words: the value is not of type 'array'" in wrong.stderr
    assert "reject: 'ls' is not allowed" in right.stdout
