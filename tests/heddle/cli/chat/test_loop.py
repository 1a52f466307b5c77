"""``heddle run -i``: lines in, answers out, policies heard."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from heddle.cli.chat.loop import Answer, answer_of
from heddle.preparing import load
from tests.heddle.cli.conftest import (
    COMMAND,
    Heddle,
    WriteFlow,
    WriteTool,
    agent_node,
    surroundings,
    tool_node,
)
from tests.support.screen import Screen

EXAMPLES = Path(__file__).parents[4] / "examples" / "policies"


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
    assert done.stdout == ""
    assert done.stderr.count("Error: node 'ask' (LlmNode)") == 2
    assert "x ask" not in done.stderr


@pytest.mark.parametrize(
    ("typed", "answers", "status"),
    [
        ("one\ntwo\n", 2, 0),
        ("/help\none\n/exit\n", 1, 0),
        ("one\n/retyr\ntwo\n", 2, 1),
        ("", 0, 0),
    ],
)
def test_a_piped_chat_ends_with_what_became_of_its_lines(
    heddle: Heddle, tmp_path: Path, typed: str, answers: int, status: int
) -> None:
    flow = scripted(tmp_path, {"content": "You said {{user}}."})
    done = heddle("run", "-i", flow, stdin=typed)
    assert (done.status, done.stdout.count("You said")) == (status, answers)


def test_a_piped_chat_in_which_a_turn_failed_ends_like_a_failed_run(
    heddle: Heddle, tmp_path: Path
) -> None:
    flow = scripted(tmp_path)
    failed = heddle("run", flow)
    done = heddle("run", "-i", flow, "--quiet", stdin="one\ntwo\n/help\n")
    assert done.status == failed.status == 1
    assert "/retry" in done.stderr


def test_a_locale_of_bare_ascii_loses_no_letter_of_a_message(
    heddle: Heddle, flow: WriteFlow
) -> None:
    done = heddle(
        "run",
        flow(),
        "-i",
        "-q",
        stdin="größer\n",
        environment={"PYTHONIOENCODING": "ascii"},
    )
    assert json.loads(done.stdout) == {"message": "größer"}


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
    assert done.status == 1
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
    assert done.status == 1  # the last of the three was left unanswered
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
        command = [*COMMAND, "run", "-i", "-q", flow]
        with Screen(command, cwd=tmp_path, env=surroundings(tmp_path), term=term) as screen:
            screen.wait_for(">")
            screen.type("go\r")
            screen.wait_for(shown)
            assert screen.style("bold").bold == (term == "xterm")
            screen.type("/exit\r")
            assert screen.ended() == 0


# Answers in the place of the model, with all that it would be sent.
ECHO = """
import json
from heddle.plugin import replace, serve


def before(event, ctx):
    sent = [(each["role"], each["content"]) for each in event.input["messages"]]
    return replace({"content": json.dumps(sent)})


serve({"Echo": {"modelCall": {"before": before}}})
"""
ECHO_MANIFEST = """{"name": "echo", "version": "1.0.0", "capabilities": [],
 "components": [{"kind": "middleware", "componentType": "Echo",
                 "seams": {"modelCall": ["before"]}}]}"""


def test_agents_are_sent_the_earlier_turns_once_and_retry_takes_the_last_one_back(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path
) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    (tmp_path / "echo.json").write_text(ECHO_MANIFEST)
    name = flow(agent_node("ask", []))
    done = heddle(
        *("run", "-i", name, "--plugin", "echo.json"), stdin="one\ntwo\n/retry\n/retry\n"
    )
    first, second, third, fourth = map(json.loads, done.stdout.splitlines())
    system, said = first
    assert system[0] == "system"
    assert said[0] == "user"
    assert "one" in said[1]
    assert second == [system, ["user", "one"], ["assistant", json.dumps(first)], second[-1]]
    assert "two" in second[-1][1]
    assert third == fourth == second


def test_the_state_is_the_last_result_and_what_the_next_turn_begins_with(
    heddle: Heddle, tmp_path: Path
) -> None:
    flow = scripted(tmp_path, {"content": "You said {{user}}."})
    plan = json.loads(Path(flow).read_text(encoding="utf-8"))
    ask = plan["$referenced_components"]["ask"]
    ask["prompt_template"] = "{{message}} after {{_chat_history}}"
    Path(flow).write_text(json.dumps(plan), encoding="utf-8")
    done = heddle("run", "-i", flow, stdin="one\n/state\n/retry\n")
    assert done.stdout == "You said one after [].\n" * 2
    state = json.loads(done.stderr[done.stderr.index("{\n") : done.stderr.rindex("}") + 1])
    assert state == {
        "result": {"message": "one", "generated_text": "You said one after []."},
        "next": {
            "_chat_history": [
                {"role": "user", "content": "one"},
                {"role": "assistant", "content": "You said one after []."},
            ]
        },
    }


def test_a_new_conversation_begins_without_the_turns_before(
    heddle: Heddle, tmp_path: Path
) -> None:
    flow = scripted(tmp_path, {"content": "You said {{user}}."})
    plan = json.loads(Path(flow).read_text(encoding="utf-8"))
    ask = plan["$referenced_components"]["ask"]
    ask["prompt_template"] = "{{message}} after {{_chat_history}}"
    Path(flow).write_text(json.dumps(plan), encoding="utf-8")
    done = heddle("run", "-i", flow, stdin="one\ntwo\n/new\n/retry\nthree\n")
    assert done.status == 0
    first, second, third = done.stdout.splitlines()
    assert "one" in second
    assert (first, third) == (
        "You said one after [].",
        "You said three after [].",
    )
    assert "A new conversation begins.\nThere is no turn to take back yet.\n" in done.stderr


def test_commands_are_no_messages(heddle: Heddle, tmp_path: Path) -> None:
    flow = scripted(tmp_path, {"content": "You said {{user}}."})
    done = heddle("run", "-i", flow, stdin="/retry\n/help\n/retyr\n//help\n/state\n/quit\n")
    assert done.stdout == "You said /help.\n"
    assert "There is no turn to take back yet." in done.stderr
    assert "  /retry  take the last turn back and ask again\n" in done.stderr
    assert "Error: there is no command '/retyr'. Did you mean '/retry'?" in done.stderr


def test_ctrl_c_cancels_an_answer_of_a_dumb_terminal_and_not_the_chat(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("wait", "sleep 600")
    name = flow(tool_node("wait"))
    command = [*COMMAND, "run", "-i", name, "--tools-dir", "tools"]
    with Screen(command, cwd=tmp_path, env=surroundings(tmp_path), term="dumb") as screen:
        for turn in (1, 2):
            screen.wait(lambda s, turn=turn: s.text.endswith(">"))
            screen.type("go\r")
            screen.wait(lambda s, turn=turn: s.text.count("> wait (ToolNode)") == turn)
            screen.type("\x03")
            screen.wait(lambda s, turn=turn: s.text.count("Cancelled.") == turn)
        screen.type("\x04")
        assert screen.ended() == 0
        assert screen.modes() == screen.modes_before


def test_a_line_nobody_waits_for_any_more_is_given_to_the_next(tmp_path: Path) -> None:
    command = [*COMMAND, "run", "-i", asking(tmp_path)]
    with Screen(command, cwd=tmp_path, env=surroundings(tmp_path), term="dumb") as screen:
        screen.wait_for(">")
        screen.type("begin\r")
        screen.wait_for("Who?")
        screen.type("\x03")
        screen.wait_for("Cancelled.")
        screen.type("/state\r")
        screen.wait_for('"result": null')
        screen.type("\x04")
        assert screen.ended() == 0


def test_a_message_goes_to_the_first_text_that_is_not_given(
    heddle: Heddle, tmp_path: Path
) -> None:
    inputs = [{"title": each, "type": "string"} for each in ("tone", "message")]
    flow = scripted(tmp_path, {"content": "{{user}}"}, inputs=inputs)
    plan = json.loads(Path(flow).read_text(encoding="utf-8"))
    ask = plan["$referenced_components"]["ask"]
    ask["prompt_template"] = "{{message}}, {{tone}}!"
    Path(flow).write_text(json.dumps(plan), encoding="utf-8")
    given = json.dumps({"tone": "please"})
    done = heddle("run", "-i", flow, "--input", given, stdin="one\ntwo\n")
    assert done.stdout == "one, please!\ntwo, please!\n"


def test_the_answer_is_the_text_of_a_result(tmp_path: Path) -> None:
    declared = load(asking(tmp_path))
    assert answer_of(declared, {"user_input": "Ann"}) == Answer("Ann")
    assert answer_of(declared, {"user_input": 1}) == Answer(
        '{"user_input":1}', is_json=True
    )
    undeclared = load(scripted(tmp_path, {"content": "x"}))
    assert answer_of(undeclared, {"n": 1, "generated_text": "x"}) == Answer("x")
    assert answer_of(undeclared, {"n": 1}) == Answer('{"n":1}', is_json=True)
