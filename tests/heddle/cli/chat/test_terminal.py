"""A chat on a real pseudo-terminal: typed keys in, and the screen is what is asserted."""

import json
import queue
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

from heddle.cli.chat.commands import COMMANDS
from heddle.cli.chat.line_editor import KEYS
from tests.heddle.cli.chat.test_loop import asking
from tests.heddle.cli.conftest import (
    COMMAND,
    WriteFlow,
    WriteTool,
    agent_node,
    surroundings,
    tool_node,
)
from tests.support.model_endpoint import Call, ModelEndpoint, Reply, model_endpoint
from tests.support.screen import Screen

CTRL_Z = "\x1a"
CTRL_C, CTRL_D, CTRL_R, ESCAPE, UP = "\x03", "\x04", "\x12", "\x1b", "\x1b[A"
PASTE = "\x1b[200~{}\x1b[201~"
WELCOME = "› Type a message, or /help"


@contextmanager
def endpoint(*replies: Reply) -> Iterator[ModelEndpoint]:
    """A model endpoint in a thread of its own."""
    ready: queue.Queue[tuple[ModelEndpoint, Callable[[], None]]] = queue.Queue()

    async def serve() -> None:
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as serving:
            async with model_endpoint(*replies) as made:
                ready.put((made, lambda: token.run_sync_soon(serving.cancel)))
                await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    made, stop = ready.get()
    try:
        yield made
    finally:
        stop()
        thread.join()


def cut_off(text: str) -> Reply:
    """An answer that begins with ``text`` and never ends."""
    delta = {"index": 0, "delta": {"role": "assistant", "content": text}}
    events = [json.dumps({"id": "c", "choices": [{**delta, "finish_reason": None}]})]
    return Reply(events=events, framing="close", end="hang")


def agent(url: str, *tools: str, name: str = "ask") -> dict[str, Any]:
    """An agent whose model is an endpoint."""
    node = agent_node(name, [], *tools)
    model = node["agent"]["llm_config"]
    model["url"] = url
    del model["metadata"]
    return node


def talking(
    folder: Path,
    *arguments: str,
    columns: int = 80,
    rows: int = 24,
    environment: Mapping[str, str] | None = None,
) -> Screen:
    """A chat on a terminal."""
    given = {"XDG_STATE_HOME": str(folder / "state"), **(environment or {})}
    return Screen(
        [*COMMAND, "run", "-i", *arguments],
        columns=columns,
        rows=rows,
        env=surroundings(folder, given),
        cwd=folder,
    )


@contextmanager
def in_a_shell(folder: Path, *arguments: str, shell: str = "bash") -> Iterator[Screen]:
    """A chat that was started in a shell with job control."""
    given = {"XDG_STATE_HOME": str(folder / "state"), "PS1": "$ ", "ENV": "/dev/null"}
    command = {"bash": ["bash", "--norc", "--noprofile", "-i"], "sh": ["sh", "-i"]}[shell]
    with Screen(command, env=surroundings(folder, given), cwd=folder) as screen:
        screen.wait_for("$")
        screen.type(" ".join([*COMMAND, "run", "-i", *arguments]) + "; echo status $?\r")
        screen.wait_for(WELCOME)
        yield screen
        screen.type("exit\r")
        screen.ended()


def prompt_again(screen: Screen) -> None:
    """Wait for the prompt below an answer."""
    screen.wait(lambda s: re.search(r"\n\n›$", s.text) and s.cursor[0] == 2)


def said(asked: Any) -> list[tuple[str, str]]:
    """What a model was sent, without what the system says."""
    messages = [(each["role"], each["content"]) for each in asked.body["messages"]]
    return [each for each in messages if each[0] != "system"]


@pytest.mark.parametrize("columns", [80, 200])
def test_an_answer_grows_as_it_is_written_and_is_there_once(
    flow: WriteFlow, tmp_path: Path, columns: int
) -> None:
    prose = "日本語の文章 " * 20
    text = f"# Title\n\n{prose}\n\n- **bold** item\n- other\n\n```\ncode = 1\n```\n"
    with endpoint(Reply(text, piece=7)) as model:
        name = flow(agent(model.url))
        with talking(tmp_path, name, columns=columns) as screen:
            screen.wait_for(WELCOME)
            screen.type("hi\r")
            screen.wait_for("1 model call")
            prompt_again(screen)
            lines = screen.text.splitlines()
            assert lines[:3] == ["› hi", "", "Title"]
            assert "• bold item" in lines
            assert "    code = 1" in lines
            assert lines[-1] == "›"
            assert re.match(r"\d\.\d s · 1 model call · 3 tokens in · 5 out", lines[-3])
            assert screen.scrollback.count("Title") == 1
            written = "".join(each for each in lines if "日" in each)
            assert written.replace(" ", "") == prose.replace(" ", "")
            assert screen.style("Title").bold
            assert not screen.cursor_hidden


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_ctrl_z_suspends_and_fg_comes_back_to_what_is_typed(
    flow: WriteFlow, tmp_path: Path, shell: str
) -> None:
    with endpoint(Reply("Whole.")) as model:
        name = flow(agent(model.url))
        with in_a_shell(tmp_path, name, shell=shell) as screen:
            screen.type("half a")
            screen.wait_for("› half a")
            for time in (1, 2):
                screen.type(CTRL_Z)
                screen.wait(lambda s, n=time: s.text.lower().count("stopped") == n)
                # A shell may say so and then begin the line of its prompt.
                screen.wait(lambda s: s.lines[s.cursor[1]] == "$")
                # What is typed at the shell is shown, and lines end as they should.
                screen.type(f"echo one$(({time}+1))\r")
                screen.wait(lambda s, n=time: f"\none{n + 1}\n" in s.text)
                assert f"echo one$(({time}+1))" in screen.text
                assert not screen.cursor_hidden
                screen.type("fg\r")
                screen.wait(lambda s: s.lines[s.cursor[1]] == "› half a")
            screen.type(" message\r")
            screen.wait_for("1 model call")
            prompt_again(screen)
            assert said(model.requests[0])[-1] == ("user", '{"message":"half a message"}')
            screen.type(CTRL_D)
            screen.wait(lambda s: s.lines[s.cursor[1]] == "$")


def test_ctrl_z_suspends_an_answer_too_and_it_goes_on_below(
    flow: WriteFlow, tmp_path: Path
) -> None:
    text = "First part.\n\nSecond part is writ"
    with endpoint(cut_off(text), Reply("Whole.")) as model:
        name = flow(agent(model.url))
        # This one leaves the terminal as it finds it.
        with in_a_shell(tmp_path, name, shell="sh") as screen:
            screen.type("hello\r")
            screen.wait_for("Second part is writ")
            screen.wait_for("Ctrl-C cancels")
            screen.type(CTRL_Z)
            screen.wait_for("Stopped")
            screen.type("echo one$((1+1))\r")
            screen.wait_for("\none2\n")
            assert "echo one$((1+1))" in screen.text
            screen.type("fg\r")
            screen.wait(lambda s: "Ctrl-C cancels" in s.text.partition("fg\n")[2])
            assert "First part." in screen.text.partition("Stopped")[0]
            screen.type(CTRL_C)
            screen.wait_for("⊘ cancelled")
            prompt_again(screen)
            screen.type("again\r")
            screen.wait_for("1 model call")
            prompt_again(screen)
            assert "\n› again\n\nWhole.\n\n" in screen.text
            screen.type(CTRL_D)
            screen.wait(lambda s: s.lines[s.cursor[1]] == "$")


def test_what_is_written_is_seen_before_it_is_whole_and_ctrl_c_cancels_it(
    flow: WriteFlow, tmp_path: Path
) -> None:
    replies = cut_off("First part.\n\nSecond pa"), Reply("Whole."), Reply("Again.")
    with endpoint(*replies) as model, talking(tmp_path, flow(agent(model.url))) as screen:
        screen.wait_for(WELCOME)
        screen.type("one\r")
        screen.wait_for("Second pa")
        screen.wait_for("Ctrl-C cancels")
        screen.type("typed ahead")
        screen.type(CTRL_C)
        screen.wait_for("⊘ cancelled")
        screen.wait_for("› typed ahead")
        assert screen.scrollback.count("First part.") == 1
        screen.type(CTRL_C)  # clears what is typed
        prompt_again(screen)
        screen.type("two\r")
        screen.wait_for("Whole.")
        prompt_again(screen)
        screen.type("/retry\r")
        screen.wait_for("Again.")
        prompt_again(screen)
        screen.type(CTRL_D)
        assert screen.ended() == 0
        assert screen.modes() == screen.modes_before
        one, two, again = map(said, model.requests)
        assert len(one) == len(two) == 1  # nothing is left of what was cancelled
        assert again == two


def test_earlier_turns_go_to_the_agents_and_a_retry_replaces_the_last(
    flow: WriteFlow, tmp_path: Path
) -> None:
    replies = Reply("One."), Reply(status=400), Reply("Two."), Reply("Three.")
    with endpoint(*replies) as model, talking(tmp_path, flow(agent(model.url))) as screen:
        screen.wait_for(WELCOME)
        screen.type("first\r")
        screen.wait_for("One.")
        prompt_again(screen)
        screen.type("second\r")
        screen.wait_for("Error: node 'ask'")
        prompt_again(screen)
        for answer in ("Two.", "Three."):
            screen.type("/retry\r")
            screen.wait_for(answer)
            prompt_again(screen)
        screen.type("/state\r")
        screen.wait_for('"content": "Three."')
        assert '"content": "Two."' not in screen.text
        screen.type("/exit\r")
        assert screen.ended() == 0
        _, failed, two, three = map(said, model.requests)
        assert failed == two == three
        assert two[:2] == [("user", "first"), ("assistant", "One.")]
        assert len(two) == 3


def test_tool_calls_and_what_policies_did_are_seen_as_they_happen(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    from tests.heddle.cli.live.test_reader import GATE, MANIFEST, UNTIL

    tool("shell", "echo '{}'")
    tool("look", UNTIL.format(tmp_path / "go"))
    (tmp_path / "gate.py").write_text(GATE)
    (tmp_path / "gate.json").write_text(MANIFEST)
    replies = (
        Reply("Let me look.", calls=[Call("shell")]),
        Reply(None, calls=[Call("look", id="call_9")]),
        Reply("I have **seen** it."),
    )
    with endpoint(*replies) as model:
        name = flow(agent(model.url, "shell", "look"))
        arguments = (name, "--tools-dir", "tools", "--plugin", "gate.json")
        with talking(tmp_path, *arguments) as screen:
            screen.wait_for(WELCOME)
            screen.type("go\r")
            screen.wait(lambda s: re.search(r"^\S look  \d\.\d s$", s.text, re.MULTILINE))
            lines = screen.text.splitlines()
            assert lines[:4] == ["› go", "", "Let me look.", ""]
            assert lines[4].startswith("! middleware 'Gate' of plugin 'gate', toolCall.")
            assert screen.style("! middleware").fg == "brown"  # pyte's word for yellow
            assert "✗ shell  0.0 s  " in screen.text
            (tmp_path / "go").touch()
            screen.wait_for("I have seen it.")
            prompt_again(screen)
            assert re.search(r"^✓ look  \d\.\d s$", screen.text, re.MULTILINE)
            assert screen.style("seen").bold


def test_a_message_has_several_lines_when_they_are_typed_or_pasted(
    flow: WriteFlow, tmp_path: Path
) -> None:
    with endpoint(Reply("1."), Reply("2.")) as model:
        with talking(tmp_path, flow(agent(model.url))) as screen:
            screen.wait_for(WELCOME)
            screen.type(f"one{ESCAPE}\rtwo")
            screen.wait_for("› one\n  two")
            screen.type("\r")
            screen.wait_for("1.")
            prompt_again(screen)
            screen.type(PASTE.format("three\r\nfour\nfive"))
            screen.wait_for("› three\n  four\n  five")
            screen.type("\r")
            screen.wait_for("2.")
        one, two = (said(each)[-1][1] for each in model.requests)
        assert "one\\ntwo" in one
        assert "three\\nfour\\nfive" in two


def test_what_was_sent_is_at_hand_in_the_next_session(
    flow: WriteFlow, tmp_path: Path
) -> None:
    with endpoint() as model:
        name = flow(agent(model.url))
        with talking(tmp_path, name) as screen:
            screen.wait_for(WELCOME)
            for text in ("apples", "pears"):
                screen.type(f"{text}\r")
                screen.wait(lambda s, text=text: f'"{text}"' in s.text)
                prompt_again(screen)
            screen.type(CTRL_D)
            assert screen.ended() == 0
        with talking(tmp_path, name) as screen:
            screen.wait_for(WELCOME)
            screen.type(UP)
            screen.wait_for("› pears")
            screen.type(UP)
            screen.wait_for("› apples")
            screen.type(CTRL_C)
            screen.wait(lambda s: s.text == "›" or WELCOME in s.text)
            screen.type(f"{CTRL_R}app")
            screen.wait_for("apples")
            screen.type("\r\r")
            screen.wait_for("1 model call")
        with talking(tmp_path, name, environment={"HEDDLE_HISTORY": "0"}) as screen:
            screen.wait_for(WELCOME)
            screen.type(f"{UP}kiwis")
            screen.wait_for("› kiwis")
        assert "kiwis" not in (tmp_path / "state/heddle/chat_history.jsonl").read_text()


def test_a_history_that_cannot_be_kept_is_told_once(
    flow: WriteFlow, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("in the way")
    with talking(tmp_path, flow()) as screen:
        screen.wait_for(WELCOME)
        for _ in range(2):
            screen.type("hi\r")
            prompt_again(screen)
        screen.type(CTRL_D)
        assert screen.ended() == 0
        assert screen.scrollback.count("what is typed is not kept") == 1


def test_commands_are_told_guessed_and_completed(flow: WriteFlow, tmp_path: Path) -> None:
    with talking(tmp_path, flow()) as screen:
        screen.wait_for(WELCOME)
        screen.type("/he\t\r")
        prompt_again(screen)
        for word in (*COMMANDS, *KEYS):
            assert word in screen.text
        screen.type("/retyr\r")
        screen.wait_for("Did you mean '/retry'?")
        prompt_again(screen)
        screen.type("/retry\r")
        screen.wait_for("There is no turn to take back yet.")
        prompt_again(screen)
        screen.type(CTRL_C)
        screen.wait_for("Ctrl-D or /exit leaves the chat.")
        screen.type("/exit\r")
        assert screen.ended() == 0


def test_questions_of_the_flow_are_answered_here(tmp_path: Path) -> None:
    with talking(tmp_path, asking(tmp_path)) as screen:
        screen.wait_for(WELCOME)
        screen.type("begin\r")
        screen.wait_for("Who?")
        screen.wait_for("\n?")
        screen.type("Ann\r")
        screen.wait_for("? Ann\n\nAnn")
        prompt_again(screen)
        screen.type("again\r")
        screen.wait(lambda s: s.text.endswith("Who?\n\n?"))
        screen.type(CTRL_C)
        screen.wait_for("⊘ cancelled")
        prompt_again(screen)
        screen.type("again\r")
        screen.wait(lambda s: s.text.endswith("Who?\n\n?"))
        screen.type(CTRL_D)
        assert screen.ended() == 0
        assert screen.modes() == screen.modes_before


def test_tools_are_confirmed_here(flow: WriteFlow, tool: WriteTool, tmp_path: Path) -> None:
    tool("wipe", "echo '{}'")
    replies = (
        Reply(None, calls=[Call("wipe")]),
        Reply("Wiped."),
        Reply(None, calls=[Call("wipe", id="call_9")]),
        Reply("Kept."),
    )
    with endpoint(*replies) as model:
        node = agent(model.url, "wipe")
        node["agent"]["tools"][0]["requires_confirmation"] = True
        name = flow(node, agentspec_version="25.4.2")
        with talking(tmp_path, name, "--tools-dir", "tools") as screen:
            screen.wait_for(WELCOME)
            for answer, outcome in (("yes", "Wiped."), ("no, keep it", "Kept.")):
                screen.type("go\r")
                screen.wait(lambda s: s.text.endswith("yes, or no and why\n\n?"))
                assert "? ask wants to run wipe {}" in screen.text
                screen.type(f"{answer}\r")
                screen.wait_for(outcome)
                prompt_again(screen)
            assert "✓ wipe" in screen.text
            assert "✗ wipe" in screen.text


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
)
def test_whatever_ends_a_chat_leaves_the_terminal_usable(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path, number: int, status: int, busy: bool
) -> None:
    tool("t", "sleep 600")
    with talking(tmp_path, flow(tool_node("t")), "--tools-dir", "tools") as screen:
        screen.wait_for(WELCOME)
        assert screen.modes() != screen.modes_before
        screen.type("some text")
        screen.wait_for("› some text")
        if busy:
            screen.type("\r")
            screen.wait_for("Ctrl-C cancels")
            if number == signal.SIGINT:
                screen.type(CTRL_C)
                screen.wait_for("⊘ cancelled")
                prompt_again(screen)
        screen.signal(number)
        assert screen.ended() == status
        assert screen.modes() == screen.modes_before
        assert not screen.cursor_hidden
        assert screen.raw.rindex(b"\x1b[?2004l") > screen.raw.rindex(b"\x1b[?2004h")
        assert screen.text.endswith("Interrupted.")
        assert screen.cursor[0] == 0


def test_a_resized_terminal_is_drawn_anew(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    from tests.heddle.cli.live.test_reader import UNTIL

    tool("t", UNTIL.format(tmp_path / "go"))
    with talking(tmp_path, flow(tool_node("t")), "--tools-dir", "tools") as screen:
        screen.wait_for(WELCOME)
        screen.type("word " * 30)
        screen.resize(200, 24)
        screen.wait(lambda s: f"› {'word ' * 30}".rstrip() in s.lines)
        screen.type("\r")
        screen.wait_for("Ctrl-C cancels")
        screen.resize(30, 10)
        (tmp_path / "go").touch()
        prompt_again(screen)
        screen.type(CTRL_D)
        assert screen.ended() == 0


def test_no_colour_takes_colours_and_nothing_else(flow: WriteFlow, tmp_path: Path) -> None:
    with endpoint(Reply("Some `code` and **bold**.")) as model:
        name = flow(agent(model.url))
        with talking(tmp_path, name, environment={"NO_COLOR": "1"}) as screen:
            screen.wait_for(WELCOME)
            screen.type("hi\r")
            screen.wait_for("Some code and bold.")
            prompt_again(screen)
            assert not re.search(rb"\x1b\[[0-9;]*[39][0-7][;m]", screen.raw)
            assert screen.style("bold").bold


def test_a_chat_of_a_terminal_without_utf_8_is_in_ascii(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "echo '{}'")
    environment = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    script = [
        {"tool_calls": [{"name": "t"}]},
        {"content": "- one\n\n> two\n\n|a|b|\n|-|-|\n|1|2|"},
    ]
    arguments = (flow(agent_node("ask", script, "t")), "--tools-dir", "tools")
    with talking(tmp_path, *arguments, environment=environment) as screen:
        screen.wait_for("> Type a message")
        screen.type("hi\r")
        screen.wait(lambda s: s.text.endswith("\n\n>"))
        assert "+ t  " in screen.text
        assert "* one\n\n| two\n\na | b\n--+--\n1 | 2" in screen.text
        assert screen.text.isascii()


@pytest.mark.parametrize("busy", [False, True])
def test_a_terminal_that_is_gone_ends_the_chat(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path, busy: bool
) -> None:
    tool("t", "sleep 600")
    with talking(tmp_path, flow(tool_node("t")), "--tools-dir", "tools") as screen:
        screen.wait_for(WELCOME)
        if busy:
            screen.type("go\r")
            screen.wait_for("Ctrl-C cancels")
        screen.hang_up()
        assert screen.ended() == 129


def test_a_paused_terminal_is_given_back_too(flow: WriteFlow, tmp_path: Path) -> None:
    with talking(tmp_path, flow()) as screen:
        screen.wait_for(WELCOME)
        screen.pause()
        screen.type("text that cannot be shown")
        screen.signal(signal.SIGTERM)
        assert screen.ended() == 143
        assert screen.modes() == screen.modes_before
