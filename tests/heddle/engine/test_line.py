"""Flows that are one line of steps: walked without a wait, they come to the same."""

from typing import Any

import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st

from heddle.engine.faults import RunFailed
from heddle.engine.line import line_of
from heddle.engine.plan import make_plan
from heddle.engine.testing import policies, run_document
from heddle.engine.walk import Limits
from heddle.events import Event
from heddle.spec import DocumentError, read_document
from tests.support.flows import (
    branching,
    component,
    data,
    document,
    edge,
    end,
    flow,
    inner,
    prop,
    start,
    tool,
)

Plain = dict[str, Any]

X = prop("x", "integer")


def sub(wanted: list[Plain], returned: list[Plain], wired: list[Plain]) -> Plain:
    """start, end, and what connects them beside the state."""
    return inner(
        "sub",
        [start(inputs=wanted), end(outputs=returned)],
        ["start", "end"],
        data_edges=wired or None,
        inputs=wanted,
        outputs=returned,
    )


def mapped(kind: str, inside: Plain) -> bytes:
    each = component(kind, "each", subflow=inside)
    return document(flow([start(), each, end()], ["start", "each", "end"]))


class Told:
    """What a run came to, and everything that it told."""

    def __init__(self, events: list[Event], came_to: object) -> None:
        # Items that may go side by side are told of in any order, each in its own.
        place = [getattr(each, "node_path", None) or ("", -1) for each in events]
        order = sorted(range(len(events)), key=lambda n: place[n][1])
        self.by_item = [events[number] for number in order]
        self.came_to = came_to


async def told(document: bytes, given_: Plain, *, most: int, asked: bool) -> Told:
    """A run; ``asked`` has policies around its nodes, which let everything be."""
    consent = {"before": {"action": "proceed"}, "after": {"action": "pass"}}
    around = {half: lambda *_, said=said: said for half, said in consent.items()}
    events: list[Event] = []
    came_to: object
    try:
        came_to, _ = await run_document(
            document,
            given_,
            limits=Limits(max_iterations=most),
            installed=policies(("Policy", {"node": around})) if asked else None,
            events=events,
        )
    except RunFailed as failed:
        came_to = (type(failed), str(failed))
    return Told(events, came_to)


KINDS = st.sampled_from(["integer", "number", "string", "boolean"])
VALUES = st.one_of(st.integers(-9, 9), st.floats(-9, 9), st.text(max_size=3), st.booleans())


@given(
    kind=KINDS,
    of=KINDS,
    other=KINDS,
    named=st.sampled_from(["x", "k", "y"]),
    defaults=st.fixed_dictionaries({}, optional={"k": VALUES, "y": VALUES}),
    wired=st.booleans(),
    values=st.lists(VALUES, max_size=4),
    extra=st.fixed_dictionaries({}, optional={"iterated_k": VALUES}),
    most=st.sampled_from([3, 6, 50]),
)
@settings(max_examples=80, deadline=None)
async def test_a_line_tells_what_a_walk_tells(
    kind: str,
    of: str,
    other: str,
    named: str,
    defaults: Plain,
    wired: bool,
    values: list[Any],
    extra: Plain,
    most: int,
) -> None:
    def typed(title: str, type_: str) -> Plain:
        more = {"default": defaults[title]} if title in defaults else {}
        return prop(title, type_, **more)

    inside = sub(
        [typed("x", kind), typed("k", other)],
        [typed(named, of)],
        [data("start", "x", "end", named)] if wired else [],
    )
    flow_ = mapped("MapNode", inside)
    try:
        make_plan(read_document(flow_))
    except DocumentError:
        reject()  # types that never meet
    event(f"a line: {line_of(make_plan(read_document(document(inside)))) is not None}")
    given_ = {"iterated_x": values, **extra}
    short = await told(flow_, given_, most=most, asked=False)
    long = await told(flow_, given_, most=most, asked=True)
    assert short.came_to == long.came_to
    assert short.by_item == long.by_item


@pytest.mark.parametrize("kind", ["MapNode", "ParallelMapNode"])
async def test_every_item_of_a_long_list_is_told_of(kind: str) -> None:
    flow_ = mapped(kind, LINE)
    given_ = {"iterated_x": [*range(100)]}
    short = await told(flow_, given_, most=1000, asked=False)
    long = await told(flow_, given_, most=1000, asked=True)
    assert short.came_to == long.came_to == {**given_, "collected_x": [*range(100)]}
    assert short.by_item == long.by_item


LINE = sub([X], [X], [])


def test_a_start_and_an_end_are_a_line() -> None:
    assert line_of(make_plan(read_document(document(LINE)))) is not None


@pytest.mark.parametrize(
    "inside",
    [
        inner("calls", [start(), tool("f"), end()], ["start", "f", "end"]),
        inner(
            "chooses",
            [start(), branching("b", {"a": "on"}), end("one"), end("two")],
            ["start", "b"],
            [edge("b", "one", "on"), edge("b", "two", "default")],
        ),
        sub([prop("x", "array", items={"type": "integer"})], [], []),
    ],
)
def test_what_waits_chooses_or_is_looked_through_is_no_line(inside: Plain) -> None:
    assert line_of(make_plan(read_document(document(inside)))) is None
