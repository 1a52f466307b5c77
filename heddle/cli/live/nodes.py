"""What a run's tree is made of: nodes, and what goes on in each.

    librarian            a `TreeNode`: running, done or failed
      survey, shell      its entries: `Call` and `Note`
      "heddle has 1"     the end of the text that its model is writing
      each               a node of a flow inside it

Data alone: `heddle.cli.live.tree` makes it of events, `heddle.cli.live.rows` shows it.
"""

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from itertools import islice
from typing import Final, TypeAlias

from msgspec import Struct

from heddle.cli.live.totals import NodeTotal
from heddle.cli.text.wording import line
from heddle.events import NodeCompleted, NodeFailed, ToolCalled, ToolReturned, Warned
from plugins_host import NodePath, Usage

Key: TypeAlias = NodePath
"""From the outermost node to this one."""
Kin: TypeAlias = dict[str | int, NodeTotal]
"""What all executions of the nodes right under one came to, by their name."""
Ended: TypeAlias = tuple[Key, float, int, Usage | None]
"""A node that did well and has nothing more to show: ``key``, ``took``, ``model_calls`` and
``usage`` of a `TreeNode`, which is made of it when it is drawn."""

# More than the rows of any screen.
DONE_KEPT: Final = 200
# Characters of the text that a model is writing.
TEXT_KEPT: Final = 4000
NAME_SHOWN: Final = 60


class Phase(Enum):
    """How far a node is."""

    RUNNING = auto()
    DONE = auto()
    FAILED = auto()


class Call:
    """A tool call of a node. ``answer`` is there when it has ended."""

    __slots__ = ("answer", "asking", "event", "since")

    def __init__(self, event: ToolCalled, now: float) -> None:
        self.event = event
        self.since = now
        self.answer: ToolReturned | None = None
        self.asking = False


class Note:
    """Something that a person must not miss: a warning, or an attempt that failed.

    ``placed`` once it stands behind the call that it is about.
    """

    __slots__ = ("failure", "placed", "warning")

    def __init__(self, *, warning: Warned | None = None, failure: str = "") -> None:
        self.warning = warning
        self.failure = failure
        self.placed = False


class TreeNode(Struct, eq=False):
    """A node of the flow, or the flow itself, and what is under it.

    A struct, as a run has many: one is made in a tenth of the time of an object.

    Attributes:
        key: Where it is.
        since: When it began, in the seconds of the clock.
        parent: The node around it; None for the flow.
        kin: The ``totals`` of its parent, when it is right under it.
        title: What the run is called; "" for a node.
        phase: How far it is.
        took: How long it was at work, once it is not.
        attempt: Which try this is, from 1.
        error: Why it failed, while it has.
        entries: Its last tool calls and notes, in order.
        open: Its tool calls that have not ended, by their id.
        running: The nodes under it that are at work, by where they are. This and the next
            two are there once it had any.
        done: The last ones that are not.
        totals: Of those right under it.
        ended: How many are not at work any more.
        pieces: The text that its model is writing, as it came.
        speaker: Which of its agents writes it.
        older: Tool calls before those in ``entries``.
        rounds: The last round of its agent that called a tool.
        calls: Tool calls that it made.
        usage: The tokens of its model calls, once it has ended and when they were counted.
        model_calls: How many of these there were.
    """

    key: Key
    since: float
    parent: "TreeNode | None" = None
    kin: Kin | None = None
    title: str = ""
    phase: Phase = Phase.RUNNING
    took: float = 0.0
    attempt: int = 1
    error: str = ""
    entries: deque[Call | Note] | None = None
    open: dict[str, Call] | None = None
    running: "dict[Key, TreeNode] | None" = None
    done: "deque[TreeNode | Ended] | None" = None
    totals: Kin | None = None
    ended: int = 0
    pieces: list[str] | None = None
    speaker: str | None = None
    older: int = 0
    rounds: int = 0
    calls: int = 0
    usage: Usage | None = None
    model_calls: int = 0

    @property
    def label(self) -> str:
        """What to call it under its parent."""
        # Most nodes of a large run are never drawn.
        return self.title or _label(self.key)

    @property
    def gone(self) -> int:
        """How many nodes under it have ended and are not kept."""
        return self.ended - len(self.done or ())

    def expect(self) -> None:
        """Have room for nodes under it."""
        self.running, self.done, self.totals = {}, deque(maxlen=DONE_KEPT), {}

    def last(self, number: int) -> "Iterator[TreeNode]":
        """The last so many under it that have ended, at most those that are kept."""
        done = self.done or ()
        for each in islice(done, max(len(done) - number, 0), None):
            if isinstance(each, TreeNode):
                yield each
            else:
                key, took, model_calls, usage = each
                yield TreeNode(
                    key,
                    0.0,
                    self,
                    phase=Phase.DONE,
                    took=took,
                    model_calls=model_calls,
                    usage=usage,
                )

    def spent(self, event: NodeCompleted | NodeFailed) -> None:
        """Keep of an event what is told of it. Its state may be large."""
        if event.model_calls:
            self.model_calls = event.model_calls
        if event.usage is not None:
            self.usage = event.usage

    @property
    def text(self) -> str:
        """The end of what its model is writing."""
        if not self.pieces:
            return ""
        text = "".join(self.pieces)[-TEXT_KEPT:]
        self.pieces = [text]
        return text


def _label(key: Key) -> str:
    """What to call a node under its parent: ``ask``, ``[2] ask``."""
    name = line(str(key[-1]), most=NAME_SHOWN)
    indexes = []
    for step in reversed(key[:-1]):
        if not isinstance(step, int):
            break
        indexes.append(f"[{step}]")
    return f"{''.join(reversed(indexes))} {name}" if indexes else name
