"""Names of branches, inputs and outputs that stand where a document writes none.

Most are Agent Spec's, the rest heddle's; authors meet all of them in their documents.
"""

from typing import Final

NEXT: Final = "next"
"""The branch of an edge that names none."""
DEFAULT_BRANCH: Final = "default"
"""Where a BranchingNode goes with a value that it does not map."""
DEFAULT_BRANCH_KEY: Final = "DEFAULT_BRANCH"
"""A mapping key that renames the default branch."""
BRANCHING_KEY: Final = "branching_mapping_key"
"""The input of a BranchingNode that declares none."""
GENERATED_TEXT: Final = "generated_text"
"""The output of an LlmNode that declares none."""
AGENT_RESULT: Final = "result"
"""The output of an agent that declares none."""
USER_INPUT: Final = "user_input"
"""The output of an InputMessageNode that declares none."""
ITERATED: Final = "iterated_"
"""What an input of a MapNode is called, before the name of the flow's input."""
COLLECTED: Final = "collected_"
"""What an output of a MapNode is called, before the name of the flow's output."""
CAUGHT_INFO: Final = "caught_exception_info"
"""The output of a CatchExceptionNode that says what went wrong; null when nothing did."""
CAUGHT_BRANCH: Final = "caught_exception_branch"
"""Where a CatchExceptionNode goes when something went wrong."""

RESPONSE: Final = "response"
"""The output of an ApiNode, or of a RemoteTool, that declares none."""
HTTP_RESPONSE: Final = "http_response"
"""An output of this name is the whole answer, as text."""

TRANSFORM_OUTPUTS: Final = frozenset(
    ("transform_status", "transform_reason", "transform_name", "transform_phase")
)
"""What an agent puts out beside its outputs when a transform rejects."""
REJECTED: Final = ("transform_status", "rejected")
"""The one of these that says so, and what it says."""
