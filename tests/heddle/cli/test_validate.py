import json
from pathlib import Path

from tests.heddle.cli.conftest import Heddle, WriteFlow, WriteTool, tool_node


def test_a_valid_flow_is_said_to_be(heddle: Heddle, flow: WriteFlow) -> None:
    done = heddle("validate", flow())
    assert done == (0, "flow.json: valid\n", "")


def test_warnings_are_told_and_are_not_wrong(heddle: Heddle, flow: WriteFlow) -> None:
    done = heddle("validate", flow(surprise=1))
    assert done.status == 0
    assert done.stdout == "flow.json: valid, 1 warning\n"
    assert done.stderr.startswith("! flow.json $")


def test_all_problems_are_told_at_once(heddle: Heddle, flow: WriteFlow) -> None:
    name = flow({"component_type": "LlmNode", "id": "a", "name": "a"}, start_node=3)
    done = heddle("validate", name)
    assert done.status == 1
    assert done.stdout == ""
    problems = [line for line in done.stderr.splitlines() if line.startswith("x ")]
    assert len(problems) >= 2
    assert done.stderr.endswith(f"flow.json: {len(problems)} problems\n")


def test_a_file_that_cannot_be_read_is_a_problem(heddle: Heddle) -> None:
    done = heddle("validate", "absent.json")
    assert done.status == 1
    assert done.stderr == (
        "x absent.json cannot read it: No such file or directory. "
        "Check the path and its permissions.\nabsent.json: 1 problem\n"
    )


def test_several_flows_are_checked_and_one_bad_one_is_enough(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path
) -> None:
    flow(name="good.json")
    (tmp_path / "bad.json").write_text("{")
    done = heddle("validate", "bad.json", "good.json")
    assert done.status == 1
    assert done.stdout == "good.json: valid\n"
    assert "bad.json" in done.stderr


def test_json_is_for_programs(heddle: Heddle, flow: WriteFlow, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"component_type": "Flo"}')
    done = heddle("validate", "--json", flow(), "bad.json")
    good, bad = map(json.loads, done.stdout.splitlines())
    assert good == {"flow": "flow.json", "valid": True, "problems": [], "warnings": []}
    assert bad["valid"] is False
    assert {"path", "what", "fix", "line", "column"} == set(bad["problems"][0])
    assert done.status == 1
    assert done.stderr == ""


def test_tools_are_checked_where_their_folder_is_given(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool
) -> None:
    name = flow(tool_node("look"))
    assert heddle("validate", name).status == 0
    assert "does not exist" in heddle("validate", name, "--tools-dir", "tools").stderr
    tool("lok", "")
    done = heddle("validate", name, "--tools-dir", "tools")
    assert done.status == 1
    assert "node 'look'" in done.stderr
    assert "Did you mean 'lok'?" in done.stderr
    tool("look", "")
    assert heddle("validate", name, "--tools-dir", "tools").status == 0


def test_without_a_flow_it_is_wrong_usage(heddle: Heddle) -> None:
    assert heddle("validate").status == 2


def test_a_name_that_is_no_text_is_shown_all_the_same(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path
) -> None:
    (tmp_path / flow()).rename(tmp_path / "\udcff.json")
    assert heddle("validate", "\udcff.json").stdout == "\\udcff.json: valid\n"


def test_a_name_cannot_move_a_terminal(heddle: Heddle) -> None:
    done = heddle("validate", "\x1b[2J.json")
    assert "\x1b" not in done.stderr
    assert "\\x1b[2J.json" in done.stderr
