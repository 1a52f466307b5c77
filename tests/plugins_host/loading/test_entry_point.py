"""Which program serves a manifest, and what is said when there is none."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from plugins_host.loading.entry_point import (
    RUNTIME,
    EntryPoint,
    ProgramMissing,
    find_entry_point,
)
from plugins_host.manifests.reading import (
    read_manifest,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "plugin"
    inside.mkdir()
    write(tmp_path / "outside", mode=0o755)
    return inside.resolve()


def write(path: Path, text: str = "#!/bin/sh\n", *, mode: int = 0o644) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def find(folder: Path, *, search: str | None = None, **manifest: Any) -> EntryPoint | None:
    path = folder / "policy.json"
    whole = {"name": "p", "version": "1", "discoverTools": True, **manifest}
    path.write_text(json.dumps(whole))
    return find_entry_point(read_manifest(path), path, search=search)


def refused(folder: Path, *, search: str | None = None, **manifest: Any) -> ProgramMissing:
    with pytest.raises(ProgramMissing) as caught:
        find(folder, search=search, **manifest)
    return caught.value


# --- the entry point beside the manifest --------------------------------------------------


def test_a_python_file_is_run_by_the_python_that_heddle_runs_on(folder: Path) -> None:
    script = write(folder / "policy.py", "pass")

    assert find(folder) == EntryPoint((sys.executable, str(script)), folder)


@pytest.mark.parametrize("suffix", [".mjs", ".js"])
def test_a_javascript_file_is_run_by_node_with_the_runtime(
    folder: Path, suffix: str
) -> None:
    script = write(folder / f"policy{suffix}", "")
    node = write(folder.parent / "node", mode=0o755)

    assert find(folder, search=str(folder.parent)) == EntryPoint(
        (str(node), "--import", RUNTIME.as_uri(), str(script)), folder
    )


def test_without_node_the_error_says_what_is_missing(folder: Path) -> None:
    write(folder / "policy.mjs", "")

    assert str(refused(folder, search=str(folder))) == (
        f"{folder}/policy.json (plugin 'p'): 'policy.mjs' is run by node, and there is no "
        "'node' on PATH. Install Node.js 20 or newer, or put it on PATH."
    )


@pytest.mark.parametrize("name", ["policy", "policy.sh", "policy.py", "policy.mjs"])
def test_an_executable_is_run_by_path(folder: Path, name: str) -> None:
    program = write(folder / name, mode=0o755)

    assert find(folder) == EntryPoint((str(program),), folder)


def test_a_script_that_only_happens_to_be_executable_has_its_interpreter(
    folder: Path,
) -> None:
    script = write(folder / "policy.py", "pass", mode=0o755)

    assert find(folder) == EntryPoint((sys.executable, str(script)), folder)


def test_what_lies_beside_it_and_is_no_program_is_left_alone(folder: Path) -> None:
    script = write(folder / "policy.py", "pass")
    write(folder / "policy.md", "", mode=0o755)
    write(folder / "policy.sh", "")
    write(folder / "policy_test.py", "")

    assert find(folder) == EntryPoint((sys.executable, str(script)), folder)


def test_two_programs_are_one_too_many(folder: Path) -> None:
    write(folder / "policy.py", "pass")
    write(folder / "policy.mjs", "")

    assert refused(folder).what == "'policy.mjs' and 'policy.py' could both be its program"


def test_no_program_is_refused(folder: Path) -> None:
    assert "Add policy.py" in refused(folder).fix


def test_a_program_without_its_bit_is_told_how_to_get_it(folder: Path) -> None:
    program = write(folder / "policy")

    told = refused(folder)

    assert told.what == "'policy' beside the manifest is not executable"
    assert f"chmod +x {program}" in told.fix


def test_an_entry_point_that_links_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder / "policy").symlink_to(folder.parent / "outside")

    assert "leads out of the plugin's folder" in refused(folder).what


def test_a_link_to_a_manifest_leads_to_the_program_beside_the_manifest(
    folder: Path, tmp_path: Path
) -> None:
    script = write(folder / "policy.py", "pass")
    find(folder)
    link = tmp_path / "linked.json"
    link.symlink_to(folder / "policy.json")

    found = find_entry_point(read_manifest(link), link)

    assert found == EntryPoint((sys.executable, str(script)), folder)


def test_a_plugin_of_executables_needs_no_program(folder: Path) -> None:
    write(folder / "tool", mode=0o755)
    tools = [{"name": "t", "path": "tool"}]

    assert find(folder, discoverTools=False, tools=tools) is None


# --- command ------------------------------------------------------------------------------


def test_a_command_is_found_in_the_folder_first(folder: Path) -> None:
    inside = write(folder / "sh", mode=0o755)

    assert find(folder, command=["sh", "-x"]) == EntryPoint((str(inside), "-x"), folder)


def test_a_command_is_found_on_path(folder: Path) -> None:
    found = find(folder, command=["outside"], search=str(folder.parent))

    assert found == EntryPoint((str(folder.parent / "outside"),), folder)


def test_a_command_may_be_a_path_in_the_folder_or_an_absolute_one(folder: Path) -> None:
    inside = write(folder / "run", mode=0o755)

    assert find(folder, command=["./run"]) == EntryPoint((str(inside),), folder)
    assert find(folder, command=[str(folder.parent / "outside")]) is not None


def test_an_absolute_command_is_run_by_its_own_name(folder: Path) -> None:
    python = folder.parent / "python"  # as a virtual environment links to its Python
    python.symlink_to(folder.parent / "outside")

    assert find(folder, command=[str(python)]) == EntryPoint((str(python),), folder)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("../outside", "leads out of the plugin's folder"),
        ("./link", "leads out of the plugin's folder"),
        ("nowhere", "neither in the plugin's folder nor on PATH"),
        ("./nowhere", "there is no file"),
        ("./notes", "not executable"),
        ("/nowhere/at/all", "there is no file"),
        ("./a\0b", "not a path"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(
    folder: Path, command: str, says: str
) -> None:
    write(folder / "notes")
    (folder / "link").symlink_to(folder.parent / "outside")

    error = refused(folder, command=[command])

    assert says in error.what
    assert error.where.endswith("(plugin 'p') $.command[0]")
