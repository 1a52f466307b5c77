"""Flows in flows of every kind, beside a few lines that say what they mean.

A program takes a number and gives one. It is written out as a flow, with FlowNodes,
MapNodes, parallel nodes, CatchExceptionNodes and loops, and run; and it is computed. Both
give the same after as many executions of nodes, or both fail. Cancelled anywhere, a run of
it leaves nothing open.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.engine.faults import NodeFailed, NodeFault
from heddle.engine.testing import policies, run_document
from heddle.engine.walk import Limits
from heddle.events import Event, FlowCompleted, NodeStarted
from tests.heddle.engine.test_cancelling import unpaired
from tests.support.flows import component, document, edge, flow, prop, server_tool

Plain: TypeAlias = dict[str, Any]
Program: TypeAlias = "tuple[Step, ...]"


class Add(NamedTuple):
    """Add a number."""

    k: int


class Fail(NamedTuple):
    """Fail for every multiple of a number."""

    of: int


class Sub(NamedTuple):
    """A flow as a step."""

    body: Program


class Each(NamedTuple):
    """A flow for each of so many numbers from this one on, their results put together."""

    kind: str
    items: int
    reducer: str
    body: Program


class Both(NamedTuple):
    """Two flows at once, their results added."""

    one: Program
    other: Program


class Caught(NamedTuple):
    """A flow whose failure is -1."""

    body: Program


class UpTo(NamedTuple):
    """A loop: one more until it is a multiple of a number."""

    of: int


Step: TypeAlias = Add | Fail | Sub | Each | Both | Caught | UpTo


class Failed(Exception):
    """What a program comes to that does not give a number."""


REDUCERS: Final[Mapping[str, Any]] = {
    "sum": sum,
    "max": lambda numbers: max(numbers),
    "append": lambda numbers: sum(number * place for place, number in enumerate(numbers)),
}


class Meaning:
    """What programs mean. ``nodes`` counts the executions that their flows take, ``caught``
    how many failures went no further."""

    def __init__(self) -> None:
        self.nodes = 0
        self.caught = 0

    def of(self, program: Program, x: int) -> int:
        """The result of a program for a number.

        Raises:
            Failed: It gives none.
        """
        self.nodes += 2  # its start and its end
        for step in program:
            x = self.step(step, x)
        return x

    def step(self, step: Step, x: int) -> int:
        """The result of a step."""
        match step:
            case Add(k):
                self.nodes += 1
                return x + k
            case Fail(of):
                self.nodes += 1
                if x % of == 0:
                    raise Failed
                return x
            case Sub(body):
                self.nodes += 1
                return self.of(body, x)
            case Each(_, items, reducer, body):
                self.nodes += 3
                found = [self.of(body, x + number) for number in range(items)]
                return int(REDUCERS[reducer](found))
            case Both(one, other):
                self.nodes += 2
                results = self.of((*one, Add(0)), x), self.of((*other, Add(0)), x)
                return sum(results)
            case Caught(body):
                self.nodes += 1
                try:
                    return self.of(body, x)
                except Failed:
                    self.caught += 1
                    return -1
            case UpTo(of):
                while True:
                    self.nodes += 3
                    x += 1
                    if x % of == 0:
                        return x


X: Final = prop("x", "integer")


class Writer:
    """Writes one flow, and those inside it. Every component has a name of its own.

    ``ways`` are the nodes, and their branches, from which the next node is reached.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._nodes: list[Plain] = []
        self._edges: list[Plain] = []
        self._ways: list[tuple[str, str | None]] = []

    def flow_of(self, program: Program, gives: str = "x") -> Plain:
        """The program as a flow, with its result under this name."""
        self._put("StartNode", inputs=[X])
        for step in program:
            self._step(step)
        outputs = [{**X, "title": gives, "default": -1}]
        if gives != "x":
            self._tool("rename", [X], outputs)
        self._put("EndNode", outputs=outputs)
        made = flow(self._nodes, (), self._edges, inputs=[X], outputs=outputs)
        name = f"flow{next(self._numbers)}"
        return {**made, "id": name, "name": name}

    def _inside(self, program: Program, gives: str = "x") -> Plain:
        found = Writer(self._numbers).flow_of(program, gives)
        del found["agentspec_version"]
        return found

    def _put(self, kind: str, **fields: Any) -> str:
        name = f"{kind}{next(self._numbers)}"
        self._nodes.append(component(kind, name, **fields))
        self._edges += [edge(source, name, branch) for source, branch in self._ways]
        self._ways = [(name, None)]
        return name

    def _tool(self, tool: str, inputs: list[Plain], outputs: list[Plain]) -> str:
        made = {
            **server_tool(tool, inputs=inputs, outputs=outputs),
            "id": f"tool{next(self._numbers)}",
        }
        return self._put("ToolNode", tool=made)

    def _step(self, step: Step) -> None:
        match step:
            case Add(k):
                self._tool("add", [X, prop("k", "integer", default=k)], [X])
            case Fail(of):
                self._tool("fail", [X, prop("of", "integer", default=of)], [X])
            case Sub(body):
                self._put("FlowNode", subflow=self._inside(body))
            case Each(kind, items, reducer, body):
                numbers = {"type": "array", "items": {"type": "integer"}}
                found = numbers if reducer == "append" else {"type": "integer"}
                collected = {**found, "title": "collected_x"}
                count_ = prop("items", "integer", default=items)
                self._tool("spread", [X, count_], [{**numbers, "title": "iterated_x"}])
                self._put(kind, subflow=self._inside(body), reducers={"x": reducer})
                self._tool(f"fold_{reducer}", [collected], [X])
            case Both(one, other):
                flows = [self._inside(one, "a"), self._inside(other, "b")]
                self._put("ParallelFlowNode", subflows=flows)
                self._tool("plus", [prop("a", "integer"), prop("b", "integer")], [X])
            case Caught(body):
                default = [{**X, "default": -1}]
                name = self._put(
                    "CatchExceptionNode", subflow=self._inside(body), outputs=default
                )
                self._ways.append((name, "caught_exception_branch"))
            case UpTo(of):
                again = self._tool("add", [X, prop("k", "integer", default=1)], [X])
                self._tool("rest", [X, prop("of", "integer", default=of)], [REST])
                name = self._put("BranchingNode", mapping={"0": "done"}, inputs=[REST])
                self._edges.append(edge(name, again, "default"))
                self._ways = [(name, "done")]


REST: Final = prop("rest", "integer")


async def _now_and_then(x: int) -> None:
    """Let others go first, as often as the number says."""
    for _ in range(x % 4):
        await trio.lowlevel.checkpoint()


async def add(x: int, k: int) -> Plain:
    await _now_and_then(x)
    return {"x": x + k}


async def fail(x: int, of: int) -> Plain:
    await _now_and_then(x)
    if x % of == 0:
        raise NodeFault("that is a multiple")
    return {"x": x}


TOOLS: Final[Mapping[str, Any]] = {
    "add": add,
    "fail": fail,
    "rename": lambda x: {"a": x, "b": x},
    "spread": lambda x, items: {"iterated_x": list(range(x, x + items))},
    "fold_sum": lambda collected_x: {"x": collected_x},
    "fold_max": lambda collected_x: {"x": collected_x},
    "fold_append": lambda collected_x: {"x": REDUCERS["append"](collected_x)},
    "plus": lambda a, b: {"x": a + b},
    "rest": lambda x, of: {"rest": x % of},
}


def programs(inner_: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    """Programs of steps whose flows are made of these."""
    kinds = st.sampled_from(["MapNode", "ParallelMapNode"])
    each = st.builds(
        Each, kinds, st.integers(1, 3), st.sampled_from(list(REDUCERS)), inner_
    )
    nested = (st.builds(Sub, inner_), each, st.builds(Both, inner_, inner_))
    step = st.one_of(*LEAVES, *nested, st.builds(Caught, inner_))
    return st.lists(step, max_size=3).map(tuple)


LEAVES: Final = (
    st.builds(Add, st.integers(-3, 3)),
    st.builds(Fail, st.integers(2, 5)),
    st.builds(UpTo, st.integers(1, 3)),
)
FLAT: Final = st.lists(st.one_of(*LEAVES), max_size=2).map(tuple)
PROGRAMS: Final = programs(st.recursive(FLAT, programs, max_leaves=6))


@settings(max_examples=80)
@given(PROGRAMS, st.integers(-9, 9))
def test_a_flow_comes_to_what_its_program_means(program: Program, x: int) -> None:
    events: list[Event] = []
    data = document(Writer(count()).flow_of(program))

    async def run() -> int | None:
        try:
            result, _ = await run_document(
                data,
                {"x": x},
                tools=TOOLS,
                limits=Limits(max_iterations=1_000_000),
                events=events,
            )
        except NodeFailed:
            return None
        return int(result["x"])

    meaning = Meaning()
    try:
        wanted: int | None = meaning.of(program, x)
    except Failed:
        wanted = None
    assert trio.run(run) == wanted
    assert list(unpaired(events)) == []
    if wanted is not None and not meaning.caught:
        # What goes on beside a failure is stopped, sooner or later.
        begun = sum(isinstance(each, NodeStarted) for each in events)
        assert begun == meaning.nodes


class Cut(list[Event]):
    """Events of a run that is cancelled when there are so many."""

    def __init__(self, at: int, scope: trio.CancelScope) -> None:
        super().__init__()
        self._at = at
        self._scope = scope

    def append(self, event: Event, /) -> None:
        super().append(event)
        if len(self) == self._at:
            self._scope.cancel()


async def passes(event: Any, ctx: Any) -> Plain:
    await trio.lowlevel.checkpoint()
    return {"action": "proceed" if ctx.half == "before" else "pass"}


AROUND: Final = {
    "node": {"before": passes, "after": passes},
    "nodeError": {"after": passes},
}


@settings(max_examples=60)
@given(PROGRAMS, st.integers(-9, 9), st.integers(1, 60), st.booleans(), st.booleans())
def test_a_run_that_is_cancelled_anywhere_ends_whole(
    program: Program, x: int, at: int, asked: bool, traced: bool
) -> None:
    data = document(Writer(count()).flow_of(program))

    async def run() -> Cut:
        before = trio.lowlevel.current_statistics().tasks_living
        with trio.CancelScope() as scope:
            events = Cut(at, scope)
            with suppress(NodeFailed):
                await run_document(
                    data,
                    {"x": x},
                    tools=TOOLS,
                    limits=Limits(max_iterations=1_000_000),
                    events=events,
                    installed=policies(("Pass", AROUND)) if asked else None,
                    trace=traced,
                )
        assert trio.lowlevel.current_statistics().tasks_living == before
        if scope.cancelled_caught:
            assert not any(isinstance(each, FlowCompleted) for each in events)
        return events

    assert list(unpaired(trio.run(run))) == []
