import json
import subprocess
from pathlib import Path

import pytest

from heddle.cli.init import FILES, TEMPLATE
from tests.heddle.cli.conftest import COMMAND, Heddle, surroundings


def test_what_it_writes_runs_at_once(heddle: Heddle, tmp_path: Path) -> None:
    done = heddle("init", "demo")
    assert done.status == 0
    assert "heddle run flow.json --tools-dir tools" in done.stdout
    assert '"model_id"' in done.stdout
    ran = subprocess.run(
        [*COMMAND, "run", "flow.json", "--tools-dir", "tools"],
        cwd=tmp_path / "demo",
        env=surroundings(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout) == {"result": "The text has 9 words and 43 characters."}


def test_what_it_writes_takes_an_input(heddle: Heddle) -> None:
    heddle("init", "demo")
    ran = heddle(
        "run",
        "demo/flow.json",
        "--tools-dir",
        "demo/tools",
        "--input",
        '{"text": "Count these four words"}',
    )
    assert json.loads(ran.stdout)["result"].startswith("The text has 4 words")


def test_what_it_writes_is_valid_without_a_warning(heddle: Heddle) -> None:
    heddle("init", "demo")
    done = heddle("validate", "demo/flow.json", "--tools-dir", "demo/tools")
    assert done == (0, "demo/flow.json: valid\n", "")


def test_the_model_can_be_changed_as_it_says(heddle: Heddle, tmp_path: Path) -> None:
    told = heddle("init", "demo").stdout
    assert '"$OPENAI_API_KEY"' in told
    path = tmp_path / "demo" / "flow.json"
    flow = json.loads(path.read_text(encoding="utf-8"))
    model = flow["$referenced_components"]["count"]["agent"]["llm_config"]
    del model["metadata"]
    # Nobody answers at this port.
    more = {"url": "http://127.0.0.1:9/v1", "model_id": "m", "api_key": "$OPENAI_API_KEY"}
    model.update(more)
    path.write_text(json.dumps(flow), encoding="utf-8")
    assert heddle("validate", "demo/flow.json").stdout == "demo/flow.json: valid\n"

    command = ("run", "demo/flow.json", "--tools-dir", "demo/tools")
    without = heddle(*command, environment={"OPENAI_API_KEY": ""})
    assert without.status == 1
    assert "OPENAI_API_KEY" in without.stderr
    with_key = heddle(*command, environment={"OPENAI_API_KEY": "sk-1"})
    assert "Check the url, and that the model server runs." in with_key.stderr


def test_a_locale_that_lacks_a_character_is_no_trouble(heddle: Heddle) -> None:
    done = heddle("init", "demo", environment={"PYTHONIOENCODING": "latin-1"})
    assert done.status == 0
    assert "https://api.openai.com/v1, \\u2026" in done.stdout


def test_the_command_that_it_shows_can_be_typed(heddle: Heddle) -> None:
    assert "  cd 'my flow'\n" in heddle("init", "my flow").stdout


def test_a_folder_without_a_name_is_refused(heddle: Heddle, tmp_path: Path) -> None:
    done = heddle("init", "")
    assert done == (2, "", "Error: NAME: it is empty. Name the folder to make.\n")
    assert not (tmp_path / "flow.json").exists()


def test_nothing_is_overwritten(heddle: Heddle, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine").write_text("mine")
    done = heddle("init", "demo")
    assert done.status == 2
    assert done.stderr == (
        "Error: demo: it exists already, and nothing is overwritten. "
        "Choose another name, or remove it first.\n"
    )
    assert [each.name for each in (tmp_path / "demo").iterdir()] == ["mine"]
    (tmp_path / "file").touch()
    assert heddle("init", "file").status == 2


def test_an_empty_folder_and_one_in_folders_that_are_not_there_will_do(
    heddle: Heddle, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert heddle("init", "empty").status == 0
    assert heddle("init", "a/b/c").status == 0
    assert (tmp_path / "a" / "b" / "c" / "flow.json").exists()


def test_a_folder_that_cannot_be_made_is_told_and_nothing_is_left(
    heddle: Heddle, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    done = heddle("init", "file/demo")
    assert done.status == 1
    assert done.stderr.startswith("Error: ")
    done = heddle("init", "x" * 300)
    assert "File name too long" in done.stderr
    assert "File name too long" in heddle("init", "new/" + "x" * 300).stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_there_to_be_copied(name: str) -> None:
    assert (TEMPLATE / name).is_file()


def test_no_file_of_the_template_is_forgotten() -> None:
    there = {
        str(path.relative_to(TEMPLATE)) for path in TEMPLATE.rglob("*") if path.is_file()
    }
    assert there == set(FILES)
