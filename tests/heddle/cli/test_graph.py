"""``heddle graph``: arguments in, a picture or the faults of the document out."""

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from heddle.cli import entry
from tests.heddle.cli.conftest import (
    COMMAND,
    Heddle,
    WriteFlow,
    surroundings,
    tool_node,
)
from tests.support import flows as documents
from tests.support.flows import branching, edge, end, start
from tests.support.screen import Screen

POLICIES = Path(__file__).parents[3] / "examples" / "policies"


@pytest.fixture
def graph(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        status = entry.main(["graph", *arguments])
        return (status, *capfd.readouterr())

    return run


def test_a_flow_is_drawn_on_stdout_and_nothing_else_is(graph: Any, flow: WriteFlow) -> None:
    status, out, err = graph(flow(tool_node("count", "wc")), "--width", "80")
    assert (status, err) == (0, "")
    assert out == (
        "┌───────────┐\n"
        "│ start     │\n"
        "│ StartNode │\n"
        "└─────┬─────┘\n"
        "      ▼\n"
        "┌───────────┐\n"
        "│ count     │\n"
        "│ ToolNode  │\n"
        "│ tool wc   │\n"
        "└─────┬─────┘\n"
        "      ▼\n"
        " ┌─────────┐\n"
        " │ end     │\n"
        " │ EndNode │\n"
        " └─────────┘\n"
        "\n"
        "values flow by name\n"
    )


def test_policies_are_named_at_the_nodes_that_ask_them(graph: Any, flow: WriteFlow) -> None:
    audit = str(POLICIES / "node_audit.json")
    gate = str(POLICIES / "approval_gate.json")
    _, out, _ = graph(flow(tool_node("count")), "--plugin", audit, "--plugin", gate)
    assert out.count("◆ node.before+after: NodeAudit") == 3
    assert "ApprovalGate" not in out


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        (["--format", "mermaid"], "flowchart TB\n"),
        (["--format", "svg"], "<svg xmlns="),
        (["--format", "text"], "┌─"),
    ],
)
def test_each_format_is_printed(
    graph: Any, flow: WriteFlow, arguments: list[str], begins: str
) -> None:
    status, out, _ = graph(flow(), *arguments)
    assert status == 0
    assert out.startswith(begins)


@pytest.mark.parametrize(
    ("name", "begins"),
    [("a.svg", "<svg xmlns="), ("a.mmd", "flowchart TB\n"), ("a.txt", "┌─")],
)
def test_a_file_is_drawn_as_its_extension_says(
    graph: Any, flow: WriteFlow, tmp_path: Path, name: str, begins: str
) -> None:
    assert graph(flow(), "-o", name) == (0, "", "")
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_a_file_that_cannot_be_written_is_told(graph: Any, flow: WriteFlow) -> None:
    status, out, err = graph(flow(), "-o", "no/such.svg")
    assert (status, out) == (1, "")
    assert err == (
        "Error: no/such.svg: cannot write it: No such file or directory. Check the path "
        "and its permissions.\n"
    )


@pytest.mark.parametrize("name", ["a.svg", "link.svg"])
def test_a_picture_that_there_is_no_room_for_leaves_the_old_one(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.svg").write_text("precious")
    (tmp_path / "a.svg").chmod(0o640)
    (tmp_path / "link.svg").symlink_to("a.svg")
    before = sorted(tmp_path.iterdir())
    shell = f"ulimit -f 0; exec {' '.join(COMMAND)} graph {flow()} -o {name}"
    done = subprocess.run(
        ["/bin/sh", "-c", shell],
        capture_output=True,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        check=False,
    )
    assert done.returncode == 1
    assert f"Error: {name}: cannot write it: File too large" in done.stderr.decode()
    assert (tmp_path / "a.svg").read_text() == "precious"
    assert heddle("graph", flow(), "-o", name).status == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert (tmp_path / "a.svg").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "link.svg").is_symlink()
    left = {each.name for each in tmp_path.iterdir()} - {each.name for each in before}
    assert not [each for each in left if each.startswith(".heddle")]
    assert heddle("graph", flow(), "-o", "/dev/stdout").stdout.startswith("┌")


def test_a_flow_that_nobody_could_follow_has_no_svg(graph: Any, tmp_path: Path) -> None:
    names = [f"b{number}" for number in range(400)]
    edges = [edge(a, b, "default") for a, b in pairwise([*names, "end"])]
    edges += [edge(name, "end", "out") for name in names]
    nodes = [start(), *(branching(name, {"v": "out"}) for name in names), end()]
    made = documents.flow(nodes, ["start", "b0"], edges)
    (tmp_path / "many.json").write_text(json.dumps(made))
    status, out, err = graph("many.json", "--format", "svg")
    assert (status, out) == (2, "")
    assert "too many lines over too many nodes to be drawn. Have it as text" in err
    status, out, err = graph("many.json")
    assert (status, err) == (0, "")
    assert "\n├─ out ─▶ end\n" in out


def test_faults_are_told_as_validate_tells_them(
    graph: Any, flow: WriteFlow, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = flow(tool_node("x"), nodes=[{"$component_ref": "strat"}])
    status, out, err = graph(name)
    assert (status, out) == (1, "")
    assert "Did you mean 'start'?" in err
    assert entry.main(["validate", name]) == 1
    assert err == capfd.readouterr().err


def test_wrong_formats_are_refused(graph: Any, flow: WriteFlow) -> None:
    status, _, err = graph(flow(), "--format", "png")
    assert status == 2
    assert "'png' is not one of 'text', 'svg', 'mermaid'" in err
    status, _, err = graph(flow(), "--flow-format", "jsn")
    assert status == 2
    assert "there is no format 'jsn'. Did you mean 'json'?" in err


def test_a_lone_agent_is_drawn(graph: Any, tmp_path: Path) -> None:
    llm = {
        "component_type": "OllamaConfig",
        "name": "m",
        "model_id": "q",
        "url": "http://x",
    }
    agent = {
        "component_type": "Agent",
        "name": "solo",
        "system_prompt": "",
        "llm_config": llm,
    }
    (tmp_path / "agent.json").write_text(json.dumps({**agent, "tools": []}))
    status, out, _ = graph("agent.json")
    assert status == 0
    assert "│ solo      │" in out
    assert "│ model q   │" in out


def test_a_locale_without_utf8_has_a_picture_in_ascii(
    heddle: Heddle, flow: WriteFlow
) -> None:
    done = heddle("graph", flow(), environment={"LC_ALL": "C"})
    assert done.stdout.isascii()
    assert done.stdout.startswith("+-----------+\n| start     |\n")


def test_a_narrow_terminal_is_given_a_list(
    tmp_path: Path, flow: WriteFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # it wins over the terminal's own
    name = flow(tool_node("a-tool-with-a-long-name"))
    command = [*COMMAND, "graph", name]
    with Screen(command, cwd=tmp_path, columns=20, rows=40) as screen:
        assert screen.ended() == 0
        assert "● start  StartNode" in screen.text
