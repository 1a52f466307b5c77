"""``heddle explain``: arguments in, a page or JSON out; how the page fits a terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from heddle.cli import entry
from heddle.cli.drawing.widths import cells
from heddle.cli.explained import Cell, plain, table
from tests.heddle.cli.conftest import COMMAND, Heddle, WriteFlow, agent_node, tool_node
from tests.support.screen import Screen

POLICIES = Path(__file__).parents[3] / "examples" / "policies"
GATE, AUDIT = str(POLICIES / "approval_gate.json"), str(POLICIES / "node_audit.json")
SECRET = {
    "name": "guard",
    "version": "1",
    "components": [
        {
            "componentType": "Guard",
            "kind": "middleware",
            "seams": {"node": ["before"], "modelCall": ["after"]},
            "schema": {"properties": {"limit": {"default": 5}}},
        }
    ],
}


@pytest.fixture
def explain(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = entry.main(["explain", *arguments])
        return (status, *capfd.readouterr())

    return run


def test_the_page_says_who_where_what_not_and_how_much(
    explain: Any, flow: WriteFlow, tmp_path: Path
) -> None:
    (tmp_path / "guard.json").write_text(json.dumps(SECRET))
    (tmp_path / "guard.py").write_text("raise SystemExit('never started')\n")
    status, out, err = explain(
        flow(tool_node("count", "wc")),
        *("--plugin", "guard.json", "--plugin-config", 'Guard={"apiKey":"k","on":[1,2]}'),
        *("--max-node-attempts", "5", "--width", "80"),
    )
    assert (status, err) == (0, "")
    assert out == (
        "policies, in the order in which they are asked\n"
        "  1  Guard  plugin    guard, a process of its own (guard.json)\n"
        "            asked at  node.before, modelCall.after\n"
        '            setting   apiKey = "(hidden)"\n'
        "                      on = [1,2]\n"
        "            default   limit = 5\n"
        "\n"
        "places, in the order of a run\n"
        "  1  start (StartNode)  node.before  Guard\n"
        "  2  count (ToolNode)   node.before  Guard\n"
        "  3  end (EndNode)      node.before  Guard\n"
        "  Nobody is asked at 6 places more, which --all shows.\n"
        "\n"
        "not asked in this flow\n"
        "  Guard  modelCall.after  nothing in this flow calls a model\n"
        "\n"
        "limits\n"
        "  attempts at each arrival at a node                  5      --max-node-attempts\n"
        "  executions of nodes in a run, each attempt one      50     --max-iterations\n"
        "  silence of a policy that was asked                  30 s   --plugin-timeout\n"
        "  one consultation with signs of life, 10 times that  300 s  --plugin-timeout\n"
        "  start of a policy's process                         10 s   fixed\n"
        "  one execution of a tool                             30 s   --tool-timeout\n"
        "  the whole run, all waits within it                  300 s  --timeout\n"
    )


def test_the_order_of_flags_is_the_order_of_policies(explain: Any, flow: WriteFlow) -> None:
    name = flow(tool_node("count"))
    trim = str(POLICIES / "result_trimmer.json")
    for first, second, names in (
        (GATE, AUDIT, ["ApprovalGate", "NodeAudit"]),
        (AUDIT, GATE, ["NodeAudit", "ApprovalGate"]),
    ):
        _, out, _ = explain(name, "--plugin", first, "--plugin", second, "--json")
        said = json.loads(out)
        assert [each["componentType"] for each in said["policies"]] == names
    _, out, _ = explain(name, "--plugin", trim, "--plugin", GATE)
    assert out.count("never asked: no agent of this flow has a tool") == 2


def test_json_is_one_object_with_everything(explain: Any, flow: WriteFlow) -> None:
    name = flow(agent_node("helper", [{"content": "x"}], "shell"))
    status, out, err = explain(name, "--plugin", GATE, "--json")
    assert (status, err, out.count("\n")) == (0, "", 1)
    said = json.loads(out)
    assert said["places"] == [
        {
            "path": ["helper"],
            "nodeType": "AgentNode",
            "tool": "shell",
            "seam": "toolCall",
            "half": "before",
            "depth": 2,
            "policies": ["ApprovalGate"],
        }
    ]
    assert said["policies"] == [
        {
            "componentType": "ApprovalGate",
            "plugin": "approval-gate",
            "source": GATE,
            "runsIn": "process",
            "halves": ["toolCall.before"],
            "settings": {},
            "defaults": {},
        }
    ]
    assert said["limits"][0] == {
        "name": "nodeAttempts",
        "what": "attempts at each arrival at a node",
        "value": 3,
        "unit": "",
        "flag": "--max-node-attempts",
    }
    assert (said["placesLeftOut"], said["complete"], said["unasked"]) == (14, True, [])


def test_all_shows_where_nobody_is_asked_too(explain: Any, flow: WriteFlow) -> None:
    name = flow(agent_node("helper", [{"content": "x"}], "shell"))
    _, out, _ = explain(name, "--all", "--width", "100")
    assert "  4   helper (AgentNode)  node.before   " in out
    assert "agentRound.before, each round" in out
    assert out.count("nobody\n") == 15
    assert "Nobody is asked: no policy is installed. Name plugins with --plugin." in out


def test_a_flow_with_faults_is_told_as_validate_tells_it(
    explain: Any, flow: WriteFlow, capfd: pytest.CaptureFixture[str]
) -> None:
    name = flow(tool_node("x"), nodes=[{"$component_ref": "strat"}])
    status, out, err = explain(name)
    assert (status, out) == (1, "")
    assert entry.main(["validate", name]) == 1
    assert err == capfd.readouterr().err


def test_settings_that_do_not_fit_are_refused_as_a_run_refuses_them(
    explain: Any, flow: WriteFlow
) -> None:
    status, _, err = explain(
        flow(), "--plugin", GATE, "--plugin-config", 'ApprovalGate={"refuse":1}'
    )
    assert status == 1
    assert "--plugin-config ApprovalGate" in err


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_page_is_no_wider_than_the_terminal(
    explain: Any, flow: WriteFlow, width: int
) -> None:
    name = flow(agent_node("helper-" * 4, [{"content": "x"}], "shell", "工具" * 9))
    _, out, _ = explain(name, "--plugin", GATE, "--all", "--width", str(width))
    lines = out.splitlines()
    # Below some width columns would be of letters: there the terminal wraps.
    assert max(map(cells, lines)) <= max(width, 70)
    assert out.count("工") == 2 * 9


def test_a_table_keeps_its_columns_and_loses_no_text() -> None:
    rows = [
        [Cell("1"), Cell("a long text of many words"), Cell("x" * 30)],
        [Cell("20"), Cell(""), Cell("y", indent=2)],
    ]
    assert plain(table(rows, 44)) == (
        "  1   a long text of  xxxxxxxxxxxxxxxxxx\n"
        "      many words      xxxxxxxxxxxx\n"
        "  20                    y\n"
    )


def test_colours_are_for_a_terminal_that_wants_them(
    tmp_path: Path, flow: WriteFlow, heddle: Heddle, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = flow(tool_node("count"))
    command = [*COMMAND, "explain", name, "--plugin", AUDIT]
    monkeypatch.delenv("COLUMNS", raising=False)
    with Screen(command, cwd=tmp_path, columns=60, rows=50) as screen:
        assert screen.ended() == 0
        assert screen.style("NodeAudit").fg == "brown"
        assert "start (StartNode)  node.before  NodeAudit" in screen.text
    monkeypatch.setenv("NO_COLOR", "1")
    with Screen(command, cwd=tmp_path, columns=60, rows=50) as screen:
        assert screen.ended() == 0
        assert b"\x1b" not in screen.raw
    assert "\x1b" not in heddle(*command[3:]).stdout
