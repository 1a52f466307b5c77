"""What must hold in a flow as its author wrote it, before anybody looks at the graph.

A flow and its nodes have names, edges join nodes of the flow, and a branch leads to one
node. Checks read a flow with problems of its own as well, as far as it goes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from heddle.spec.component import Component
from heddle.spec.flows import NEXT_BRANCH, Flow
from heddle.spec.problems import Broken, Path, Problems, shown

_ENDS: Final = {
    "control_flow_connections": ("from_node", "to_node"),
    "data_flow_connections": ("source_node", "destination_node"),
}


def check_flow(
    flow: Flow | Broken,
    path: Path,
    paths: Mapping[Component, Path],
    problems: Problems,
) -> None:
    """Add everything that is wrong with one flow; ``paths`` says where its parts stand."""
    if _get(flow, "name") == "":
        problems.add((path, "name"), "the flow has no name", "Name it.")
    nodes = _get(flow, "nodes")
    if not isinstance(nodes, (list, tuple)):
        # That was told, and of nodes that nobody knows all edges would be wrong.
        return
    if not nodes:
        problems.add(
            (path, "nodes"),
            "the flow has no nodes",
            "Give it a StartNode and an EndNode at least.",
        )
        return
    _check_nodes(nodes, path, problems)
    known = {id(node) for node in nodes}
    # An entry that leads nowhere may stand for any node that seems to be missing.
    is_whole = not any(isinstance(node, Broken) and not node.values for node in nodes)
    start = _get(flow, "start_node")
    if is_whole and isinstance(start, Component) and id(start) not in known:
        problems.add(
            (path, "start_node"),
            f"the node {shown(start.name)} is not one of the flow's nodes",
            "Add it to 'nodes'.",
        )
    for field, ends in _ENDS.items():
        for index, edge in enumerate(_list(_get(flow, field))):
            if not isinstance(edge, Component | Broken):
                continue
            place: Path = (
                paths[edge] if isinstance(edge, Component) else ((path, field), index)
            )
            for end in ends:
                node = _get(edge, end)
                if is_whole and isinstance(node, Component) and id(node) not in known:
                    problems.add(
                        (place, end),
                        f"the node {shown(node.name)} is not one of the flow's nodes",
                        "Add it to 'nodes', or let the edge join others.",
                    )
    _check_branches(_list(_get(flow, "control_flow_connections")), path, problems)


def _check_nodes(nodes: Iterable[Any], path: Path, problems: Problems) -> None:
    seen: dict[int, int] = {}
    names: dict[str, int] = {}
    for index, node in enumerate(nodes):
        place = ((path, "nodes"), index)
        if not isinstance(node, Component | Broken):
            continue
        if id(node) in seen:
            problems.add(
                place,
                f"the node is listed twice: it is also at nodes[{seen[id(node)]}]",
                "Keep one.",
            )
            continue
        seen[id(node)] = index
        name = _get(node, "name")
        if name == "":
            problems.add(place, "the node has no name", "Name it.")
        elif type(name) is str and names.setdefault(name, index) != index:
            problems.add(
                place,
                f"the name {shown(name)} is taken: nodes[{names[name]}] has it too",
                "Rename one of the nodes.",
            )


def _check_branches(edges: Iterable[Any], path: Path, problems: Problems) -> None:
    """Refuse two edges on one named branch.

    Several on the branch ``next`` are the graph's affair: the first of them is taken.
    """
    taken: dict[tuple[int, str], int] = {}
    for index, edge in enumerate(edges):
        branch = _get(edge, "from_branch")
        node = _get(edge, "from_node")
        if (
            type(branch) is not str
            or branch == NEXT_BRANCH
            or not isinstance(node, Component)
        ):
            continue
        first = taken.setdefault((id(node), branch), index)
        if first != index:
            problems.add(
                ((path, "control_flow_connections"), index),
                f"the branch {shown(branch)} of {shown(node.name)} leads to two nodes: "
                f"control_flow_connections[{first}] carries it too",
                "Keep one edge for each branch.",
            )


def _get(component: Any, field: str) -> Any:
    if isinstance(component, Broken):
        return component.values.get(field)
    return getattr(component, field, None)


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, (list, tuple)) else ()
