"""The policies in examples: every command of their READMEs prints what stands below it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugins_host.loading.load import load_plugins
from plugins_host.seams import SEAMS
from tests.examples.readme import Block, blocks, run, settled

EXAMPLES = Path(__file__).parents[2] / "examples"
PYTHON, JAVASCRIPT = EXAMPLES / "policies", EXAMPLES / "policies-js"

needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="there is no node on PATH"
)


def commands() -> Iterator[object]:
    for folder, marks in ((PYTHON, ()), (JAVASCRIPT, (needs_node,))):
        for block in blocks((folder / "README.md").read_text()):
            name = f"{folder.name}: {' '.join(block.command.split())}"
            yield pytest.param(folder, block, marks=marks, id=name)


@pytest.mark.parametrize(("folder", "block"), list(commands()))
def test_a_command_prints_what_the_readme_says(
    tmp_path: Path, folder: Path, block: Block
) -> None:
    printed = run(block.command, folder, tmp_path)

    assert settled(printed) == settled(block.printed)


def test_there_are_commands_for_every_policy() -> None:
    for folder in (PYTHON, JAVASCRIPT):
        readme = (folder / "README.md").read_text()
        manifests = [path.name for path in folder.glob("*.json")]

        assert manifests
        assert all(f"--plugin {name}" in readme for name in manifests)
        assert len(blocks(readme)) > len(manifests)


def test_each_policy_is_about_one_seam_and_all_seams_have_one() -> None:
    loaded = load_plugins([str(path) for path in sorted(PYTHON.glob("*.json"))])

    seams = [tuple(each.component.seams) for each in loaded.middleware]
    assert all(len(each) == 1 for each in seams)
    assert {each[0] for each in seams} == set(SEAMS)
    assert loaded.warnings == ()


def test_the_javascript_policies_have_the_same_manifests() -> None:
    for path in JAVASCRIPT.glob("*.json"):
        python = PYTHON / path.name.replace("-", "_")
        assert json.loads(path.read_text()) == json.loads(python.read_text())


def test_no_flow_names_a_policy() -> None:
    flows = list((PYTHON / "flows").glob("*.json"))

    assert len(flows) >= 5
    assert not any("middleware" in path.read_text().lower() for path in flows)
