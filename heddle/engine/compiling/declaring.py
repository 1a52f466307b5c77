"""What must hold between the inputs and outputs that one node declares.

One function a node type, each saying everything that is wrong:

    BranchingNode      it looks at one value
    InputMessageNode   a person's answer is one text
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from heddle.engine.signatures import Properties, first_declared, names, type_text
from heddle.spec import (
    BranchingNode,
    Component,
    InputMessageNode,
    Problem,
)

Found = Iterator[tuple[str, str, str]]
"""Field of the node, what is wrong, how to fix it."""


def declaration_problems(node: Component, path: str) -> list[Problem]:
    """Everything that is wrong in what the node at ``path`` declares."""
    check = _CHECKS.get(type(node))
    return [Problem(path + at, what, fix) for at, what, fix in check(node)] if check else []


def _listed(titles: frozenset[str]) -> str:
    return ", ".join(map(repr, sorted(titles)))


def _one_input(node: BranchingNode) -> Found:
    declared = first_declared(node.inputs)
    if len(declared) > 1:
        what = f"{node.name!r} chooses by one input, and declares {len(declared)}: "
        yield ".inputs", what + _listed(names(declared)), "Keep the one in the mapping."


def _one_text(node: InputMessageNode) -> Found:
    declared: Properties = first_declared(node.outputs)
    if len(declared) > 1:
        what = f"{node.name!r} returns one answer, and declares {len(declared)} outputs: "
        yield ".outputs", what + _listed(names(declared)), "Ask for each in its own node."
    for each in declared[:1]:
        if each.schema.get("type", "string") != "string":
            what = f"output {each.title!r} of {node.name!r} is {type_text(each.schema)}, "
            fix = 'Declare "type": "string".'
            yield ".outputs", f"{what}and what a person answers is text", fix


_CHECKS: Final[Mapping[type[Component], Callable[[Any], Found]]] = {
    BranchingNode: _one_input,
    InputMessageNode: _one_text,
}
