"""Which nodes of a flow speak last: what they write is the answer, as far as one can tell.

    start -> plan -> write -> end          {"write"}
    start -> ask -> more? -> ask | end     {"ask"}

Pure.
"""

from typing import Final

from heddle.engine.graph import Graph

SILENT: Final = frozenset(
    {
        *("StartNode", "EndNode", "BranchingNode", "ToolNode", "ApiNode"),
        *("InputMessageNode", "OutputMessageNode"),
    }
)
"""Types whose nodes ask no model."""


def last_speakers(graph: Graph) -> frozenset[str]:
    """The names of nodes behind which no other node asks a model."""
    onward = [
        {each for each in (node.onward, *node.branches.values()) if each is not None}
        for node in graph.nodes
    ]
    speaking = {node.index for node in graph.nodes if node.type not in SILENT}
    return frozenset(
        graph.nodes[each].name
        for each in speaking
        if not (_reached(each, onward) & speaking) - {each}
    )


def _reached(begin: int, onward: list[set[int]]) -> set[int]:
    reached: set[int] = set()
    ahead = [begin]
    while ahead:
        new = onward[ahead.pop()] - reached
        reached |= new
        ahead += new
    return reached
