"""What goes on in a run, as a tree: from its events to a state that can be drawn.

    flow.json                    the root
      librarian                  a node: running, done or failed
        survey, shell            its entries: tool calls, warnings
        "heddle has 120 mod"     the end of the text that its model is writing
        each                     a node of a flow inside it

Pure: events and times in, no I/O. What grows with a run is counted, and only its end is
kept, so that a run of a million nodes takes no more room than one of a hundred. What a
person must not miss goes into `RunTree.leaving` before it is dropped.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, ClassVar, Final, TypeAlias, TypeGuard

from heddle.cli.run_totals import Totals
from heddle.cli.telling import STYLES, Marks, Spans, indented, warned
from heddle.cli.wording import line, place
from heddle.events import (
    ConfirmationAsked,
    ConfirmationGiven,
    Event,
    FlowStarted,
    MessageSaid,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    TokenDelta,
    TokensDiscarded,
    ToolCalled,
    ToolReturned,
    Warned,
)
from plugins_host import NodePath, Usage

Key: TypeAlias = NodePath
"""From the outermost node to this one."""

# More than the rows of any screen.
DONE_KEPT: Final = 200
# Of one node; the last ones tell where it is.
ENTRIES_KEPT: Final = 32
# Characters of the text that a model is writing.
TEXT_KEPT: Final = 4000
# Pieces of text that are not put together yet.
PIECES: Final = 512
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


class TreeNode:
    """A node of the flow, or the flow itself, and what is under it.

    Attributes:
        key: Where it is.
        title: What the run is called; "" for a node.
        since: When it began, in the seconds of the clock.
        took: How long it was at work, once it is not.
        attempt: Which try this is, from 1.
        error: Why it failed, while it has.
        entries: Its last tool calls and notes, in order.
        older: Tool calls before those.
        rounds: The last round of its agent that called a tool.
        calls: Tool calls that it made.
        usage: The tokens of its model calls, once it has ended and when they were counted.
        model_calls: How many of these there were.
        running: The nodes under it that are at work, by where they are.
        done: The last ones that are not.
        gone: How many more there were.
    """

    # Most nodes have none of these, and a run may have many nodes.
    title = ""
    took = 0.0
    phase = Phase.RUNNING
    attempt = 1
    error = ""
    entries: deque[Call | Note] | None = None
    open: dict[str, Call] | None = None
    running: "dict[Key, TreeNode] | None" = None
    done: "deque[TreeNode] | None" = None
    pieces: list[str] | None = None
    older = 0
    rounds = 0
    calls = 0
    gone = 0
    speaker: str | None = None
    usage: Usage | None = None
    model_calls = 0

    def __init__(self, key: Key, since: float, parent: "TreeNode | None") -> None:
        self.key = key
        self.since = since
        self.parent = parent

    @property
    def label(self) -> str:
        """What to call it under its parent."""
        # Most nodes of a large run are never drawn.
        return self.title or _label(self.key)

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


class RunTree:
    """The tree of one run.

    Args:
        title: What to call the run.
        now: When it began, in the seconds of some clock; as all times here.
        shown: Warnings that were told already.
        marks: The signs before what leaves.

    Attributes:
        root: The flow. It fails and ends with `ended`.
        totals: What the whole run did.
        leaving: What was dropped and is to be left for good, oldest first; whoever draws
            takes it from here.
    """

    def __init__(
        self,
        title: str,
        now: float,
        *,
        marks: Marks,
        shown: Iterable[str] = (),
    ) -> None:
        self.root = TreeNode((), now, None)
        self.root.title = line(title, most=NAME_SHOWN)
        self.totals = Totals()
        self.leaving: list[Spans] = []
        self.begun = False
        self._marks = marks
        self._shown = frozenset(shown)
        self._running: dict[Key, TreeNode] = {}
        # Whose text came last. Pieces of text are most of what happens, and mostly of
        # the same node as the one before.
        self._heard = self.root
        self._last = TokenDelta("", "")

    @property
    def running(self) -> int:
        """Nodes at work."""
        return len(self._running)

    def see(self, event: Event, now: float) -> None:
        """Note what happened, and when."""
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event, now)

    def hear(self, event: TokenDelta) -> None:
        """Note a piece of text, whenever it came."""
        # The same objects; what is only equal takes the long way.
        last = self._last
        if (
            event.node_path is last.node_path
            and event.node_name is last.node_name
            and event.agent is last.agent
        ):
            pieces = self._heard.pieces
            if pieces is not None and len(pieces) < PIECES:
                pieces.append(event.delta)
                return
        self._hear_anew(event)

    def ended(self, error: BaseException | None, now: float) -> None:
        """The run is over, or was given up."""
        root = self.root
        root.phase = Phase.DONE if error is None else Phase.FAILED
        root.took = now - root.since
        for node in (root, *self._running.values()):
            self._leave_notes(node)
        for key, node in self._running.items():
            self.totals.node_stopped(key, now - node.since)
        self._running.clear()

    # --- nodes ------------------------------------------------------------------------

    def _node_started(self, event: NodeStarted, now: float) -> None:
        key = event.node_path or (event.node_name,)
        parent = self._parent(key)
        node = self._again(parent, key) if event.attempt > 1 else None
        if node is None:
            node = TreeNode(key, now, parent)
        node.attempt = event.attempt
        self._running[key] = node
        if parent.running is None:
            parent.running = {}
        parent.running[key] = node

    def _again(self, parent: TreeNode, key: Key) -> TreeNode | None:
        """The node that failed and is tried again, taken from where it was put aside."""
        node = self._failed(parent, key)
        if node is None:
            return None
        assert parent.done is not None
        parent.done.remove(node)
        node.phase = Phase.RUNNING
        node.usage, node.model_calls = None, 0
        self._enter(node, Note(failure=node.error))
        node.error = ""
        return node

    def _failed(self, parent: TreeNode, key: Key) -> TreeNode | None:
        for node in reversed(parent.done or ()):
            if node.key == key:
                return node if node.phase is Phase.FAILED else None
        return None

    def _node_completed(self, event: NodeCompleted, now: float) -> None:
        key = event.node_path or (event.node_name,)
        node = self._running.pop(key, None)
        if node is None:
            # A policy put a result in the place of its failure.
            node = self._failed(self._parent(key), key)
            if node is not None:
                node.phase = Phase.DONE
                node.spent(event)
                failure, node.error = node.error, ""
                self._leave(Note(failure=failure), node)
                self.totals.node_replaced(key)
            return
        self._put_aside(node, Phase.DONE, event, now)

    def _node_failed(self, event: NodeFailed, now: float) -> None:
        node = self._running.pop(event.node_path or (event.node_name,), None)
        if node is not None:
            node.error = event.error.message
            self._put_aside(node, Phase.FAILED, event, now)

    def _put_aside(
        self, node: TreeNode, phase: Phase, event: NodeCompleted | NodeFailed, now: float
    ) -> None:
        parent = node.parent
        assert parent is not None
        assert parent.running is not None
        node.phase, node.took = phase, now - node.since
        node.spent(event)
        parent.running.pop(node.key, None)
        if parent.done is None:
            parent.done = deque()
        if len(parent.done) == DONE_KEPT:
            parent.done.popleft()
            parent.gone += 1
        parent.done.append(node)
        if node.running or node.done:
            self._collapse(node)
        if node.entries:
            self._leave_notes(node)
        if node.pieces is not None:
            node.pieces = None
        if node.open is not None:
            node.open = None
        self.totals.node_ended(node.key, phase is Phase.FAILED, event, node.took)

    def _collapse(self, node: TreeNode) -> None:
        """Let go of what is under a node that has ended."""
        for child in (node.running or {}).values():
            self._running.pop(child.key, None)
            self._collapse(child)
        node.running = node.done = None

    def _parent(self, key: Key) -> TreeNode:
        """The innermost node around this one that is at work."""
        while len(key) > 1:
            key = key[:-1]
            while key and isinstance(key[-1], int):
                key = key[:-1]
            found = self._running.get(key)
            if found is not None:
                return found
        return self.root

    # --- what goes on in a node -------------------------------------------------------

    def _token_delta(self, event: TokenDelta, now: float) -> None:  # noqa: ARG002
        self.hear(event)

    def _hear_anew(self, event: TokenDelta) -> None:
        """The first piece of a text, one of another node, or one too many to be kept."""
        node = self._running.get(event.node_path or (event.node_name,))
        if node is None:
            return
        self._heard, self._last = node, event
        pieces = node.pieces
        if pieces is None or event.agent != node.speaker:
            node.speaker = event.agent
            node.pieces = [event.delta]
            return
        pieces.append(event.delta)
        if len(pieces) > PIECES:
            node.pieces = ["".join(pieces)[-TEXT_KEPT:]]

    def _tokens_discarded(self, event: TokensDiscarded, now: float) -> None:  # noqa: ARG002
        node = self._running.get(event.node_path or (event.node_name,))
        if node is not None and event.agent == node.speaker:
            text = node.text
            node.pieces = [text[: max(len(text) - event.characters, 0)]]

    def _tool_called(self, event: ToolCalled, now: float) -> None:
        self.totals.tool_called(event)
        node = self._running.get(event.node_path or (event.node_name,))
        if node is None:
            return
        node.pieces = None
        node.calls += 1
        node.rounds = max(node.rounds, event.round or 0)
        call = Call(event, now)
        if node.open is None:
            node.open = {}
        node.open[event.tool_call_id] = call
        self._enter(node, call)
        self._put_before_what_was_said(node)

    @staticmethod
    def _put_before_what_was_said(node: TreeNode) -> None:
        """Put the last call before what policies said of it before it was one."""
        entries = node.entries
        assert entries is not None
        call = entries.pop()
        said: list[Note] = []
        while entries and _is_before_a_call(last := entries[-1]):
            last.placed = True
            said.append(last)
            entries.pop()
        entries.append(call)
        entries.extend(reversed(said))

    def _tool_returned(self, event: ToolReturned, now: float) -> None:  # noqa: ARG002
        self.totals.tool_returned(event)
        node = self._running.get(event.node_path or (event.node_name,))
        if node is not None and node.open is not None:
            call = node.open.pop(event.tool_call_id, None)
            if call is not None:
                call.answer = event

    def _asked(self, event: ConfirmationAsked, now: float) -> None:  # noqa: ARG002
        self._ask(event, asking=True)

    def _answered(self, event: ConfirmationGiven, now: float) -> None:  # noqa: ARG002
        self._ask(event, asking=False)

    def _ask(self, event: ConfirmationAsked | ConfirmationGiven, *, asking: bool) -> None:
        node = self._running.get(event.node_path or (event.node_name,))
        if node is not None and node.open is not None and event.tool_call_id is not None:
            call = node.open.get(event.tool_call_id)
            if call is not None:
                call.asking = asking

    def _warned(self, event: Warned, now: float) -> None:  # noqa: ARG002
        if event.policy is not None:
            self.totals.policy_warned(event)
        if event.message in self._shown:
            return
        key = event.node_path or (event.node_name,) if event.node_name is not None else ()
        node = self._running.get(key, self.root)
        if node is self.root:
            self._leave(Note(warning=event), node)
        else:
            self._enter(node, Note(warning=event))

    def _enter(self, node: TreeNode, entry: Call | Note) -> None:
        if node.entries is None:
            node.entries = deque()
        node.entries.append(entry)
        if len(node.entries) > ENTRIES_KEPT:
            oldest = node.entries.popleft()
            if isinstance(oldest, Note):
                self._leave(oldest, node)
            else:
                node.older += 1

    # --- what leaves ------------------------------------------------------------------

    def _leave_notes(self, node: TreeNode) -> None:
        """Leave what a person must not miss of a node that is collapsed."""
        for entry in node.entries or ():
            if isinstance(entry, Note):
                self._leave(entry, node)
        node.entries = None

    def _leave(self, note: Note, node: TreeNode) -> None:
        if note.warning is not None:
            self.leaving.append(warned(note.warning.message, marks=self._marks))
        else:
            self.leaving.append(attempt_failed(node, note.failure, marks=self._marks))

    def _flow_started(self, event: FlowStarted, now: float) -> None:  # noqa: ARG002
        self.begun = True

    def _message_said(self, event: MessageSaid, now: float) -> None:  # noqa: ARG002
        self.leaving.append(said(event))

    # What plugins log and emit is for whoever wants to see everything.
    _HANDLERS: ClassVar[Mapping[type[Any], Callable[..., None]]] = {
        FlowStarted: _flow_started,
        NodeStarted: _node_started,
        NodeCompleted: _node_completed,
        NodeFailed: _node_failed,
        TokenDelta: _token_delta,
        TokensDiscarded: _tokens_discarded,
        ToolCalled: _tool_called,
        ToolReturned: _tool_returned,
        ConfirmationAsked: _asked,
        ConfirmationGiven: _answered,
        Warned: _warned,
        MessageSaid: _message_said,
    }


def _is_before_a_call(entry: Call | Note) -> TypeGuard[Note]:
    return (
        isinstance(entry, Note)
        and not entry.placed
        and entry.warning is not None
        and entry.warning.seam == "toolCall.before"
    )


def attempt_failed(node: TreeNode, failure: str, *, marks: Marks) -> Spans:
    """A failure that the run went on after."""
    where = place(str(node.key[-1]), node.key if len(node.key) > 1 else None)
    return (
        (f"{marks.failed} ", STYLES["bad"]),
        (where, STYLES["node"]),
        (f": {indented(failure)}", STYLES["bad"]),
    )


def said(event: MessageSaid) -> Spans:
    """A message of the conversation that the flow has."""
    mark = ">>" if event.sender == "agent" else "<<"
    return (
        (f"  {place(event.node_name, event.node_path)} ", STYLES["node"]),
        (f"{mark} ", STYLES["dim"]),
        (indented(event.message), STYLES["plain"]),
    )


def _label(key: Key) -> str:
    """What to call a node under its parent: ``ask``, ``[2] ask``."""
    name = line(str(key[-1]), most=NAME_SHOWN)
    indexes = []
    for step in reversed(key[:-1]):
        if not isinstance(step, int):
            break
        indexes.append(f"[{step}]")
    return f"{''.join(reversed(indexes))} {name}" if indexes else name
