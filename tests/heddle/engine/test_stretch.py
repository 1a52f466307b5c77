"""A walk does the same whether its task asks each question or a row of them carries it on.

The policy here answers from a list. Asked as a process is, its answers are texts, and who
reads them carries the walk on; asked as a function is, they are objects, and each is
weighed by the walk.
"""

import gc
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from heddle.engine.faults import RunFailed
from heddle.engine.gate import Policies, asked_by
from heddle.engine.testing import FakeModels, run_document
from heddle.engine.walk import Limits
from heddle.events import Event
from plugins_host import Chain, Fault, Half, Link, Seam
from plugins_host.processes.calls import Onward
from plugins_host.reverse import CallServices
from tests.support.flows import (
    agent,
    branching,
    component,
    document,
    edge,
    end,
    flow,
    inner,
    llm,
    model,
    prop,
    start,
    tool,
)

Plain = dict[str, Any]
CONSENT = {"before": {"action": "proceed"}, "after": {"action": "pass"}}


class Script:
    """A plugin that answers from a list, and lets everything be when that is at its end."""

    name = "script"
    features = frozenset[str]()

    def __init__(self, answers: Sequence[object], *, as_text: bool) -> None:
        self.asked: list[tuple[str, Plain]] = []
        self._answers = iter(answers)
        self._as_text = as_text

    async def start(self) -> frozenset[str]:
        return self.features

    def _answer(self, verb: str, params: bytes) -> object:
        self.asked.append((verb, msgspec.json.decode(params)))
        answer = next(self._answers, None) or CONSENT[verb]
        if isinstance(answer, Exception):
            raise answer
        return Raw(msgspec.json.encode(answer)) if self._as_text else answer

    async def request(
        self,
        verb: str,
        params: bytes,
        *,
        services: CallServices | None = None,
        components: Sequence[str] = (),
        patience: float = 0.0,
        onward: Onward | None = None,
    ) -> object:
        await trio.lowlevel.checkpoint()
        answer = self._answer(verb, params)
        while onward is not None and type(answer) is Raw:
            following = onward(answer)
            if following is None:
                break
            answer = self._answer(*following[:2])
        return answer


def installed(script: Script, seams: Mapping[Seam, tuple[Half, ...]]) -> Policies:
    chain = Chain([Link("Policy", "script", b"{}", seams, script)])
    return Policies(chain, asked_by(chain), 30.0)


def fails(**_: Any) -> Plain:
    raise Fault("it does not work")


INNER = inner(
    "inside", [start(), tool("work"), end(outputs=[prop("x")])], ["start", "work", "end"]
)
FLOWS: dict[str, bytes] = {
    "pure": document(flow([start(), end()], ["start", "end"])),
    "branches": document(
        flow(
            [start(), branching("pick", {"1": "one"}), end("a"), end("b")],
            ["start", "pick"],
            [edge("pick", "a", "one"), edge("pick", "b", "default")],
        )
    ),
    "waits": document(
        flow(
            [start(), agent("a"), llm("ask", "{{q}}"), tool("work"), end()],
            ["start", "a", "ask", "work", "end"],
            shared=[model()],
        )
    ),
    "fails": document(flow([start(), tool("bad"), end()], ["start", "bad", "end"])),
    "lacks": document(flow([start(inputs=[prop("missing")]), end()], ["start", "end"])),
    "inside": document(
        flow(
            [start(), component("FlowNode", "sub", subflow=INNER), end()],
            ["start", "sub", "end"],
        )
    ),
    "converts": document(
        flow(
            [start(), end(outputs=[prop("x", "integer"), prop("z", "array", default=[])])],
            ["start", "end"],
        )
    ),
    "never ends": document(
        flow(
            [
                start(),
                branching("pick", {"1": "on"}),
                branching("back", {"1": "on"}),
                end(),
            ],
            ["start", "pick"],
            [
                *(edge("pick", *to) for to in (("back", "on"), ("end", "default"))),
                *(edge("back", "pick", branch) for branch in ("on", "default")),
            ],
        )
    ),
}
INPUTS = {"x": "7", "q": "why", "branching_mapping_key": "1"}

SAID = st.sampled_from(
    [
        None,
        {"action": "modify", "input": {"x": "8", "branching_mapping_key": "0"}},
        {"action": "replace", "value": {"x": "9", "branching_mapping_key": "2"}},
        {"action": "reject", "reason": "no"},
        {"action": "fail", "reason": "no"},
        {"action": "retry"},
        {"action": "nonsense"},
        Fault("it broke"),
    ]
)
NODE = {Seam.NODE: tuple(Half)}
SEAMS = st.sampled_from(
    [
        NODE,
        {Seam.NODE: (Half.BEFORE,)},
        {Seam.NODE: (Half.AFTER,)},
        {**NODE, Seam.NODE_ERROR: (Half.AFTER,), Seam.MODEL_CALL: tuple(Half)},
    ]
)


@given(
    st.sampled_from(sorted(FLOWS)),
    SEAMS,
    st.lists(st.sampled_from([None] * 6) | SAID, max_size=12),
    st.booleans(),
)
@example("waits", NODE, [], False)
@example("never ends", NODE, [], False)
@example(
    "fails",
    {**NODE, Seam.NODE_ERROR: (Half.AFTER,)},
    [None] * 3 + [{"action": "retry"}],
    False,
)
def test_a_row_changes_nothing_about_a_run(
    name: str,
    seams: Mapping[Seam, tuple[Half, ...]],
    answers: Sequence[object],
    traced: bool,
) -> None:
    def outcome(*, as_text: bool) -> tuple[object, list[Event], list[tuple[str, Plain]]]:
        script = Script(answers, as_text=as_text)
        events: list[Event] = []

        async def run() -> object:
            try:
                result, _ = await run_document(
                    FLOWS[name],
                    INPUTS,
                    models=FakeModels(lambda _: "said"),
                    tools={"work": lambda **_: {"x": "worked"}, "bad": fails},
                    installed=installed(script, seams),
                    events=events,
                    limits=Limits(max_iterations=9),
                    trace=traced,
                )
            except Fault as fault:
                return type(fault), str(fault)
            return result

        return trio.run(run), events, script.asked

    by_row, one_by_one = outcome(as_text=True), outcome(as_text=False)
    assert by_row[0] == one_by_one[0]
    assert by_row[2] == one_by_one[2]
    if not traced:  # they tell times
        assert by_row[1] == one_by_one[1]
    assert by_row[2]


@pytest.mark.parametrize(
    ("name", "answers"), [("lacks", []), ("pure", [None, Fault("it broke")])]
)
async def test_what_fails_in_a_row_leaves_nothing_to_the_collector(
    name: str, answers: list[object]
) -> None:
    script = Script(answers, as_text=True)
    gc.collect()
    gc.disable()
    try:
        try:
            await run_document(FLOWS[name], installed=installed(script, NODE))
        except RunFailed as failure:
            cause = failure.__cause__
            kept = None if cause is None else weakref.ref(cause)
            del cause
        assert kept is not None
        assert kept() is None
    finally:
        gc.enable()
    assert [verb for verb, _ in script.asked] == ["before", "after"]
