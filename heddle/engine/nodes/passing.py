"""StartNode, EndNode and BranchingNode: nodes that only look at the state."""

from typing import cast

from heddle.engine.conventions import DEFAULT_BRANCH, DEFAULT_BRANCH_KEY
from heddle.engine.faults import InputMissing
from heddle.engine.graph import CHAT_HISTORY, Graph, GraphNode, branching_input
from heddle.engine.signatures import Properties, end_outputs
from heddle.engine.state import State, check_inputs, declared_outputs, glance_at, seen
from heddle.engine.work import Pure, Result
from heddle.spec import BranchingNode, EndNode, StartNode, as_text
from plugins_host import nearest


def start(node: GraphNode, graph: Graph) -> Pure:
    """Pass the state through: declared inputs checked, defaults filled in.

    A StartNode that lists only outputs documents what it expects: their defaults are
    filled in, nothing is enforced.
    """
    documented = cast("StartNode", node.component).outputs or ()
    defaults = {each.title: each.default for each in documented if each.has_default}

    glance = glance_at(graph.inputs)

    def step(given: State) -> Result:
        if glance is not None and seen(glance, given):
            filled = dict(given)
        else:
            filled = check_inputs(graph.inputs, given)
        for title, default in defaults.items():
            filled.setdefault(title, default)
        return Result(filled)

    return Pure(step, checks=glance is None)


def end(node: GraphNode, graph: Graph) -> Pure:
    """Return what the EndNode declares; the whole state when it declares nothing.

    The turns before the run are not of its making, and so no result.
    """
    declared = end_outputs(cast("EndNode", node.component))

    wanted = _with_defaults(declared, graph)
    glance = glance_at(wanted)

    def step(given: State) -> Result:
        if not wanted:
            if CHAT_HISTORY in given:
                given = {key: given[key] for key in given if key != CHAT_HISTORY}
            return Result(given)
        if glance is not None and seen(glance, given):
            return Result({name: given[name] for name, _ in glance})
        return Result(declared_outputs(wanted, given, of="the flow"))

    return Pure(step, checks=glance is None)


def _with_defaults(declared: Properties, graph: Graph) -> Properties:
    """The EndNode's outputs, with the flow's default where only the flow has one."""
    flow = {each.title: each for each in graph.outputs if each.has_default}
    return tuple(
        each if each.has_default or each.title not in flow else flow[each.title]
        for each in declared
    )


def _meant(key: str, given: State) -> str:
    guess = nearest(key, given)
    return f"Did you mean {guess!r}?" if guess else ""


def branch(node: GraphNode, graph: Graph) -> Pure:
    """Choose by the text of one input: 5 and true match "5" and "true"."""
    component = cast("BranchingNode", node.component)
    key = branching_input(node.shape)
    mapping = component.mapping
    default = mapping.get(DEFAULT_BRANCH_KEY, DEFAULT_BRANCH)

    def step(given: State) -> Result:
        if key not in given:
            raise InputMissing(
                f"there is nothing to branch by: the state has no {key!r}",
                fix=_meant(key, given)
                or f"Connect {key!r} with a data edge, or give it a default.",
            )
        return Result({}, mapping.get(as_text(given[key]), default))

    return Pure(step)
