"""What is the JavaScript runtime's own: the global ``serve``, and JavaScript's mishaps."""

import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from plugins_host.loading.entry_point import RUNTIME
from tests.plugins_host.driver import Driver, consult, question

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node on PATH")

Start = Callable[..., Driver]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Write a plugin and greet it."""
    with ExitStack() as stack:

        def started(text: str, name: str = "plugin.mjs") -> Driver:
            path = tmp_path / name
            path.write_text(text)
            argv = [str(NODE), "--import", RUNTIME.as_uri(), str(path)]
            driver = stack.enter_context(Driver(argv, tmp_path))
            driver.greet()
            return driver

        yield started


def serving(handler: str) -> str:
    return f"serve({{ P: {{ toolCall: {{ before: {handler} }} }} }});"


def asked(**keys: Any) -> dict[str, Any]:
    return question("P", **{"input": {}, **keys})


def ended(tmp_path: Path, text: str) -> subprocess.CompletedProcess[bytes]:
    """Run a plugin that nobody asks anything."""
    path = tmp_path / "plugin.mjs"
    path.write_text(text)
    argv = [str(NODE), "--import", RUNTIME.as_uri(), str(path)]
    return subprocess.run(argv, input=b"", capture_output=True, check=False)


# --- serve ------------------------------------------------------------------------------


def test_serve_is_there_for_commonjs_as_well(start: Start) -> None:
    plugin = start(
        "const path = require('node:path');\n" + serving("() => ({ action: 'proceed' })"),
        "plugin.js",
    )

    assert plugin.ask("before", asked()) == {"action": "proceed"}


def test_nothing_is_written_beside_the_plugin(start: Start, tmp_path: Path) -> None:
    plugin = start(serving("() => ({ action: 'proceed' })"))
    plugin.ask("before", asked())

    names = {each.name for each in tmp_path.iterdir()}
    assert names == {"plugin.mjs", plugin.stderr_file.name}


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("", 0, b"the plugin ended without calling serve(handlers)"),
        ("serve();", 1, b"serve() takes an object of component types"),
        ("serve([]);", 1, b"write serve({ MyPolicy:"),
        ("serve({}); serve({});", 1, b"serve() was called twice"),
        ("syntax error", 1, b"SyntaxError"),
    ],
)
def test_a_plugin_that_does_not_serve_says_why(
    tmp_path: Path, text: str, status: int, says: bytes
) -> None:
    done = ended(tmp_path, text)

    assert done.returncode == status
    assert says in done.stderr
    assert done.stdout == b""


def test_handlers_may_be_objects_with_state(start: Start) -> None:
    plugin = start(
        "class Seam { count = 0;"
        " before() { return { action: 'reject', reason: `number ${++this.count}` }; } }\n"
        "serve({ P: { toolCall: new Seam() } });"
    )

    reasons = [plugin.ask("before", asked())["reason"] for _ in range(2)]

    assert reasons == ["number 1", "number 2"]


# --- mishaps ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["() => {{ {body} }}", "async () => {{ {body} }}"])
@pytest.mark.parametrize(
    ("body", "name", "says"),
    [
        ("", "AnswerInvalid", "P toolCall.before returned undefined"),
        ("return null;", "AnswerInvalid", "returned null"),
        ("return 'proceed';", "AnswerInvalid", "returned proceed"),
        ("return [{ action: 'proceed' }];", "AnswerInvalid", 'returned [{"action"'),
        ("return () => ({});", "AnswerInvalid", "returned () => ({})"),
        ("return { action: 'replace', value: 1n };", "TypeError", "BigInt"),
        ("throw 'text';", "Error", "a handler threw text"),
        ("throw undefined;", "Error", "a handler threw undefined"),
        ("throw { a: 1 };", "Error", 'a handler threw {"a":1}'),
        ("throw new RangeError('far');", "RangeError", "far"),
        ("throw new Error();", "Error", "Error"),
        (
            "throw { toString() { throw 1; }, get a() { throw 2; } };",
            "Error",
            "a handler threw object",
        ),
        (
            "throw new (class extends Error { get message() { throw 1; } })();",
            "Error",
            "a handler threw what cannot be told",
        ),
        ("return missing.thing;", "ReferenceError", "missing is not defined"),
    ],
)
def test_only_a_verdict_is_a_verdict(
    start: Start, form: str, body: str, name: str, says: str
) -> None:
    plugin = start(serving(form.format(body=body)))

    alone = plugin.fails("before", asked())
    (within,) = plugin.ask("consult", consult("toolCall", "before", "P", input={}))[
        "verdicts"
    ]

    assert alone["name"] == name
    assert says in alone["message"]
    assert within == {"componentType": "P", "error": alone}


def test_the_console_and_stdout_go_to_stderr(start: Start) -> None:
    plugin = start(
        "console.log('early');\n"
        + serving(
            "() => { console.info('told'); console.debug('deep'); console.table([1]);"
            " process.stdout.write('{\"id\": 1}\\n'); return { action: 'proceed' }; }"
        )
    )

    assert plugin.ask("before", asked()) == {"action": "proceed"}
    assert plugin.strays == []
    for each in ("early", "told", "deep", '{"id": 1}'):
        assert each in plugin.stderr


# --- cancelling and reverse calls -------------------------------------------------------


def test_stdin_is_empty_for_the_plugin(start: Start) -> None:
    plugin = start(
        "let read = ''; let over = false;"
        "process.stdin.on('data', (data) => (read += data)).on('end', () => (over = true));"
        + serving("() => ({ action: 'replace', value: { read, over } })")
    )

    assert plugin.ask("before", asked())["value"] == {"read": "", "over": True}


def test_answers_that_nobody_reads_yet_wait_in_order(start: Start) -> None:
    plugin = start(
        serving("({ input }) => ({ action: 'reject', reason: 'ä'.repeat(input.n) })")
    )
    lengths = [n % 7 * 10_000 + 1 for n in range(100)]
    sent = threading.Thread(
        target=plugin.send,
        args=[
            {"id": n, "method": "before", "params": asked(input={"n": n})} for n in lengths
        ],
    )
    sent.start()
    sent.join(timeout=60)

    answers = [plugin.receive() for _ in lengths]

    assert [each["id"] for each in answers] == lengths
    assert [len(each["result"]["reason"]) for each in answers] == lengths


def test_the_signal_is_an_abort_signal_that_other_functions_take(start: Start) -> None:
    plugin = start(
        "import { setTimeout } from 'node:timers/promises';\n"
        + serving(
            "async (event, { signal, log }) => { log('info', String(signal.aborted));"
            " await setTimeout(3600_000, null, { signal }); }"
        )
    )
    call = plugin.start("before", asked())
    assert plugin.receive()["params"]["message"] == "false"

    assert plugin.ask("cancel", {"call": call}) == {}
    assert "failed" not in plugin.stderr


def test_a_signal_first_looked_at_when_it_is_over_says_so(start: Start) -> None:
    plugin = start(
        serving(
            "async (event, ctx) => { ctx.log('info', 'asked'); await ctx.runTool('t', {})"
            ".catch(() => {}); ctx.log('info', String(ctx.signal.aborted)); }"
        )
    )
    call = plugin.start("before", asked())
    assert [plugin.receive()["method"] for _ in range(2)] == ["log", "runTool"]

    cancel = plugin.start("cancel", {"call": call})

    assert plugin.receive()["params"]["message"] == "true"
    assert plugin.receive() == {"id": cancel, "result": {}}


def test_what_is_open_when_a_call_is_cancelled_fails_and_nobody_else_is_asked(
    start: Start,
) -> None:
    plugin = start(
        """
        const waits = async (event, ctx) => {
          await ctx.runTool('t', {}).catch((error) => ctx.log('info', error.name));
          return { action: 'proceed' };
        };
        const tells = (event, ctx) => {
          ctx.log('info', 'asked');
          return { action: 'proceed' };
        };
        serve({ W: { toolCall: { before: waits } }, T: { toolCall: { before: tells } } });
        """
    )
    call = plugin.start("consult", consult("toolCall", "before", "W", "T", "T", input={}))
    reverse = plugin.receive()
    assert reverse["method"] == "runTool"

    cancel = plugin.start("cancel", {"call": call})

    assert plugin.receive()["params"]["message"] == "AbortError"
    assert plugin.receive() == {"id": cancel, "result": {"at": "W"}}
    plugin.send({"id": reverse["id"], "result": {}})
    assert plugin.ask("cancel", {"call": call}) == {}


# --- what a handler keeps and returns ---------------------------------------------------


def test_each_is_shown_copies_that_go_as_deep_as_the_data(start: Start) -> None:
    plugin = start(
        """
        const spoils = (event, ctx) => {
          event.subject.toolName = 'spoilt';
          event.input.deep.push('spoilt');
          event.outcome.value.deep.push('spoilt');
          ctx.component.deep = 'spoilt';
          return { action: 'pass' };
        };
        const sees = ({ subject, input, outcome }) => ({
          action: 'replace',
          value: { tool: subject.toolName, input, outcome },
        });
        const twice = ({ input, outcome }, ctx) => {
          input.deep.push('mine');
          return sees({ subject: {}, input, outcome });
        };
        const at = (after) => ({ toolCall: { after } });
        serve({ Spoils: at(spoils), Sees: at(sees), Own: at(twice) });
        """
    )
    shown: dict[str, Any] = {
        "input": {"deep": [1]},
        "outcome": {"ok": True, "value": {"deep": [2]}},
    }

    def last_of(*names: str) -> Any:
        asked = consult("toolCall", "after", *names, **shown)
        return plugin.ask("consult", asked)["verdicts"][-1]["verdict"]["value"]

    assert last_of("Spoils", "Spoils", "Sees") == {"tool": "shell", **shown}
    assert last_of("Spoils", "Own")["input"] == {"deep": [1, "mine"]}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"deep": {"list": [1]}},
        {"text": '{"a":1},"subject":{}'},
        {"text": '"}],"subject":{"nodeName":"no"},"input":{}}}'},
        {"subject": {}, "then": 1},
        {"first": 1, "subject": {"nodeName": "no"}},
    ],
)
def test_a_frame_is_read_alike_however_it_and_its_settings_are_written(
    start: Start, settings: dict[str, Any]
) -> None:
    plugin = start(
        """
        const before = ({ subject, input }, ctx) => {
          const seen = JSON.stringify({ subject, input, ctx, place: [ctx.seam, ctx.half] });
          ctx.component.mine = input.more = subject.nodeName = 'spoilt';
          return { action: 'reject', reason: seen };
        };
        const lets = () => ({ action: 'proceed' });
        serve({ Lets: { toolCall: { before: lets } }, P: { toolCall: { before } } });
        """
    )
    small = {"n": [1, {"x": "ä"}], "__proto__": {"y": 1}}
    for given in (small, {**small, "long": "x" * 10_000}):
        params = consult("toolCall", "before", "Lets", ("P", settings), input=given)
        frame = {"method": "consult", "params": params}
        plugin.write(json.dumps({"id": 7, **frame}).encode() + b"\n")
        plugin.write(json.dumps({**frame, "id": 7}).encode() + b"\r\n")
        compact = [{"id": 7, **frame}, {"id": "7", **frame}, {"id": 7, **frame}]
        plugin.send(*compact)

        results = [plugin.receive()["result"] for _ in range(5)]

        assert results == results[:1] * 5
        seen = json.loads(results[0]["verdicts"][1]["verdict"]["reason"])
        assert seen["input"] == given
        assert seen["ctx"]["component"] == settings
        assert (seen["subject"]["nodeName"], seen["place"]) == (
            "ask",
            ["toolCall", "before"],
        )


@pytest.mark.parametrize(
    ("returned", "sent", "goes_on"),
    [
        ("{ action: 'proceed', input: undefined }", {"action": "proceed"}, True),
        ("{ action: 'proceed', note: 1 }", {"action": "proceed", "note": 1}, True),
        ("{ action: 'modify', input: undefined }", {"action": "modify"}, False),
        ("{ action: undefined }", {}, False),
        ("{ action: 'reject', reason: undefined }", {"action": "reject"}, False),
        (
            "{ action: 'proceed', toJSON: () => ({ action: 'no' }) }",
            {"action": "no"},
            False,
        ),
        ("new (class { action = 'proceed'; })()", {"action": "proceed"}, True),
        ("Object.create({ action: 'proceed' })", {}, False),
    ],
)
def test_a_verdict_is_what_is_left_of_it_as_json(
    start: Start, returned: str, sent: dict[str, Any], goes_on: bool
) -> None:
    plugin = start(
        f"""
        const before = () => ({returned});
        serve({{ P: {{ toolCall: {{ before }} }} }});
        """
    )

    verdicts = plugin.ask("consult", consult("toolCall", "before", "P", "P", input={}))

    assert [each["verdict"] for each in verdicts["verdicts"]] == [sent] * (1 + goes_on)
    assert plugin.ask("before", asked()) == sent


def test_what_a_reverse_call_cannot_carry_is_an_error_of_its_own(start: Start) -> None:
    plugin = start(
        serving(
            "async (event, ctx) => { try { await ctx.runTool('t', { n: 1n }); }"
            " catch (error) { return { action: 'reject', reason: error.message }; } }"
        )
    )

    assert "BigInt" in plugin.ask("before", asked())["reason"]
