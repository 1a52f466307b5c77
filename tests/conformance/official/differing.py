"""Where heddle and pyagentspec differ by intent, and why.

Everything that is not in one of these tables is the same for both: what a document means,
and whether it is read at all.
"""

from collections.abc import Mapping
from typing import Final

READ: Final = frozenset(
    (
        "nothing is wrong",
        "a field that nobody knows",
        "two edges out of a node",
        "a data edge from a number to text",
        "no list of data edges",
        "a default of another type",
        "an output of the flow with a default",
        "no version",
        "a retry policy with a field that nobody knows",
        "a tool",
        "a request",
        "a flow in a flow",
        "a map",
        "a choice",
        "an agent",
        "an agent that asks itself",
        "a conversation that is measured in characters alone",
    )
)
"""Which of the small documents both read; both refuse all others that are not below."""

ONLY_OURS_READS: Final[Mapping[str, str]] = {
    "two edges out of the StartNode": "the first is taken, and a warning says so",
    "inputs of a StartNode that are not its outputs": (
        "one that lists outputs documents what it expects; a warning says what counts"
    ),
    "inputs of an EndNode that are not its outputs": "a warning says what counts",
    "inputs of the flow that its StartNode lacks": "a warning says what counts",
    "a placeholder that no input declares": (
        "it is filled from what the flow carries, and kept with a warning when nothing is"
    ),
    "an input that no placeholder names": "more than a prompt needs does no harm",
    "branches of an LlmNode": "where it goes is what its edges say, and they are checked",
    "a version that is not known yet": "a warning says that it is not understood",
    "an LlmNode with several outputs, in a document that declares 25.4.1": (
        "the schema of that version has outputs on an LlmNode, and examples of the "
        "specification declare that version"
    ),
    "a ToolNode with other inputs than its tool": "the node's own list counts",
    "a cache of summaries with no room for any": "no summary is kept",
    "a limit of characters, and none of messages written": (
        "whoever gives one limit means that one, and no usual one beside it"
    ),
}
"""Small documents that only pyagentspec refuses."""

ONLY_OURS_REFUSES: Final[Mapping[str, str]] = {
    "an edge of a branch that the node does not have": (
        "no run would ever take it: a misspelt branch would be a path that is lost"
    ),
    "one node twice": "one of the two is a mistake",
    "two nodes of one name": "events and errors name nodes, and could mean either",
    "an allow list entry without a host": "it would allow nothing",
    "a map with a reducer for an output that there is not": "there is nothing to collect",
    "a map that adds texts": "only numbers are added, so every run would end there",
    "a CatchExceptionNode whose failure leads nowhere": (
        "nothing leaves the node by its branch for a failure, so one would end the run"
    ),
}
"""Small documents that only heddle refuses."""

OF_OTHERS: Final[Mapping[str, str]] = {
    "howto_flow_with_conditional_branches": "old version",
    "howto_structured_generation1": "old version",
    "howto_structured_generation2": "old version",
    "pyagentspec_example_config": "old version",
    "howto_summarization_transforms": "26.2.0",
    "howto_retry_configuration": "26.2.0",
    "howto_parallelflownode": "two nodes of one name",
    "flow_3": "two nodes of one name",
    "example_serialized_flow": "one node twice",
}
"""Documents of others that only one of the two reads, and why.

old version: an LlmNode with several outputs, in a document that declares 25.4.1 (above).
26.2.0: pyagentspec does not know that version, which has a schema of its own.
The rest are above.
"""

TEAM_INPUTS: Final = "inputs: ['what', 'who'] is []"
"""A team that declares no inputs takes those of whoever talks to the user: what its
instructions name could be given by nobody else. pyagentspec infers none."""

START_INPUTS: Final = ".start_node.inputs: [] is ['name']"
"""A StartNode that lists nothing but outputs documents them, and enforces none. pyagentspec
takes them for its inputs, too."""

MORE_FLOWS: Final[Mapping[str, frozenset[tuple[str, str]]]] = {
    "what is not known may fit: the value is looked at when it flows": frozenset(
        {("any", other) for other in ("integer", "number", "boolean", "null", "closed")}
        | {("any", other) for other in ("list", "texts", "integers", "numbers", "lists")}
        | {("any", other) for other in ("object", "a", "a and b", "to numbers", "to texts")}
        | {("list", other) for other in ("integers", "numbers", "lists")}
        | {("object", "to numbers"), ("a", "closed")}
    ),
    "what has no other properties fits where others may be": frozenset(
        {("closed", "object"), ("closed", "a"), ("closed", "to texts")}
    ),
}
"""Types that only heddle joins, source and destination, by why."""
