import json
from pathlib import Path

import pytest

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


def marked(heddle: Heddle, name: str) -> tuple[int, str, str]:
    """How many problems there are; of the first its sentence, and what is marked."""
    done = heddle("validate", name)
    first, _, quoted, marks, *_ = done.stderr.splitlines()
    begin = marks.index("^")
    return (
        done.stderr.count("\nx ") + 1,
        first.removeprefix(f"x {name} "),
        quoted[begin : begin + marks.count("^")],
    )


@pytest.mark.parametrize(
    ("name", "text", "says", "mark"),
    [
        ("f.json", '{"a": 1,}', "Take away the comma before '}'.", "}"),
        ("f.json", '{"a": [1,]}', "Take away the comma before ']'.", "]"),
        ("f.json", '{"a": 1,, "b": 2}', "Take away the comma before ','.", ","),
        ("f.json", "{'a': 1}", "Put names and texts in double quotes.", "'"),
        ("f.json", "{\"a\": 'b'}", "Put names and texts in double quotes.", "'"),
        ("f.json", "// a flow\n{}", "Take the comment out: JSON has none.", "/"),
        ("f.json", "{# a flow\n}", "Take the comment out: JSON has none.", "#"),
        ("f.yaml", 'a: 1\nb: "open\nc: 2\n', "Close the quote that begins here.", '"'),
        (
            "f.yaml",
            "a: b: c\n",
            "Put a text that holds ': ' in quotes, or indent the line as those around it.",
            ":",
        ),
        ("f.yaml", "a: 1\n\tb: 2\n", "Indent with spaces: YAML takes no tabs there.", " "),
        ("f.yaml", "a:\n\tb: 2\n", "Indent with spaces: YAML takes no tabs there.", " "),
        ("f.yaml", "a: @b\n", "begin with '@'. Put the text in quotes.", "@"),
        ("f.yaml", "a: [%b]\n", "begin with '%'. Put the text in quotes.", "%"),
        ("f.yaml", "a: 1\nbee\nc: 2\n", "Write it as 'name: value'.", "bee"),
        ("f.yaml", "a: [1, 2\n\n", "Close the bracket that begins here.", "["),
        ("f.yaml", "a: [1, 2\nb: 1\n", "Put a comma before it, or close the bracket.", ":"),
        ("f.yaml", "a: - b\n", "Begin the list on a line of its own.", "-"),
        (
            "f.yaml",
            "a:\n   b: 1\n  cd: 2\n",
            "Indent the line as those before it; put a text with a quote in it in quotes "
            "of the other kind.",
            "cd",
        ),
    ],
)
def test_what_is_no_json_and_no_yaml_is_marked_and_says_what_to_do(
    heddle: Heddle, tmp_path: Path, name: str, text: str, says: str, mark: str
) -> None:
    (tmp_path / name).write_text(text)
    count, sentence, quoted = marked(heddle, name)
    assert (count, quoted) == (1, mark)
    assert sentence.endswith(f" {says}")


@pytest.mark.parametrize(
    ("name", "old", "new", "mark"),
    [
        ("missing", '"to_node":', '"to_nod":', '"to_nod"'),
        ("unknown", '"to_node":', '"surprise": 1, "to_node":', '"surprise"'),
        ("repeated", '"name": "flow"', '"name": "flow", "name": [1]', '"name"'),
    ],
)
def test_a_key_at_fault_is_marked_and_not_what_is_around_it(
    heddle: Heddle,
    tmp_path: Path,
    flow: WriteFlow,
    name: str,
    old: str,
    new: str,
    mark: str,
) -> None:
    text = (tmp_path / flow()).read_text()
    assert old in text
    (tmp_path / "bad.json").write_text(text.replace(old, new, 1))
    count, _, quoted = marked(heddle, "bad.json")
    assert (count, quoted) == (1, mark)
    (each,) = json.loads(heddle("validate", "bad.json", "--json").stdout)[
        "warnings" if name == "unknown" else "problems"
    ]
    assert set(each) == {"path", "what", "fix", "line", "column"}


def test_of_two_keys_the_second_is_marked_and_the_first_is_named(
    heddle: Heddle, tmp_path: Path
) -> None:
    text = '{"a": {"b": 1},\n "a": {"b": 1, "c": 2,\n "b": 3}}'
    (tmp_path / "f.json").write_text(text)
    done = heddle("validate", "f.json")
    assert done.stderr.splitlines() == [
        "x f.json $.a: the key 'a' is written 2 times in one object, first at line 1, "
        "column 2. Keep one of them.",
        "   --> f.json:2:2",
        '  2 |  "a": {"b": 1, "c": 2,',
        "    |  ^^^",
        "x f.json $.a.b: the key 'b' is written 2 times in one object, first at line 2, "
        "column 8. Keep one of them.",
        "   --> f.json:3:2",
        '  3 |  "b": 3}}',
        "    |  ^^^",
        "f.json: 2 problems",
    ]


def test_where_a_word_begins_that_is_at_fault_the_word_is_marked(
    heddle: Heddle, tmp_path: Path
) -> None:
    (tmp_path / "f.yaml").write_text("name: x\nnodes: []\nname: y\n")
    count, sentence, quoted = marked(heddle, "f.yaml")
    assert (count, quoted) == (1, "name")
    assert "first at line 1, column 1" in sentence


def test_a_mark_of_the_byte_order_moves_no_mark(
    heddle: Heddle, tmp_path: Path, flow: WriteFlow
) -> None:
    text = (tmp_path / flow()).read_text().replace('"EndNode"', '"EndNod"')
    (tmp_path / "bom.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    count, sentence, quoted = marked(heddle, "bom.json")
    assert (count, quoted) == (1, '"EndNod"')
    assert sentence.endswith("'EndNod' is not a component type. Did you mean 'EndNode'?")


@pytest.mark.parametrize(
    ("nodes", "says"), [("all", "this is 'all' where a list belongs"), (None, "")]
)
def test_without_nodes_not_every_edge_is_told_of(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path, nodes: object, says: str
) -> None:
    plain = json.loads((tmp_path / flow()).read_text())
    plain["nodes"] = nodes
    if nodes is None:
        plain["nodez"] = plain.pop("nodes")
        says = "'nodes' is missing. Is 'nodez' a misspelling of it?"
    (tmp_path / "flow.json").write_text(json.dumps(plain, indent=1))
    done = heddle("validate", "flow.json")
    assert says in done.stderr
    assert done.stderr.endswith("flow.json: 1 problem\n")


@pytest.mark.parametrize("number", [0, 1])
def test_a_misspelt_node_in_the_list_is_told_once_and_not_at_each_edge(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path, number: int
) -> None:
    plain = json.loads((tmp_path / flow()).read_text())
    plain["nodes"][number]["$component_ref"] += "x"
    (tmp_path / "flow.json").write_text(json.dumps(plain, indent=1))
    done = heddle("validate", "flow.json")
    assert "is not defined in this document. Did you mean" in done.stderr
    assert done.stderr.endswith("flow.json: 1 problem\n")
