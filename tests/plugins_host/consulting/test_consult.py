"""Several policies in one frame come to what they come to one by one, in both runtimes."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from plugins_host.consulting.chain import Chain
from plugins_host.consulting.links import Asking, Link
from plugins_host.consulting.outcomes import (
    AfterOutcome,
    BeforeOutcome,
    Erred,
    MiddlewareFailure,
    PolicyWarning,
    Proceeded,
    Rejected,
    Replaced,
    ShownError,
    Succeeded,
)
from plugins_host.conversation import Message, ModelRequest
from plugins_host.loading.entry_point import RUNTIME
from plugins_host.payload import Payload
from plugins_host.processes.fleet import Fleet
from plugins_host.processes.process import PluginProcess
from plugins_host.program import PluginProgram, chosen_environment
from plugins_host.reverse import CallServices
from plugins_host.seams import SEAMS, Half, NodeSubject, Seam, ToolSubject
from plugins_host.testing import RecordedServices

NAMES = ("P0", "P1", "P2", "P3")

# Each policy says what its settings tell it to; "trace" adds its name to what it was shown,
# so that who saw what is seen in the end.
PYTHON = """
import asyncio
from heddle.plugin import serve

async def say(event, ctx):
    ctx.emit_event("asked", {"saw": event.input, "attempt": ctx.attempt})
    await asyncio.sleep(ctx.component.get("seconds", 0))
    said = ctx.component["say"]
    if said == "throw":
        raise ValueError("thrown")
    if said == "trace":
        key = "temperature" if "temperature" in event.input else "trace"
        more = {**event.input, key: event.input.get(key, 0) + 1}
        return {"action": "modify", "input": more}
    return said

seams = ("nodeError", "node", "toolCall", "modelCall", "agentRound")
both = {"before": say, "after": say}
serve({name: {seam: both for seam in seams} for name in ("P0", "P1", "P2", "P3")})
"""

JAVASCRIPT = """
const say = async (event, ctx) => {
  ctx.emitEvent("asked", { saw: event.input ?? {}, attempt: ctx.attempt });
  const ms = (ctx.component.seconds ?? 0) * 1000;
  if (ms) await new Promise((done) => setTimeout(done, ms));
  const said = ctx.component.say;
  if (said === "throw") throw new RangeError("thrown");
  if (said === "trace") {
    const key = "temperature" in event.input ? "temperature" : "trace";
    const more = { ...event.input, [key]: (event.input[key] ?? 0) + 1 };
    return { action: "modify", input: more };
  }
  return said;
};
const both = { before: say, after: say };
const seams = {
  nodeError: both, node: both, toolCall: both, modelCall: both, agentRound: both,
};
serve({ P0: seams, P1: seams, P2: seams, P3: seams });
"""


class OneByOne:
    """A plugin whose runtime did not announce that it can be asked for several."""

    features = frozenset[str]()

    def __init__(self, plugin: PluginProcess) -> None:
        self.plugin = plugin
        self.name = plugin.name

    async def start(self) -> frozenset[str]:
        await self.plugin.start()
        return self.features

    async def request(
        self,
        verb: str,
        params: bytes,
        *,
        services: CallServices | None = None,
        components: Sequence[str] = (),
        patience: float = 30,
    ) -> object:
        return await self.plugin.request(
            verb, params, services=services, components=components, patience=patience
        )


REQUEST = ModelRequest("m", (Message("user", "hi"),), temperature=0.0)
EVERYWHERE = {seam: frozenset(row.halves) for seam, row in SEAMS.items()}
HALVES = [(seam, half) for seam, row in SEAMS.items() for half in row.halves]


class Case(msgspec.Struct, frozen=True):
    """One question to four policies, and what each will say."""

    seam: Seam
    half: Half
    says: tuple[Any, ...]
    attempt: int
    retry_refused: str | None
    failed: bool


before_words: list[Any] = [
    {"action": "proceed"},
    "trace",
    {"action": "modify", "input": {"x": 1}},
    {"action": "modify", "input": {"messages": []}},
    {"action": "replace", "value": {"content": "hi"}},
    {"action": "replace", "value": []},
    {"action": "reject", "reason": "no"},
]
after_words: list[Any] = [
    {"action": "pass"},
    {"action": "replace", "value": {"content": "hi"}},
    {"action": "retry", "delayMs": 99_999},
    {"action": "retry"},
    {"action": "fail", "reason": "no"},
    {"action": "fail", "reason": ""},
]
never_words: list[Any] = ["throw", {}, {"action": "perhaps"}]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    seam, half = draw(st.sampled_from(HALVES))
    good, other = (
        (before_words, after_words) if half is Half.BEFORE else (after_words, before_words)
    )
    # Most policies let most things be: long walks are the interesting ones.
    word = st.sampled_from([good[0]] * 6 + good + never_words + other[:1])
    return Case(
        seam,
        half,
        tuple(draw(st.lists(word, min_size=4, max_size=4))),
        draw(st.integers(1, 3)),
        draw(st.sampled_from([None, None, "the run is spent"])),
        draw(st.booleans()) or seam is Seam.NODE_ERROR,
    )


async def outcome_of(asker: Any, case: Case) -> tuple[Any, ...]:
    """Everything that can be seen from outside of one consultation."""
    links = [
        Link(name, "p", msgspec.json.encode({"say": said}), EVERYWHERE, asker)
        for name, said in zip(NAMES, case.says, strict=True)
    ]
    chain = Chain(links)
    services, warnings = RecordedServices(), list[PolicyWarning]()
    tool = case.seam is Seam.TOOL_CALL
    asking = Asking(
        services,
        warnings.append,
        case.attempt,
        3,
        30,
        case.retry_refused,
        (lambda given: "there is no 'x'" if "x" in given else None) if tool else None,
    )
    subject = (
        ToolSubject("n", "AgentNode", "t", "c") if tool else NodeSubject("n", "LlmNode")
    )
    given = Payload.of(REQUEST if case.seam is Seam.MODEL_CALL else {"a": "ü"})
    settled: BeforeOutcome | AfterOutcome
    try:
        if case.half is Half.BEFORE:
            settled = await chain.before(case.seam, subject, given, asking)
        else:
            error = Erred(ShownError("E", "broken"))
            shown = error if case.failed else Succeeded(Payload.of({"r": 1}))
            settled = await chain.after(case.seam, subject, shown, asking, given=given)
    except MiddlewareFailure as failure:
        return ("failure", str(failure), warnings, services.events)
    match settled:
        case Proceeded(input=payload) | Replaced(value=payload):
            seen: tuple[Any, ...] = (type(settled).__name__, payload.value)
        case Rejected(reason=reason, by=by, input=payload):
            seen = ("Rejected", reason, by, payload.value)
        case _:
            seen = (type(settled).__name__, settled)
    return (*seen, warnings, services.events)


def program(tmp_path: Path, language: str) -> PluginProgram:
    argv: Sequence[str]
    if language == "py":
        script = tmp_path / "policies.py"
        script.write_text(PYTHON)
        argv = (sys.executable, str(script))
    else:
        script = tmp_path / "policies.mjs"
        script.write_text(JAVASCRIPT)
        argv = ("node", "--import", RUNTIME.as_uri(), str(script))
    return PluginProgram(
        "p",
        tuple(argv),
        str(tmp_path),
        {**chosen_environment(os.environ), "PYTHONPATH": os.pathsep.join(sys.path)},
        frozenset({"emitEvent"}),
    )


needs_node = pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js")


@pytest.mark.parametrize("language", ["py", pytest.param("js", marks=needs_node)])
@settings(
    max_examples=10,
    deadline=None,
    # The assertion tells the one case of the list that matters; to shrink the list would
    # start a process for every try.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(case_list=st.lists(cases(), min_size=30, max_size=40))
def test_one_frame_for_several_comes_to_what_one_by_one_comes_to(
    language: str, case_list: list[Case], tmp_path: Path
) -> None:
    async def compare() -> None:
        async with Fleet([program(tmp_path, language)], log=lambda _: None) as fleet:
            plugin = fleet["p"]
            assert await plugin.start() == {"consult"}
            for case in case_list:
                together = await outcome_of(plugin, case)
                alone = await outcome_of(OneByOne(plugin), case)
                assert together == alone, case

    trio.run(compare)


@pytest.mark.parametrize("language", ["py", pytest.param("js", marks=needs_node)])
async def test_nobody_sees_arguments_that_the_tool_does_not_take(
    language: str, tmp_path: Path
) -> None:
    proceed = {"action": "proceed"}
    says = ("trace", {"action": "modify", "input": {"x": 1}}, proceed, proceed)
    case = Case(Seam.TOOL_CALL, Half.BEFORE, says, 1, None, failed=False)

    async with Fleet([program(tmp_path, language)], log=lambda _: None) as fleet:
        await fleet["p"].start()
        kind, message, _, events = await outcome_of(fleet["p"], case)

    assert kind == "failure"
    assert "'P1'" in message
    assert "there is no 'x'" in message
    assert [(who, data["saw"]) for _, who, _, data in events] == [
        ("P0", {"a": "ü"}),
        ("P1", {"a": "ü", "trace": 1}),
    ]


async def slow_walk(plugin: PluginProcess, seconds: Sequence[float]) -> None:
    links = [
        Link(
            name,
            "p",
            msgspec.json.encode({"say": {"action": "proceed"}, "seconds": wait}),
            EVERYWHERE,
            plugin,
        )
        for name, wait in zip(NAMES, seconds, strict=True)
    ]
    asking = Asking(RecordedServices(), lambda _: None, patience=1.5)
    node = NodeSubject("n", "LlmNode")
    await Chain(links).before(Seam.NODE, node, Payload.of({}), asking)


@pytest.mark.parametrize("language", ["py", pytest.param("js", marks=needs_node)])
async def test_each_has_the_budget_that_it_would_have_alone(
    language: str, tmp_path: Path
) -> None:
    async with Fleet([program(tmp_path, language)], log=lambda _: None) as fleet:
        await slow_walk(fleet["p"], [0.6, 0.6, 0.6, 0.0])
        with pytest.raises(MiddlewareFailure, match="did not answer") as caught:
            await slow_walk(fleet["p"], [0.0, 0.3, 60.0, 0.0])
        assert caught.value.middleware == "P2"
