"""What both runtimes promise a plugin and a host, asked of the same plugin in each.

``plugins/contract.py`` and ``plugins/contract.mjs`` say the same in two languages.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plugins_host.conversation import ModelRequest
from plugins_host.loading.entry_point import RUNTIME
from tests.plugins_host.driver import HALVES, Driver, consult, question

PLUGINS = Path(__file__).with_name("plugins")
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="there is no node on PATH")


@pytest.fixture(params=["python", pytest.param("javascript", marks=needs_node)])
def language(request: pytest.FixtureRequest) -> str:
    named: str = request.param
    return named


@pytest.fixture
def plugin(language: str, tmp_path: Path) -> Iterator[Driver]:
    argv = (
        [sys.executable, str(PLUGINS / "contract.py")]
        if language == "python"
        else [str(NODE), "--import", RUNTIME.as_uri(), str(PLUGINS / "contract.mjs")]
    )
    with Driver(argv, tmp_path) as driver:
        assert driver.greet() == {"protocol": 1, "features": ["consult"]}
        yield driver


FAILED = {"ok": False, "error": {"name": "ModelError", "message": "429", "status": 429}}


# --- what a handler sees ----------------------------------------------------------------


def test_before_is_shown_the_subject_the_input_and_its_ctx(plugin: Driver) -> None:
    asked = question("Seen", input={"a": [1]}, component={"k": "v"}, attempt=2)

    assert plugin.ask("before", asked)["value"] == {
        "subject": ["ask", "AgentNode", "shell", "call-1"],
        "input": {"a": [1]},
        "component": {"k": "v"},
        "where": ["toolCall", "before"],
        "attempt": [2, 3],
        "admits": HALVES["toolCall"]["before"],
    }


def test_after_is_shown_the_outcome_and_at_a_tool_the_arguments(plugin: Driver) -> None:
    ran = plugin.ask(
        "after", question("Seen", input={"a": 1}, outcome={"ok": True, "value": 5})
    )
    failed = plugin.ask("after", question("Seen", "node", outcome=FAILED))

    assert (ran["value"]["input"], ran["value"]["value"]) == ({"a": 1}, 5)
    assert ran["value"]["error"] is None
    assert failed["value"]["error"] == ["ModelError", "429", 429, None]
    assert failed["value"]["input"] == {}
    assert failed["value"]["admits"] == HALVES["node"]["after"]


def test_ctx_component_is_an_object_also_when_none_was_sent(plugin: Driver) -> None:
    asked = question("Seen", input={})
    del asked["component"]

    assert plugin.ask("before", asked)["value"]["component"] == {}


def test_the_models_config_is_readable_in_both_spellings(plugin: Driver) -> None:
    shown = plugin.ask(
        "before", question("Seen", input={}, component={"llm_config": {"m": 1}})
    )

    assert shown["value"]["component"]["llmConfig"] == {"m": 1}


def test_text_of_every_alphabet_arrives_whole(plugin: Driver) -> None:
    text = "å∫ç 日本語 🧶 \u2028 \n\t\x00"

    shown = plugin.ask("before", question("Seen", input={"t": text}))

    assert shown["value"]["input"] == {"t": text}


# --- verdicts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "asked", "verdict"),
    [
        ("before", question("Gate", input={"cmd": "ls"}), {"action": "proceed"}),
        (
            "before",
            question("Gate", input={"cmd": "rm -rf /"}),
            {"action": "reject", "reason": "destructive command"},
        ),
        (
            "before",
            question("Redactor", input={"a": 1}),
            {"action": "modify", "input": {"a": 1, "secret": "***"}},
        ),
        (
            "after",
            question("Again", "nodeError", outcome=FAILED),
            {"action": "retry", "delayMs": 250},
        ),
        (
            "after",
            question("Ends", "node", outcome=FAILED),
            {"action": "fail", "reason": "enough"},
        ),
        ("before", question("Unknown", input={}), {"action": "aprove"}),
    ],
)
def test_a_verdict_travels_as_it_was_given(
    plugin: Driver, method: str, asked: dict[str, Any], verdict: dict[str, Any]
) -> None:
    assert plugin.ask(method, asked) == verdict


@pytest.mark.parametrize(
    ("component", "says"),
    [
        ("Nothing", ("returned None", "returned undefined")),
        ("Text", ("returned str 'proceed'", "returned proceed")),
    ],
)
def test_only_an_object_is_a_verdict(
    plugin: Driver, component: str, says: tuple[str, str]
) -> None:
    error = plugin.fails("before", question(component, input={}))

    assert error["name"] == "AnswerInvalid"
    assert any(each in error["message"] for each in says)
    assert error["message"].startswith(f"{component} toolCall.before")
    assert "Return a verdict, such as" in error["message"]


def test_what_a_handler_throws_is_its_error(plugin: Driver, language: str) -> None:
    error = plugin.fails("before", question("Throws", input={}))

    name = {"python": "ValueError", "javascript": "RangeError"}[language]
    assert error == {"name": name, "message": "no luck today"}
    assert "no luck today" in plugin.stderr
    assert "contract." in plugin.stderr


def test_a_verdict_that_json_cannot_hold_is_an_error(plugin: Driver) -> None:
    assert plugin.fails("before", question("Circular", input={}))["message"]
    assert plugin.ask("before", question("Gate", input={})) == {"action": "proceed"}


def test_a_handler_that_is_missing_is_an_error_with_the_line_to_write(
    plugin: Driver,
) -> None:
    error = plugin.fails("after", question("Gate", outcome=FAILED))
    unknown = plugin.fails("before", question("Gaet", input={}))

    assert error["name"] == "HandlerMissing"
    assert error["message"].startswith(
        "Gate has no handler for toolCall.after. Write serve({"
    )
    assert "there are handlers for: Seen, Gate" in unknown["message"]


def test_what_is_printed_never_reaches_the_channel(plugin: Driver) -> None:
    assert plugin.ask("before", question("Prints", input={})) == {"action": "proceed"}
    assert plugin.strays == []
    assert "forged" in plugin.stderr


# --- several questions ------------------------------------------------------------------


def test_a_handler_that_waits_does_not_hold_up_the_next_question(plugin: Driver) -> None:
    slow = plugin.start("before", question("Slow", input={}, component={"seconds": 0.5}))
    quick = plugin.start("before", question("Gate", input={}))

    assert plugin.receive()["id"] == quick
    assert plugin.receive()["id"] == slow


def test_many_questions_in_one_write_are_all_answered(plugin: Driver) -> None:
    ids = list(range(1000, 1500))
    asked = question("Seen", input={"n": "x" * 100})

    plugin.send(*({"id": n, "method": "before", "params": asked} for n in ids))

    assert [plugin.receive()["id"] for _ in ids] == ids


def test_frames_may_be_cut_anywhere_and_be_megabytes_long(plugin: Driver) -> None:
    asked = question("Seen", "node", input={"text": "ä" * 3_000_000})
    call = plugin.start("before", asked)
    plugin.write(b'\n\n{"id": "b", "method": "bef')
    plugin.write(
        b'ore", "params": {"seam": "toolCall", "componentType": "Gate", "input": {}}}\n'
    )

    assert len(plugin.answer(call)["result"]["value"]["input"]["text"]) == 3_000_000
    assert plugin.receive() == {"id": "b", "result": {"action": "proceed"}}


def test_a_last_frame_without_a_newline_counts(plugin: Driver) -> None:
    plugin.write(b'{"id": 9, "method": "before", "params": {"seam": "toolCall", ')
    plugin.write(b'"componentType": "Gate", "input": {}}}')

    assert plugin.close() == 0
    assert plugin.receive() == {"id": 9, "result": {"action": "proceed"}}


def test_a_line_that_is_no_frame_is_told_on_stderr_and_skipped(plugin: Driver) -> None:
    plugin.write(b"{nonsense\n[]\n5\n")

    assert plugin.ask("before", question("Gate", input={})) == {"action": "proceed"}
    assert "{nonsense" in plugin.stderr


def test_a_verb_that_does_not_exist_is_an_error(plugin: Driver) -> None:
    assert "there is no verb 'fly'" in plugin.fails("fly")["message"]
    assert "there is no verb" in plugin.fails("toString")["message"]


# --- consult ----------------------------------------------------------------------------


def test_a_consult_asks_in_order_until_one_settles(plugin: Driver) -> None:
    asked = consult("toolCall", "before", "Redactor", "Gate", "Seen", input={"cmd": "rm"})

    assert plugin.ask("consult", asked) == {
        "verdicts": [
            {
                "componentType": "Redactor",
                "verdict": {"action": "modify", "input": {"cmd": "rm", "secret": "***"}},
            },
            {
                "componentType": "Gate",
                "verdict": {"action": "reject", "reason": "destructive command"},
            },
        ]
    }


def test_a_consult_shows_the_next_one_what_was_modified(plugin: Driver) -> None:
    asked = consult("toolCall", "before", "Redactor", ("Seen", {"k": 1}), input={"a": 1})

    seen = plugin.ask("consult", asked)["verdicts"][1]["verdict"]["value"]

    assert seen["input"] == {"a": 1, "secret": "***"}
    assert seen["component"] == {"k": 1}
    assert seen["where"] == ["toolCall", "before"]


def test_a_modify_of_a_request_is_an_edit_and_of_arguments_a_replacement(
    plugin: Driver,
) -> None:
    request = {"model": "large", "messages": []}

    of_model = consult("modelCall", "before", "Edit", "SeenModel", input=request)
    of_tool = consult("toolCall", "before", "Edit", "Seen", input=request)

    def shown_to_the_second(asked: dict[str, Any]) -> Any:
        return plugin.ask("consult", asked)["verdicts"][1]["verdict"]["value"]["input"]

    assert shown_to_the_second(of_model) == {"model": "small", "messages": []}
    assert shown_to_the_second(of_tool) == {"model": "small"}


def test_an_edit_of_a_request_is_taken_as_heddle_takes_it(plugin: Driver) -> None:
    said = {"role": "user", "content": "hi"}
    edits = {
        "model": "small",
        "x": 1,
        "tools": [],
        "messages": [{**said, "extra": 1, "tool_calls": []}],
    }
    edit = ("EditAs", {"input": edits})
    request = {"model": "m", "messages": []}
    asked = consult("modelCall", "before", edit, "SeenModel", input=request)

    seen = plugin.ask("consult", asked)["verdicts"][1]["verdict"]["value"]["input"]

    assert seen == {"model": "small", "messages": [said]}


@pytest.mark.parametrize(
    "edits",
    [
        {"messages": [{"role": "user"}]},
        {"messages": None},
        {"messages": {}},
        {"temperature": None},
        {"messages": [5]},
    ],
)
def test_a_consult_ends_at_an_edit_that_heddle_does_not_take(
    plugin: Driver, edits: dict[str, Any]
) -> None:
    request = {"model": "m", "messages": []}
    edit = ("EditAs", {"input": edits})
    asked = consult("modelCall", "before", edit, "SeenModel", input=request)

    assert len(plugin.ask("consult", asked)["verdicts"]) == 1


def test_what_a_handler_does_to_its_copy_changes_nothing_for_the_next(
    plugin: Driver,
) -> None:
    asked = consult("toolCall", "before", "Vandal", "Vandal", "Seen", input={"cmd": "ls"})

    seen = plugin.ask("consult", asked)["verdicts"][2]["verdict"]["value"]

    assert (seen["input"], seen["component"]) == ({"cmd": "ls"}, {})


def test_a_consult_after_passes_the_outcome_on(plugin: Driver) -> None:
    asked = consult("toolCall", "after", "Tells", "Seen", input={"a": 1}, outcome=FAILED)
    call = plugin.start("consult", asked)

    frames = [plugin.receive() for _ in range(3)]

    assert [frame.get("method") for frame in frames] == ["emitEvent", "log", None]
    assert {frame["params"]["componentType"] for frame in frames[:2]} == {"Tells"}
    (passed, seen) = frames[2]["result"]["verdicts"]
    assert (frames[2]["id"], passed["verdict"]) == (call, {"action": "pass"})
    assert seen["verdict"]["value"]["error"] == ["ModelError", "429", 429, None]


@pytest.mark.parametrize("bad", ["Throws", "Nothing", "Circular", "Nowhere"])
def test_a_consult_ends_at_a_handler_that_fails(plugin: Driver, bad: str) -> None:
    asked = consult("toolCall", "before", "Redactor", bad, "Gate", input={})

    first, second = plugin.ask("consult", asked)["verdicts"]

    assert first["componentType"] == "Redactor"
    assert (second["componentType"], set(second["error"])) == (bad, {"name", "message"})


@pytest.mark.parametrize(
    ("seam", "bad"), [("toolCall", "Unknown"), ("toolCall", "OtherHalf"), ("node", "Edit")]
)
def test_a_consult_ends_at_a_verdict_that_does_not_count_here(
    plugin: Driver, seam: str, bad: str
) -> None:
    plugin.greet()
    asked = consult(seam, "before", bad, "Seen", input={})

    assert len(plugin.ask("consult", asked)["verdicts"]) == 1


def test_a_consult_waits_for_a_handler_in_the_middle(plugin: Driver) -> None:
    middle = ("Slow", {"seconds": 0.01})
    asked = consult("toolCall", "before", "Redactor", middle, "Gate", input={"cmd": "rm"})

    verdicts = plugin.ask("consult", asked)["verdicts"]

    assert [each["verdict"]["action"] for each in verdicts] == [
        "modify",
        "proceed",
        "reject",
    ]


def test_the_javascript_runtime_knows_the_fields_of_a_request() -> None:
    (listed,) = re.findall(r"const REQUEST = \[(.*?)\]", RUNTIME.read_text(), re.DOTALL)

    assert tuple(re.findall(r"'(\w+)'", listed)) == ModelRequest.__struct_encode_fields__


# --- reverse calls ----------------------------------------------------------------------


def test_a_tool_is_run_inside_the_call_and_awaited(plugin: Driver) -> None:
    call = plugin.start("before", question("Asks", input={"key": "k"}))

    asked = plugin.receive()
    plugin.send({"id": asked["id"], "result": {"answer": 42}})

    assert asked["method"] == "runTool"
    assert asked["params"] == {
        "call": call,
        "componentType": "Asks",
        "name": "lookup",
        "input": {"key": "k"},
    }
    assert plugin.answer(call)["result"]["value"] == {"found": {"answer": 42}}


def test_a_refused_reverse_call_is_an_error_that_can_be_caught(plugin: Driver) -> None:
    call = plugin.start("before", question("Asks", input={}))

    asked = plugin.receive()
    plugin.send(
        {"id": asked["id"], "error": {"name": "ToolError", "message": "no such tool"}}
    )

    assert plugin.answer(call)["result"]["reason"] == "ToolError: no such tool"


def test_a_model_is_asked_with_the_request_as_it_was_given(plugin: Driver) -> None:
    call = plugin.start("before", question("AsksModel", input={}))

    asked = plugin.receive()
    plugin.send({"id": asked["id"], "result": {"content": "yes", "finish_reason": "stop"}})

    assert asked["method"] == "callModel"
    assert asked["params"]["messages"] == [{"role": "user", "content": "hi"}]
    assert plugin.answer(call)["result"]["value"]["content"] == "yes"


def test_events_and_logs_do_not_wait_and_a_refusal_goes_to_stderr(plugin: Driver) -> None:
    call = plugin.start("after", question("Tells", input={}, outcome=FAILED))

    event, log, answer = (plugin.receive() for _ in range(3))
    plugin.send({"id": event["id"], "error": {"name": "Refused", "message": "not granted"}})
    plugin.send({"id": log["id"], "result": {}})

    assert event["params"] == {
        "call": call,
        "componentType": "Tells",
        "name": "seen",
        "data": {"tool": "shell"},
    }
    assert (log["params"]["level"], log["params"]["message"]) == ("warn", "careful")
    assert answer == {"id": call, "result": {"action": "pass"}}
    assert plugin.ask("before", question("Gate", input={})) == {"action": "proceed"}
    assert "heddle refused a call: not granted" in plugin.stderr


def test_heddle_is_told_where_one_frame_for_several_stands_when_that_took_a_while(
    plugin: Driver,
) -> None:
    slow = ("Slow", {"seconds": 0.2})
    asked = consult("toolCall", "before", "Gate", slow, "Gate", "Gate", input={})

    call = plugin.start("consult", asked)

    assert plugin.receive() == {"id": call, "partial": {"at": "Gate"}}
    assert len(plugin.answer(call)["result"]["verdicts"]) == 4


# --- cancelling -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["before", "consult"])
def test_a_cancelled_call_stops_and_only_the_cancel_is_answered(
    plugin: Driver, method: str
) -> None:
    asked = (
        question("Waits", input={})
        if method == "before"
        else consult("toolCall", "before", "Gate", "Waits", "Gate", input={})
    )
    call = plugin.start(method, asked)
    assert plugin.receive()["method"] == "log"

    stopped = plugin.ask("cancel", {"call": call})

    assert stopped == ({} if method == "before" else {"at": "Waits"})
    assert plugin.ask("before", question("Gate", input={})) == {"action": "proceed"}


def test_a_call_that_waits_for_heddle_is_cancelled_as_well(plugin: Driver) -> None:
    call = plugin.start("before", question("Asks", input={}))
    asked = plugin.receive()

    assert plugin.ask("cancel", {"call": call}) == {}
    plugin.send({"id": asked["id"], "result": {}})
    assert plugin.ask("before", question("Gate", input={})) == {"action": "proceed"}


@pytest.mark.parametrize("call", [12345, "x", None])
def test_cancelling_what_is_not_there_is_answered(plugin: Driver, call: object) -> None:
    assert plugin.ask("cancel", {"call": call}) == {}


# --- the other kinds --------------------------------------------------------------------


def test_a_node_is_executed(plugin: Driver) -> None:
    asked = {"componentType": "Upper", "node": {"suffix": "!"}, "input": {"text": "hi"}}

    assert plugin.ask("execute", asked) == {"output": {"text": "HI!"}, "branch": "done"}


def test_a_node_finds_its_workspace_or_hears_that_there_is_none(plugin: Driver) -> None:
    asked = {"componentType": "Upper", "node": {}, "input": {"where": True}}

    given = plugin.ask("execute", {**asked, "workspace": "/tmp/w"})
    confined = plugin.fails("execute", {**asked, "workspaceUnavailable": "confined"})
    absent = plugin.fails("execute", asked)

    assert given == {"output": {"folder": "/tmp/w"}}
    assert confined["message"] == "there is no workspace here: confined"
    assert absent["name"] == "WorkspaceUnavailable"


def test_a_transform_changes_messages(plugin: Driver) -> None:
    asked = {
        "componentType": "Prefix",
        "component": {},
        "phase": "pre",
        "messages": [{"role": "user", "content": "hi"}],
    }

    assert plugin.ask("apply", asked) == {
        "action": "modify",
        "messages": [{"role": "user", "content": "[pre] hi"}],
    }


def test_a_provider_answers_whole_or_in_pieces(plugin: Driver) -> None:
    request = {"messages": [{"role": "user", "content": "ab"}]}
    asked = {"componentType": "Parrot", "config": {"suffix": "c"}, "request": request}

    whole = plugin.ask("chat", {**asked, "stream": False})
    call = plugin.start("chat", {**asked, "stream": True})

    assert whole == {"content": "abc", "finish_reason": "stop"}
    assert [plugin.receive() for _ in range(4)] == [
        *({"id": call, "partial": {"content": letter}} for letter in "abc"),
        {"id": call, "result": {"content": "", "finish_reason": "stop"}},
    ]


def test_an_encoder_renders_events_and_an_end(plugin: Driver) -> None:
    asked = {"componentType": "Lines", "runId": "r1"}

    event = {**asked, "event": {"type": "flow_start"}}
    assert plugin.ask("encode", event) == [{"event": "flow_start", "data": "r1"}]
    assert plugin.ask("finishEncode", asked) == [{"data": "bye"}]
    assert plugin.ask("finishEncode", {**asked, "componentType": "Silent"}) == []
    wrong = plugin.fails("encode", {**event, "componentType": "Wordy"})
    assert wrong["message"].startswith("Wordy encode returned ")


def test_a_store_keeps_and_finds(plugin: Driver) -> None:
    asked = {"componentType": "Box", "config": {"k": 1}}

    assert plugin.ask("sessionRead", {**asked, "id": "a"}) == {
        "id": "a",
        "config": {"k": 1},
    }
    assert plugin.ask("sessionRead", {**asked, "id": "none"}) is None
    wrote = plugin.ask("sessionCheckpointWrite", {**asked, "id": "a", "checkpoint": None})
    assert wrote == {"wrote": None}
    assert "no handler 'delete'" in plugin.fails("sessionDelete", asked)["message"]


def test_tools_are_listed_and_called(plugin: Driver) -> None:
    assert plugin.ask("listTools") == {"tools": [{"name": "add"}]}

    asked = {"componentType": "T", "tool": "add", "input": {"a": 1, "b": 2}}
    assert plugin.ask("callTool", asked) == {"output": {"sum": 3}}
    assert "no 'output'" in plugin.fails("callTool", {**asked, "tool": "broken"})["message"]
    assert plugin.fails("callTool", {**asked, "tool": "none"})["name"] == "HandlerMissing"


# --- the end ----------------------------------------------------------------------------


def test_shutdown_is_answered_when_the_plugin_has_said_goodbye(plugin: Driver) -> None:
    assert plugin.ask("shutdown") == {}
    assert "goodbye" in plugin.stderr
    assert plugin.close() == 0
    assert plugin.stderr.count("goodbye") == 1


def test_a_plugin_whose_host_is_gone_says_goodbye_and_ends(plugin: Driver) -> None:
    plugin.ask("before", question("Slow", input={}, component={"seconds": 0}))

    assert plugin.close() == 0
    assert "goodbye" in plugin.stderr


def test_a_call_that_would_never_end_does_not_keep_a_plugin(plugin: Driver) -> None:
    plugin.start("before", question("Slow", input={}, component={"seconds": 3600}))
    plugin.ask("before", question("Gate", input={}))
    assert plugin.ask("shutdown") == {}

    assert plugin.close() == 0


def test_a_plugin_whose_reader_is_gone_ends(plugin: Driver) -> None:
    assert plugin.process.stdout is not None
    plugin.process.stdout.close()
    plugin.start("before", question("Gate", input={}))

    assert plugin.process.wait(60) == 0
