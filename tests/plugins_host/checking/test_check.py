"""``heddle plugin check``: what it asks, and what it says about plugins at fault.

The plugins here are written by hand, without a runtime, so that each is wrong in one way.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from plugins_host.checking.check import Finding, Outcome, check_plugin
from plugins_host.checking.examples import EVENTS
from plugins_host.checking.promises import Consultation, promises, together
from plugins_host.checking.schema_examples import example_of
from plugins_host.checking.verbs import Verb
from plugins_host.loading.load import load_plugins
from plugins_host.manifests.manifest import (
    KINDS,
)
from plugins_host.seams import SEAMS

PLUGINS = Path(__file__).parent.parent / "plugins"

# A plugin by hand: reads questions, answers with what `answer` makes of them.
BY_HAND = """
import json, sys, time

def say(**frame):
    sys.stdout.write(json.dumps(frame) + "\\n")
    sys.stdout.flush()

for line in sys.stdin:
    frame = json.loads(line)
    id, method, params = frame.get("id"), frame.get("method"), frame.get("params") or {}
    if method is None:
        continue
    BODY
    if method == "init":
        say(id=id, result={"protocol": 1})
    elif method in ("before", "after"):
        say(id=id, result={"action": "proceed" if method == "before" else "pass"})
    else:
        say(id=id, result={})
"""


def by_hand(folder: Path, body: str, **manifest: Any) -> str:
    """A plugin that gates tool calls, and does ``body`` with each question first."""
    whole = {
        "name": "by-hand",
        "version": "1",
        "components": [
            {
                "componentType": "Gate",
                "kind": "middleware",
                "seams": {"toolCall": ["before"]},
            }
        ],
        **manifest,
    }
    (folder / "plugin.json").write_text(json.dumps(whole))
    lines = body.replace("\n", "\n    ")
    (folder / "plugin.py").write_text(BY_HAND.replace("BODY", lines))
    return str(folder / "plugin.json")


async def checked(source: str, *settings: str, patience: float = 10) -> list[Finding]:
    found: list[Finding] = []
    fine = await check_plugin(
        load_plugins([source], settings), found.append, patience=patience
    )
    assert fine == all(each.outcome is not Outcome.FAULT for each in found)
    return found


def faults(found: list[Finding]) -> list[Finding]:
    return [each for each in found if each.outcome is Outcome.FAULT]


# --- what is asked ------------------------------------------------------------------------

ALL_KINDS = [
    *(
        {
            "componentType": f"On_{seam}",
            "kind": "middleware",
            "seams": {seam.value: [half.value for half in SEAMS[seam].halves]},
        }
        for seam in SEAMS
    ),
    {"componentType": "Upper", "inputs": [{"title": "text", "type": "string"}]},
    {"componentType": "Prefix", "kind": "transform"},
    {"componentType": "Parrot", "kind": "provider", "stream": True},
    {"componentType": "Lines", "kind": "encoder", "protocol": "x", "contentType": "a/b"},
    {"componentType": "Box", "kind": "store"},
    {"componentType": "Settings", "kind": "component"},
]


def test_every_kind_and_every_half_is_asked(tmp_path: Path) -> None:
    tools = [{"name": "add", "componentType": "Settings"}]
    source = by_hand(tmp_path, "", components=ALL_KINDS, tools=tools, discoverTools=True)
    manifest = load_plugins([source]).plugins[0].manifest

    asked = list(promises(manifest))

    halves = {(p.seam, p.half) for p in asked if isinstance(p, Consultation)}
    assert halves == {(seam, half) for seam in SEAMS for half in SEAMS[seam].halves}
    assert {p.verb for p in asked if isinstance(p, Verb)} == {
        "execute",
        "apply",
        "chat",
        "encode",
        "finishEncode",
        "sessionCreate",
        "sessionRead",
        "sessionAppend",
        "sessionCheckpointRead",
        "sessionCheckpointWrite",
        "sessionList",
        "sessionDelete",
        "callTool",
        "listTools",
    }
    assert len({type(each) for each in manifest.components}) == len(KINDS)


def test_middleware_that_share_a_half_are_asked_together_as_well(tmp_path: Path) -> None:
    components = [
        {"componentType": name, "kind": "middleware", "seams": {"node": halves}}
        for name, halves in (("A", ["after"]), ("B", ["before", "after"]), ("C", ["after"]))
    ]
    source = by_hand(tmp_path, "", components=components)

    (promise,) = together(load_plugins([source]).plugins[0].manifest)

    assert [each.component_type for each in promise.components] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"type": "string"}, "example"),
        ({"type": "integer"}, 1),
        ({"type": ["boolean", "null"]}, True),
        ({"type": "array"}, []),
        ({"enum": ["a", "b"]}, "a"),
        ({"default": 7, "type": "number"}, 7),
        ({"const": None}, None),
        ({}, "example"),
        (True, "example"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 1),
        ({"type": "array", "minItems": 1, "items": {"type": "integer"}}, [1]),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {}},
                "required": ["a"],
            },
            {"a": 1},
        ),
        ({"type": "object"}, {}),
    ],
)
def test_an_example_fits_its_schema(schema: object, example: object) -> None:
    assert example_of(schema) == example


# --- plugins that do as they promise -----------------------------------------------------


async def test_a_plugin_by_hand_that_does_its_part_has_no_faults(tmp_path: Path) -> None:
    found = await checked(by_hand(tmp_path, ""))

    assert [(each.outcome, each.asked) for each in found] == [
        (Outcome.OK, "start"),
        (Outcome.OK, "Gate toolCall.before, a tool call"),
        (Outcome.OK, "50 questions at once"),
        (Outcome.OK, "a field that it does not know"),
        (Outcome.OK, "cancel"),
        (Outcome.OK, "shutdown"),
    ]


@pytest.mark.parametrize("suffix", ["py", "mjs"])
async def test_a_plugin_of_every_kind_has_no_faults(tmp_path: Path, suffix: str) -> None:
    if suffix == "mjs" and shutil.which("node") is None:
        pytest.skip("there is no node on PATH")
    shutil.copy(PLUGINS / f"contract.{suffix}", tmp_path)
    seams = {"toolCall": ["before", "after"], "node": ["before", "after"]}
    properties = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    components = [
        {"componentType": "Seen", "kind": "middleware", "seams": seams},
        {"componentType": "Gate", "kind": "middleware", "seams": {"toolCall": ["before"]}},
        {"componentType": "Asks", "kind": "middleware", "seams": {"toolCall": ["before"]}},
        {"componentType": "Tells", "kind": "middleware", "seams": {"toolCall": ["after"]}},
        {
            "componentType": "Upper",
            "inputs": [{"title": "text", "type": "string"}],
            "branches": ["done"],
        },
        {"componentType": "Prefix", "kind": "transform"},
        {"componentType": "Parrot", "kind": "provider", "stream": True},
        {
            "componentType": "Lines",
            "kind": "encoder",
            "protocol": "x",
            "contentType": "a/b",
        },
    ]
    whole = {
        "name": "contract",
        "version": "1",
        "capabilities": ["runTool", "emitEvent", "log"],
        "components": components,
        "tools": [
            {
                "name": "add",
                "componentType": "T",
                "inputSchema": {"type": "object", "properties": properties},
            }
        ],
        "discoverTools": True,
    }
    (tmp_path / "contract.json").write_text(json.dumps(whole))

    found = await checked(str(tmp_path / "contract.json"))

    assert faults(found) == []
    said = {each.asked: each.said for each in found}
    assert said["Parrot chat, streamed"] == "a response"
    assert said["tool add"] == "an output"
    assert said["listTools"] == "1 tools"
    together = "Seen, Gate, Asks together toolCall.before, a tool call"
    assert said[together] == "replace"
    assert len(found) > 20


async def test_a_module_inside_heddle_is_asked_as_well(tmp_path: Path) -> None:
    path = tmp_path / "gate.py"
    path.write_text(
        "manifest = {'name': 'gate', 'version': '1', 'components': [{'componentType':"
        " 'Gate', 'kind': 'middleware', 'seams': {'toolCall': ['before']}}]}\n"
        "def before(event, ctx):\n"
        "    ctx.log('info', 'hi')\n"
        "    return {'action': 'proceed'}\n"
        "handlers = {'Gate': {'toolCall': {'before': before}}}\n"
    )

    (answered, refused) = await checked(str(path))

    assert (answered.outcome, answered.said) == (Outcome.OK, "proceed")
    assert refused.outcome is Outcome.FAULT
    assert "log is not granted" in refused.said


async def test_a_plugin_without_a_program_needs_no_check(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    tools = [{"name": "t", "path": "tool"}]
    (tmp_path / "p.json").write_text(
        json.dumps({"name": "p", "version": "1", "tools": tools})
    )

    (only,) = await checked(str(tmp_path / "p.json"))

    assert only.said == "none is needed"


async def test_settings_are_those_that_were_given(tmp_path: Path) -> None:
    body = """
if method == "before":
    say(id=id, result={"action": "reject", "reason": str(params["component"])})
    continue"""

    found = await checked(by_hand(tmp_path, body), 'Gate={"k": 1}')

    assert found[1].said == "reject: {'k': 1}"


@pytest.mark.parametrize(
    ("half", "verdict", "said"),
    [
        ("before", "{'action': 'modify', 'input': {}}", "modify"),
        ("after", "{'action': 'replace', 'value': {}}", "replace"),
        ("after", "{'action': 'fail', 'reason': 'enough'}", "fail: enough"),
    ],
)
async def test_each_verdict_is_told(
    tmp_path: Path, half: str, verdict: str, said: str
) -> None:
    seams = {"node": [half]}
    components = [{"componentType": "P", "kind": "middleware", "seams": seams}]
    body = f"if method == '{half}':\n    say(id=id, result={verdict})\n    continue"

    found = await checked(by_hand(tmp_path, body, components=components))

    assert found[1].said == said


async def test_a_model_and_a_retry_are_tried_as_well(tmp_path: Path) -> None:
    body = """
if method is None and id is None:
    continue
if method == "after":
    say(id="r", method="callModel", params={"call": id, "messages": []})
    answer = json.loads(sys.stdin.readline())
    delay = len(answer["result"]["content"])
    say(id=id, result={"action": "retry", "delayMs": delay * 1000})
    continue"""
    seams = {"modelCall": ["after"]}
    components = [{"componentType": "P", "kind": "middleware", "seams": seams}]
    source = by_hand(tmp_path, body, components=components, capabilities=["callModel"])

    found = await checked(source, patience=2)

    assert [each.said for each in found if each.asked.startswith("P ")] == [
        "retry after 11 s",
        "retry after 11 s",
    ]


# --- plugins at fault ---------------------------------------------------------------------


async def fault_of(
    folder: Path, body: str, *, patience: float = 10, **manifest: Any
) -> Finding:
    """The first fault of a plugin that does ``body`` with each question."""
    source = by_hand(folder, body, **manifest)
    return faults(await checked(source, patience=patience))[0]


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("{'action': 'pass'}", "action 'pass' is not admitted here. Answer with an action"),
        ("{'action': 'procede'}", "'procede' is not a verdict. Did you mean 'proceed'?"),
        ("{}", "the verdict has no 'action'"),
        ("None", "the answer is null, which is no verdict"),
        ("{'action': 'modify', 'inputs': {}}", "Did you mean 'input'?"),
        ("{'action': 'reject'}", "has no 'reason'"),
    ],
)
async def test_a_verdict_that_is_none_is_shown_with_its_frames(
    tmp_path: Path, result: str, says: str
) -> None:
    found = await fault_of(
        tmp_path, f"if method == 'before':\n    say(id=id, result={result})\n    continue"
    )

    assert found.asked == "Gate toolCall.before, a tool call"
    assert says in found.said
    asked, answered = found.frames
    assert asked.startswith('> {"id":')
    assert '"method":"before"' in asked
    assert answered.startswith('< {"id":')


async def test_an_error_is_shown(tmp_path: Path) -> None:
    found = await fault_of(
        tmp_path,
        "if method == 'before':\n"
        "    say(id=id, error={'name': 'E', 'message': 'no luck'})\n"
        "    continue",
    )

    assert found.said == "it failed with E: no luck"


async def test_silence_is_shown(tmp_path: Path) -> None:
    found = await fault_of(tmp_path, "if method == 'before': continue", patience=0.3)

    assert "did not answer 'before' within 0.3 s" in found.said
    assert '"method":"before"' in found.frames[0]


async def test_a_plugin_that_does_not_start_is_told_once(tmp_path: Path) -> None:
    found = await checked(by_hand(tmp_path, "sys.exit('no database')"))

    assert len(found) == 1
    assert "exited with status 1; on stderr it said: no database" in found[0].said


async def test_another_version_of_the_protocol_is_shown(tmp_path: Path) -> None:
    body = "if method == 'init':\n    say(id=id, result={'protocol': 2})\n    continue"

    found = await fault_of(tmp_path, body)

    assert "speaks version 2 of the protocol" in found.said


async def test_a_broken_channel_is_shown_and_the_check_goes_on(tmp_path: Path) -> None:
    body = "if 'x-future' in params:\n    print('{oops', flush=True)\n    continue"

    found = await checked(by_hand(tmp_path, body))

    (fault,) = faults(found)
    assert fault.asked == "a field that it does not know"
    assert "stdout carries the protocol" in fault.said
    assert found[-1].asked == "shutdown"


async def test_what_is_printed_is_odd_and_no_fault(tmp_path: Path) -> None:
    found = await checked(by_hand(tmp_path, "if method == 'before': print('debug: here')"))

    odd = next(each for each in found if each.outcome is Outcome.ODD)
    assert odd.said == ("it printed on stdout, which carries the protocol: 'debug: here'")
    assert faults(found) == []


@pytest.mark.parametrize("call", ["id", "12345678"])
async def test_a_reverse_call_that_is_refused_is_shown(tmp_path: Path, call: str) -> None:
    log = f"dict(call={call}, level='info', message='x')"
    found = await fault_of(
        tmp_path,
        f"if method == 'before': say(id='r', method='log', params={log})",
        capabilities=[] if call == "id" else ["log"],
    )

    assert found.said.startswith(
        "heddle refuses what it asked for: log is not granted"
    ) or ("is not open" in found.said)
    assert any('"method": "log"' in frame for frame in found.frames)


async def test_a_plugin_that_ignores_cancel_is_told(tmp_path: Path) -> None:
    found = await fault_of(tmp_path, "if method == 'cancel': continue")

    assert found.asked == "cancel"
    assert "did not answer within 0.5 s" in found.said


async def test_a_plugin_that_does_not_end_is_told(tmp_path: Path) -> None:
    found = await fault_of(tmp_path, "if method == 'shutdown': time.sleep(60)")

    assert found.asked == "shutdown"
    assert "was killed" in found.said


async def test_a_plugin_that_ends_badly_is_odd(tmp_path: Path) -> None:
    found = await checked(by_hand(tmp_path, "if method == 'shutdown': sys.exit(3)"))

    assert found[-1] == Finding(Outcome.ODD, "shutdown", "it ends with status 3")


async def test_answers_that_are_mixed_up_are_told(tmp_path: Path) -> None:
    body = """
if method == "before":
    waiting = globals().setdefault("waiting", [])
    waiting.append(id)
    if len(waiting) in (2, 3) or len(waiting) > 3:
        say(id=waiting[0], result={"action": "proceed"})
    else:
        say(id=id, result={"action": "proceed"})
    continue"""

    found = await fault_of(tmp_path, body, patience=0.5)

    assert found.asked == "50 questions at once"


@pytest.mark.parametrize(
    ("component", "result", "says"),
    [
        ({"inputs": []}, "{}", "$: there is no 'output'. Answer {output"),
        ({"branches": ["a"]}, "{'output': {}}", "the branch is None"),
        ({"branches": ["a"]}, "{'output': {}, 'branch': 'b'}", "the branch is 'b'"),
        ({"kind": "transform"}, "{'action': 'proceed'}", "$.action: invalid enum value"),
        ({"kind": "transform"}, "{'action': 'modify'}", "leaves no messages"),
        ({"kind": "transform"}, "{'action': 'reject'}", "has no 'reason'"),
        ({"kind": "provider"}, "{'finish_reason': 'stop'}", "there is no 'content'"),
        ({"outputs": [{"title": "a"}]}, "{'output': {'b': 1}}", "'b' is not declared"),
        (
            {"kind": "encoder", "protocol": "x", "contentType": "a/b"},
            "[{'event': 'a\\nb', 'data': 1}]",
            "line break",
        ),
        ({"kind": "encoder", "protocol": "x", "contentType": "a/b"}, "{}", "array"),
        ({"kind": "store"}, "5", "object"),
    ],
)
async def test_the_answers_of_other_kinds_are_read_too(
    tmp_path: Path, component: dict[str, Any], result: str, says: str
) -> None:
    found = await fault_of(
        tmp_path,
        f"if method != 'init':\n    say(id=id, result={result})\n    continue",
        components=[{"componentType": "Other", **component}],
    )

    assert says in found.said
    assert found.frames


async def test_a_store_that_answers_without_versions_is_told(tmp_path: Path) -> None:
    source = by_hand(tmp_path, "", components=[{"componentType": "Box", "kind": "store"}])

    told = [each.said for each in faults(await checked(source))]

    assert any("no 'version'" in each for each in told)
    assert any("no 'sessions'" in each for each in told)


async def test_a_plugin_that_only_finds_tools_has_no_faults(tmp_path: Path) -> None:
    lists = """if method == "listTools":
        say(id=id, result={"tools": [{"name": "a"}]})
        continue"""
    found = await checked(by_hand(tmp_path, lists, components=[], discoverTools=True))
    said = {each.asked: each.said for each in found}
    assert said["listTools"] == "1 tools"
    assert said["a field that it does not know"] == "it is ignored"
    assert not faults(found)


async def test_tools_without_names_are_told(tmp_path: Path) -> None:
    found = await fault_of(tmp_path, "", components=[], discoverTools=True)

    assert "there is no 'tools'. Answer {tools: [{name" in found.said


@pytest.mark.parametrize(
    ("fields", "result", "says"),
    [
        (
            {"tools": [{"name": "t", "componentType": "T", "outputSchema": {
                "type": "object", "required": ["a"]}}]},
            "{'output': {}}",
            "$.output: 'a' is a required property",
        ),
        ({"tools": [{"name": "t", "componentType": "T"}]}, "{'out': {}}", "no 'output'"),
        ({"discoverTools": True}, "{'tools': [{'name': 'a'}, {'name': 'a'}]}", "twice"),
        ({"discoverTools": True}, "{'tools': [{}]}", "$.tools[0]: there is no 'name'"),
        (
            {"discoverTools": True},
            "{'tools': [{'name': 'a', 'inputSchema': {'type': 'array'}}]}",
            "$.tools[0].inputSchema: 'array'",
        ),
    ],
)  # fmt: skip
async def test_tools_are_held_to_what_is_declared(
    tmp_path: Path, fields: dict[str, Any], result: str, says: str
) -> None:
    found = await fault_of(
        tmp_path,
        f"if method != 'init':\n    say(id=id, result={result})\n    continue",
        components=[],
        **fields,
    )

    assert says in found.said
    assert found.frames


async def test_a_plugin_of_any_kind_is_cancelled_and_asked_much_at_once(
    tmp_path: Path,
) -> None:
    body = "if method not in ('init', 'cancel'):\n    say(id=id, result=[])\n    continue"
    encoder = {"kind": "encoder", "protocol": "x", "contentType": "a/b"}
    source = by_hand(tmp_path, body, components=[{"componentType": "Lines", **encoder}])
    found = await checked(source)

    assert faults(found) == []
    asked = [each.asked for each in found]
    for each in ("50 questions at once", "a field that it does not know", "cancel"):
        assert each in asked
    assert sum("Lines encode" in each for each in asked) == len(EVENTS)


def test_an_encoder_is_shown_one_of_each_event() -> None:
    from heddle import events

    tags = {
        each.__struct_config__.tag
        for each in events.RunEvent.__subclasses__()
        if each.__struct_config__.tag is not None
    }
    shown = {each["type"] for each in EVENTS}

    assert tags
    assert shown >= tags
