"""What is the Python runtime's own: verdict helpers, classes, and Python's mishaps."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import heddle.plugin
from heddle.plugin import fail, modify, pass_, proceed, reject, replace, retry
from plugins_host.seams import ACTIONS, Action, Half, Seam
from plugins_host.verdicts import read_verdict
from tests.plugins_host.driver import Driver, consult, question

Start = Callable[[str], Driver]

HELPERS = {
    Action.PROCEED: proceed(),
    Action.MODIFY: modify({"a": 1}),
    Action.REPLACE: replace({"a": 1}),
    Action.REJECT: reject("no"),
    Action.PASS: pass_(),
    Action.RETRY: retry(delay_ms=5),
    Action.FAIL: fail("no"),
}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Write a plugin and greet it."""
    with ExitStack() as stack:

        def started(text: str) -> Driver:
            path = tmp_path / "plugin.py"
            path.write_text("from heddle.plugin import *\n" + text)
            driver = stack.enter_context(Driver([sys.executable, str(path)], tmp_path))
            driver.greet()
            return driver

        yield started


def asked(component_type: str = "P", **keys: Any) -> dict[str, Any]:
    return question(component_type, **{"input": {}, **keys})


def serving(body: str, *, define: str = "def") -> str:
    """A plugin whose P answers toolCall.before with ``body``."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{define} before(event, ctx):\n{lines}\n{SERVE}"


SERVE = "serve({'P': {'toolCall': {'before': before}}})"


# --- the words --------------------------------------------------------------------------


def test_there_is_a_helper_for_every_verdict() -> None:
    assert set(HELPERS) == set(ACTIONS)
    for action, verdict in HELPERS.items():
        fields = {"action", *ACTIONS[action].needs, *ACTIONS[action].may}
        assert set(verdict) == fields
        assert verdict["action"] == action


@pytest.mark.parametrize("action", HELPERS)
def test_every_helper_is_a_verdict_where_it_is_admitted(action: Action) -> None:
    half = Half.BEFORE if action in "proceed modify replace reject" else Half.AFTER

    read_verdict(HELPERS[action], Seam.MODEL_CALL, half, where="test")


def test_the_public_names_are_there() -> None:
    assert all(hasattr(heddle.plugin, name) for name in heddle.plugin.__all__)


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = (
        "asyncio",
        "trio",
        "jsonschema",
        "ssl",
        "yaml",
        "plugins_host.manifests.manifest",
        "actors",
    )
    script = f"import sys, heddle.plugin; print([m for m in {heavy} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert done.stdout.strip() == b"[]"


# --- handlers ---------------------------------------------------------------------------


def test_a_class_is_a_component(start: Start) -> None:
    plugin = start(
        "class Gate:\n"
        "    def __init__(self):\n"
        "        self.asked = 0\n"
        "    def before_tool_call(self, event, ctx):\n"
        "        self.asked += 1\n"
        "        return reject(f'number {self.asked}')\n"
        "    class nodeError:\n"
        "        async def after(self, event, ctx):\n"
        "            return retry()\n"
        "serve({'P': Gate})"
    )

    reasons = [plugin.ask("before", asked())["reason"] for _ in range(2)]
    failed = {"ok": False, "error": {"name": "E", "message": "m"}}
    again = plugin.ask("after", question("P", "nodeError", outcome=failed))

    assert reasons == ["number 1", "number 2"]
    assert again == {"action": "retry", "delayMs": 0}


def test_seams_may_be_spelt_as_python_spells(start: Start) -> None:
    plugin = start("serve({'P': {'tool_call': {'before': lambda event, ctx: proceed()}}})")

    assert plugin.ask("before", asked()) == {"action": "proceed"}


def test_an_object_whose_call_is_async_is_awaited(start: Start) -> None:
    plugin = start(
        "import functools\n"
        "class Handler:\n"
        "    async def __call__(self, event, ctx):\n"
        "        return proceed()\n"
        "async def before(extra, event, ctx):\n"
        "    return proceed()\n"
        "serve({'P': {'toolCall': {'before': Handler()}},"
        " 'Q': {'toolCall': {'before': functools.partial(before, 1)}}})"
    )

    assert plugin.ask("before", asked("P")) == {"action": "proceed"}
    assert plugin.ask("before", asked("Q")) == {"action": "proceed"}


def test_a_plugin_that_serves_no_dict_ends_saying_so(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("from heddle.plugin import serve\nserve([])")

    done = subprocess.run(
        [sys.executable, path], capture_output=True, input=b"", check=False
    )

    assert done.returncode == 1
    assert b"handlers are a dict of component types, not list" in done.stderr


# --- mishaps ----------------------------------------------------------------------------


@pytest.mark.parametrize("define", ["def", "async def"])
@pytest.mark.parametrize(
    ("body", "name", "says"),
    [
        ("return None", "AnswerInvalid", "P toolCall.before returned None"),
        ("pass", "AnswerInvalid", "P toolCall.before returned None"),
        ("return 'proceed'", "AnswerInvalid", "returned str 'proceed'"),
        ("return [proceed()]", "AnswerInvalid", "returned list"),
        ("return later()", "AnswerInvalid", "returned a coroutine; write the handler with"),
        ("return Verdict()", "AnswerInvalid", "returned Verdict"),
        ("return Shy()", "AnswerInvalid", "returned Shy (no repr)"),
        ("return replace({'x': object()})", "TypeError", "object is unsupported"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "raised KeyboardInterrupt"),
        ("import sys; sys.exit(0)", "SystemExit", "called sys.exit(0)"),
        ("raise Exception", "Exception", "Exception"),
        ("raise ValueError('\\udcff')", "ValueError", "?"),
        ("1 / 0", "ZeroDivisionError", "division by zero"),
        ("raise Mute", "Mute", "cannot be read"),
        ("raise BaseExceptionGroup('g', [KeyboardInterrupt()])", "BaseExceptionGroup", "g"),
    ],
)
def test_only_a_verdict_is_a_verdict(
    start: Start, define: str, body: str, name: str, says: str
) -> None:
    plugin = start(
        "import dataclasses\n"
        "@dataclasses.dataclass\n"
        "class Verdict:\n"
        "    action: str = 'proceed'\n"
        "class Shy:\n"
        "    def __repr__(self):\n"
        "        raise RuntimeError\n"
        "class Mute(Exception):\n"
        "    def __str__(self):\n"
        "        raise RuntimeError\n"
        "async def later():\n"
        "    return proceed()\n" + serving(body, define=define)
    )

    alone = plugin.fails("before", asked())
    (within,) = plugin.ask("consult", consult("toolCall", "before", "P", input={}))[
        "verdicts"
    ]

    assert alone["name"] == name
    assert says in alone["message"]
    assert within == {"componentType": "P", "error": alone}
    assert "never awaited" not in plugin.stderr


def test_printing_in_every_way_leaves_the_channel_alone(start: Start) -> None:
    plugin = start(
        "import logging, os, subprocess, sys\n"
        "print('early')\n"
        "logging.basicConfig(stream=sys.stdout, level='INFO')\n"
        + serving(
            "print('printed')\n"
            "os.write(1, b'written\\n')\n"
            "logging.info('logged')\n"
            "subprocess.run(['echo', 'echoed'])\n"
            "sys.__stdout__.write('{\"id\": 1}\\n')\n"
            "return proceed()"
        )
    )

    assert plugin.ask("before", asked()) == {"action": "proceed"}
    assert plugin.strays == []
    for each in ("early", "printed", "written", "logged", "echoed", '{"id": 1}'):
        assert each in plugin.stderr


def test_nobody_else_can_read_the_questions(start: Start) -> None:
    plugin = start(
        "import subprocess, sys\n"
        + serving(
            "eaten = subprocess.run(['cat'], capture_output=True).stdout\n"
            "return reject(f'{eaten} {sys.stdin.read()!r}')"
        )
    )

    first = plugin.start("before", asked())
    second = plugin.start("before", asked())

    assert plugin.answer(first)["result"]["reason"] == "b'' ''"
    assert plugin.answer(second)["result"]["reason"] == "b'' ''"


def test_a_plain_handler_cannot_await_and_hears_what_to_write(start: Start) -> None:
    plugin = start(serving("ctx.run_tool('x')\nreturn proceed()"))

    message = plugin.fails("before", asked())["message"]

    assert message == (
        "ctx.run_tool is awaited, which a plain function cannot do: write the handler with "
        "'async def'"
    )


# --- one loop, many questions -----------------------------------------------------------


@pytest.mark.parametrize("verb", ["before", "consult"])
def test_an_answer_does_not_wait_for_a_plain_handler_that_comes_after_it(
    start: Start, tmp_path: Path, verb: str
) -> None:
    gate = tmp_path / "gate"
    plugin = start(
        "import os, time\n"
        + serving(
            f"while event.input and not os.path.exists({str(gate)!r}):\n"
            "    time.sleep(0.005)\n"
            "return proceed()"
        )
    )

    def params(given: dict[str, Any]) -> dict[str, Any]:
        if verb == "before":
            return asked(input=given)
        return consult("toolCall", "before", "P", "P", input=given)

    quick = {"id": "quick", "method": verb, "params": params({})}
    slow = {"id": "slow", "method": verb, "params": params({"wait": True})}
    for _ in range(3):
        plugin.send(*[quick] * 10, slow)
        before = [plugin.receive()["id"] for _ in range(10)]
        gate.touch()

        assert before == ["quick"] * 10
        assert plugin.receive()["id"] == "slow"
        gate.unlink()


def test_a_plain_handler_at_work_is_heard_while_it_works(start: Start) -> None:
    plugin = start(
        serving(
            "ctx.log('info', 'still there')\n"
            "while not ctx.signal.cancelled:\n"
            "    pass\n"
            "return proceed()"
        )
    )
    call = plugin.start("before", asked())

    assert plugin.receive()["params"]["message"] == "still there"
    assert plugin.ask("cancel", {"call": call}) == {}


@pytest.mark.parametrize("verdict", ["proceed()", "modify({'a': 1})"])
def test_nobody_is_asked_after_a_cancellation_in_one_frame_for_several(
    start: Start, verdict: str
) -> None:
    plugin = start(
        "def waits(event, ctx):\n"
        "    ctx.log('info', 'waits')\n"
        "    while not ctx.signal.cancelled:\n"
        "        pass\n"
        f"    return {verdict}\n"
        "def tells(event, ctx):\n"
        "    ctx.log('info', 'asked')\n"
        "    return proceed()\n"
        "at = lambda before: {'toolCall': {'before': before}}\n"
        "serve({'W': at(waits), 'T': at(tells)})"
    )
    call = plugin.start("consult", consult("toolCall", "before", "W", "T", "T", input={}))
    assert plugin.receive()["params"]["message"] == "waits"

    assert plugin.ask("cancel", {"call": call}) == {"at": "W"}


def test_a_plain_handler_sees_its_own_cancellation_and_no_other(start: Start) -> None:
    plugin = start(
        "import time\n"
        + serving(
            "ctx.log('info', 'working')\n"
            "until = time.monotonic() + event.input['seconds']\n"
            "while time.monotonic() < until:\n"
            "    if ctx.signal.cancelled:\n"
            "        return reject('stopped')\n"
            "return proceed()"
        )
    )
    call = plugin.start("before", asked(input={"seconds": 0.3}))
    assert plugin.receive()["method"] == "log"

    other = plugin.start("before", asked(input={"seconds": 0}))
    ghost = plugin.start("cancel", {"call": "ghost"})

    assert plugin.answer(call)["result"] == {"action": "proceed"}
    assert plugin.receive()["method"] == "log"
    assert plugin.answer(other)["result"] == {"action": "proceed"}
    assert plugin.answer(ghost)["result"] == {}


def test_an_async_handler_that_swallows_its_cancellation_is_not_answered(
    start: Start,
) -> None:
    plugin = start(
        "import asyncio\n"
        + serving(
            "ctx.log('info', 'working')\n"
            "try:\n"
            "    await asyncio.sleep(3600)\n"
            "except asyncio.CancelledError:\n"
            "    ctx.log('info', str(ctx.signal.cancelled))\n"
            "return proceed()",
            define="async def",
        )
    )
    call = plugin.start("before", asked())
    assert plugin.receive()["method"] == "log"

    cancel = plugin.start("cancel", {"call": call})

    assert plugin.receive()["params"]["message"] == "True"
    assert plugin.receive() == {"id": cancel, "result": {}}


def test_plain_and_async_handlers_share_a_consult(start: Start) -> None:
    plugin = start(
        "import asyncio\n"
        "async def slow(event, ctx):\n"
        "    await asyncio.sleep(0)\n"
        "    return modify({'n': event.input['n'] + 1})\n"
        "def quick(event, ctx):\n"
        "    return modify({'n': event.input['n'] * 10})\n"
        "serve({'S': {'toolCall': {'before': slow}}, 'Q': {'toolCall': {'before': quick}}})"
    )

    for _ in range(2):
        asking = consult("toolCall", "before", "Q", "S", "Q", "S", input={"n": 1})
        last = plugin.ask("consult", asking)["verdicts"][-1]
        assert last["verdict"]["input"] == {"n": 111}


def test_a_plain_handler_after_an_async_one_is_told_what_it_cannot_await(
    start: Start,
) -> None:
    plugin = start(
        "async def slow(event, ctx):\n"
        "    return proceed()\n"
        "def quick(event, ctx):\n"
        "    ctx.run_tool('x')\n"
        "serve({'S': {'toolCall': {'before': slow}}, 'Q': {'toolCall': {'before': quick}}})"
    )

    said = plugin.ask("consult", consult("toolCall", "before", "S", "Q", input={}))

    message = said["verdicts"][-1]["error"]["message"]
    assert message.startswith("ctx.run_tool is awaited, which a plain function cannot do")


def test_questions_from_a_file_are_answered_by_async_handlers_too(
    tmp_path: Path, start: Start
) -> None:
    plugin = start(serving("return proceed()", define="async def"))
    plugin.close()
    questions = tmp_path / "questions"
    frame = {"id": 1, "method": "before", "params": asked()}
    questions.write_text(json.dumps(frame))

    with questions.open() as stdin:
        done = subprocess.run(
            [sys.executable, tmp_path / "plugin.py"],
            stdin=stdin,
            capture_output=True,
            check=True,
        )

    assert done.stdout == b'{"id":1,"result":{"action":"proceed"}}\n'


def test_a_question_that_is_cancelled_before_it_began_is_not_begun(start: Start) -> None:
    plugin = start(serving("print('begun')\nreturn proceed()", define="async def"))

    plugin.send(
        {"id": 7, "method": "before", "params": asked()},
        {"id": 8, "method": "cancel", "params": {"call": 7}},
    )

    assert plugin.receive() == {"id": 8, "result": {}}
    assert plugin.ask("before", asked()) == {"action": "proceed"}
    assert plugin.stderr.count("begun") == 1


def test_a_reverse_call_that_is_answered_twice_counts_once(start: Start) -> None:
    plugin = start(serving("return replace(await ctx.run_tool('t'))", define="async def"))
    call = plugin.start("before", asked())
    reverse = plugin.receive()["id"]

    plugin.send({"id": reverse, "result": {"n": 1}}, {"id": reverse, "error": "late"})

    assert plugin.answer(call)["result"]["value"] == {"n": 1}


def test_a_refusal_may_be_a_bare_text(start: Start) -> None:
    plugin = start(
        serving(
            "try:\n"
            "    await ctx.run_tool('t')\n"
            "except HostError as error:\n"
            "    return reject(f'{error.name}: {error}')",
            define="async def",
        )
    )
    call = plugin.start("before", asked())

    plugin.send({"id": plugin.receive()["id"], "error": "no"})

    assert plugin.answer(call)["result"]["reason"] == "Error: no"


def test_an_event_can_be_printed(start: Start) -> None:
    plugin = start(
        "def after(event, ctx):\n"
        "    return replace({'text': repr(event)})\n"
        "def before(event, ctx):\n"
        "    return replace({'text': repr(event)})\n"
        "serve({'P': {'toolCall': {'before': before, 'after': after}}})"
    )

    before = plugin.ask("before", asked(input={"a": 1}))["value"]["text"]
    ran = plugin.ask("after", asked(outcome={"ok": True, "value": 5}))["value"]["text"]

    assert before.startswith("Before(subject=Subject(")
    assert before.endswith("input={'a': 1})")
    assert "outcome=Outcome(ok=True, value=5, error=None)" in ran


def test_tools_that_nobody_lists_are_missed(start: Start) -> None:
    plugin = start("serve({})")

    assert "Write serve(handlers, list_tools=" in plugin.fails("listTools")["message"]


def test_ctrl_c_ends_a_plugin_that_waits(start: Start) -> None:
    # Who runs the tests in the background of a shell has SIGINT ignored, plugins included.
    heed = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    plugin = start(f"{heed}serve({{}})")

    plugin.process.send_signal(signal.SIGINT)

    assert plugin.process.wait(60) == 130


def test_whoever_runs_a_plugin_in_a_terminal_is_told_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("from heddle.plugin import serve\nserve({})")
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, path],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        process.kill()
    os.close(keyboard)
    os.close(terminal)

    assert b"this is a heddle plugin, and waits for questions on stdin" in told


def test_an_async_shutdown_is_awaited_also_when_nobody_asked_for_it(start: Start) -> None:
    plugin = start(
        "import asyncio\n"
        "async def shutdown():\n"
        "    await asyncio.sleep(0.01)\n"
        "    print('done')\n"
        "serve({}, shutdown=shutdown)"
    )

    assert plugin.close() == 0
    assert "done" in plugin.stderr


def test_an_async_shutdown_is_awaited(start: Start) -> None:
    plugin = start(
        "import asyncio\n"
        "async def shutdown():\n"
        "    await asyncio.sleep(0.01)\n"
        "    print('done')\n"
        "serve({}, shutdown=shutdown)"
    )

    assert plugin.ask("shutdown") == {}
    assert "done" in plugin.stderr
    assert plugin.close() == 0


UNCANCELLABLE = """
import asyncio

async def before(event, ctx):
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
"""
THREADED = """
import threading, time

def before(event, ctx):
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return proceed()
"""


@pytest.mark.parametrize("body", [UNCANCELLABLE, THREADED], ids=["coroutine", "thread"])
def test_what_will_not_end_does_not_keep_a_plugin_whose_host_is_gone(
    start: Start, body: str
) -> None:
    plugin = start(f"{body}\n{SERVE}")
    plugin.start("before", asked())

    assert plugin.close() == 0


def test_a_plugin_whose_host_was_killed_ends_though_nobody_reads_what_it_says(
    tmp_path: Path,
) -> None:
    said = UNCANCELLABLE.replace("pass", "print('not now', file=sys.stderr, end='')")
    program = tmp_path / "plugin.py"
    program.write_text(f"import sys\nfrom heddle.plugin import *\n{said}\n{SERVE}")
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        question = {"id": 1, "method": "before", "params": asked()}
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.close()
        process.stdout.close()
        process.stderr.close()
        assert process.wait(60) == 0


def test_a_shutdown_that_fails_is_told_and_ends_all_the_same(start: Start) -> None:
    plugin = start("serve({}, shutdown=lambda: 1 / 0)")

    assert plugin.ask("shutdown") == {}
    assert "ZeroDivisionError" in plugin.stderr


def test_a_handler_that_fails_while_nobody_reads_stderr_is_answered(start: Start) -> None:
    plugin = start("import os\n" + serving("os.close(2)\n1 / 0"))

    assert plugin.fails("before", asked())["name"] == "ZeroDivisionError"
    assert plugin.fails("before", asked())["message"]


def test_ids_may_be_numbers_of_any_kind_or_text(start: Start) -> None:
    plugin = start(serving("return proceed()"))

    plugin.send(
        *({"id": each, "method": "before", "params": asked()} for each in (1.5, "é"))
    )

    assert [plugin.receive()["id"] for _ in range(2)] == [1.5, "é"]


def test_a_question_that_cannot_be_read_is_refused_under_its_id(start: Start) -> None:
    plugin = start(serving("return proceed()"))

    error = plugin.fails("before", asked(subject=[]))

    assert error["name"] == "ProtocolError"
    assert "$.params.subject" in error["message"]
