"""``heddle run -i``: lines in, answers out, policies heard."""

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.heddle.cli.conftest import COMMAND, Heddle, surroundings
from tests.support.screen import Screen

EXAMPLES = Path(__file__).parents[3] / "examples" / "policies"


def scripted(tmp_path: Path, *steps: dict[str, object], inputs: object = None) -> str:
    """A flow of one LlmNode whose scripted model answers with what it was asked."""
    model = {
        "component_type": "OpenAiCompatibleConfig",
        "id": "m",
        "name": "m",
        "model_id": "m",
        "url": "scripted:",
        "metadata": {"script": list(steps)},
    }
    nodes = {
        "start": {"component_type": "StartNode", "name": "start", "inputs": inputs or []},
        "ask": {
            "component_type": "LlmNode",
            "name": "ask",
            "prompt_template": "{{message}}",
            "llm_config": model,
        },
        "end": {"component_type": "EndNode", "name": "end"},
    }
    edges = [
        {
            "component_type": "ControlFlowEdge",
            "name": f"{a}-{b}",
            "from_node": {"$component_ref": a},
            "to_node": {"$component_ref": b},
        }
        for a, b in (("start", "ask"), ("ask", "end"))
    ]
    document = {
        "component_type": "Flow",
        "name": "chat",
        "start_node": {"$component_ref": "start"},
        "nodes": [{"$component_ref": name} for name in nodes],
        "control_flow_connections": edges,
        "$referenced_components": {
            name: {"id": name, **node} for name, node in nodes.items()
        },
    }
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def test_each_line_is_a_run_and_its_answer_a_line(heddle: Heddle, tmp_path: Path) -> None:
    flow = scripted(tmp_path, {"content": "You said {{user}}."})
    done = heddle("run", "-i", flow, stdin="one\n\ntwo\n/exit\nthree\n")
    assert done.status == 0
    assert done.stdout == "You said one.\nYou said two.\n"


def test_a_chat_ends_with_its_input(heddle: Heddle, tmp_path: Path) -> None:
    flow = scripted(tmp_path, {"content": "You said {{user}}."})
    assert heddle("run", "-i", flow, stdin="one").stdout == "You said one.\n"


def test_a_failed_answer_is_told_and_the_chat_goes_on(
    heddle: Heddle, tmp_path: Path
) -> None:
    flow = scripted(tmp_path)
    done = heddle("run", "-i", flow, stdin="one\ntwo\n")
    assert done.status == 0
    assert done.stdout == ""
    assert done.stderr.count("Error: node 'ask' (LlmNode)") == 2
    assert "x ask" not in done.stderr


def test_a_line_that_is_no_utf_8_is_read_as_far_as_it_is(tmp_path: Path) -> None:
    flow = scripted(tmp_path, {"content": "You said {{user}}."})
    done = subprocess.run(
        [*COMMAND, "run", "-i", flow],
        input=b"a\xffb\n",
        capture_output=True,
        env=surroundings(tmp_path),
        timeout=60,
        check=True,
    )
    assert done.stdout.decode() == "You said a\ufffdb.\n"


def test_what_a_policy_did_is_never_silent(heddle: Heddle) -> None:
    done = heddle(
        *("run", "-i", str(EXAMPLES / "flows" / "clean_up.json")),
        *("--tools-dir", str(EXAMPLES / "tools")),
        *("--plugin", str(EXAMPLES / "approval_gate.json")),
        stdin="tidy up\n",
    )
    assert done.status == 0
    assert "! middleware 'ApprovalGate' of plugin 'approval-gate'" in done.stderr
    assert done.stdout.startswith("I may not delete the folder.")


def test_frames_and_a_piped_state_are_refused_with_a_chat(heddle: Heddle) -> None:
    for more in (("--protocol", "heddle"), ("--input", "-")):
        done = heddle("run", "-i", "flow.json", *more)
        assert done.status == 2
        assert "a chat reads lines from stdin and answers on stdout" in done.stderr


def test_a_signal_ends_a_chat_that_waits_for_a_line(tmp_path: Path) -> None:
    flow = scripted(tmp_path, {"content": "You said {{user}}."})
    with subprocess.Popen(
        [*COMMAND, "run", "-i", flow],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=surroundings(tmp_path),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"You said one.\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=10) == 130


def asking(tmp_path: Path) -> str:
    nodes = {
        "start": {"component_type": "StartNode", "name": "start"},
        "who": {"component_type": "InputMessageNode", "name": "who", "message": "Who?"},
        "end": {"component_type": "EndNode", "name": "end"},
    }
    edges = [
        {
            "component_type": "ControlFlowEdge",
            "name": f"{a}-{b}",
            "from_node": {"$component_ref": a},
            "to_node": {"$component_ref": b},
        }
        for a, b in (("start", "who"), ("who", "end"))
    ]
    document = {
        "component_type": "Flow",
        "name": "asks",
        "start_node": {"$component_ref": "start"},
        "nodes": [{"$component_ref": name} for name in nodes],
        "control_flow_connections": edges,
        "outputs": [{"title": "user_input", "type": "string"}],
        "$referenced_components": {
            name: {"id": name, **node} for name, node in nodes.items()
        },
    }
    path = tmp_path / "asks.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def test_what_a_node_asks_is_answered_by_the_next_line(
    heddle: Heddle, tmp_path: Path
) -> None:
    done = heddle("run", "-i", asking(tmp_path), stdin="begin\nAnn\nagain\nBob\n")
    assert done.stdout == "Ann\nBob\n"
    assert done.stderr.count("Who?") == 2


def test_a_question_that_nobody_answers_fails_the_run_and_not_the_chat(
    heddle: Heddle, tmp_path: Path
) -> None:
    done = heddle("run", "-i", asking(tmp_path), stdin="begin\n")
    assert done.status == 0
    assert done.stdout == ""
    assert "the input ended before 'who' was answered" in done.stderr


def test_a_run_that_is_no_chat_has_nobody_to_ask(heddle: Heddle, tmp_path: Path) -> None:
    done = heddle("run", asking(tmp_path), stdin="Ann\n")
    assert done.status == 1
    assert "there is nobody to ask" in done.stderr


def test_tools_are_confirmed_refused_with_a_reason_and_left_unanswered(
    heddle: Heddle, tmp_path: Path
) -> None:
    asks = {"tool_calls": [{"name": "look", "arguments": {"at": "{{user}}"}}]}
    steps = [asks, {"content": "It said {{seen}} {{error}}."}] * 3
    path = scripted(tmp_path, *steps)
    flow = json.loads(Path(path).read_text(encoding="utf-8"))
    nodes = flow["$referenced_components"]
    look = {
        "component_type": "ServerTool",
        "name": "look",
        "inputs": [{"title": "at", "type": "string"}],
        "requires_confirmation": True,
    }
    nodes["ask"] = {
        "component_type": "AgentNode",
        "id": "ask",
        "name": "ask",
        "agent": {
            "component_type": "Agent",
            "name": "clerk",
            "system_prompt": "",
            "llm_config": nodes["ask"]["llm_config"],
            "tools": [look],
        },
    }
    Path(path).write_text(json.dumps(flow), encoding="utf-8")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "look.sh").write_text("#!/bin/sh\necho '{\"seen\": 1}'\n", encoding="utf-8")
    (tools / "look.sh").chmod(0o755)
    done = heddle(
        *("run", "-i", path, "--tools-dir", str(tools)),
        stdin="one\nyes\ntwo\nno, wrong place\nthree\n",
    )
    assert done.status == 0
    first, second = done.stdout.splitlines()
    assert first == "It said 1 {{error}}."
    assert "refused to let tool 'look' run: wrong place" in second
    assert done.stderr.count("? ask wants to run look ") == 3
    assert "the input ended before the tool 'look' was confirmed or refused" in done.stderr


def test_markdown_is_rendered_on_a_terminal_and_left_alone_elsewhere(
    heddle: Heddle, tmp_path: Path
) -> None:
    text = "# Title\n\nSome **bold** `code`"
    flow = scripted(tmp_path, {"content": text})
    assert heddle("run", "-i", flow, stdin="go\n").stdout == f"{text}\n"
    for term, shown in (("xterm", "Title\n\nSome bold code"), ("dumb", text)):
        command = [*COMMAND, "run", "-i", flow]
        with Screen(command, cwd=tmp_path, env=surroundings(tmp_path), term=term) as screen:
            screen.wait_for(">")
            screen.type("go\r")
            screen.wait_for(shown)
            assert screen.style("bold").bold == (term == "xterm")
            screen.type("/exit\r")
            assert screen.ended() == 0
