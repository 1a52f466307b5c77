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
from typing import Any, ClassVar, Final, TypeGuard

from heddle.cli.live.nodes import (
    NAME_SHOWN,
    TEXT_KEPT,
    Call,
    Key,
    Note,
    Phase,
    TreeNode,
)
from heddle.cli.live.telling import STYLES, Marks, Spans, indented, warned
from heddle.cli.live.totals import Totals
from heddle.cli.text.wording import line, place
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

# Of one node; the last ones tell where it is.
ENTRIES_KEPT: Final = 32
# Pieces of text that are not put together yet.
PIECES: Final = 512


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
        self.root = TreeNode((), now)
        self.root.title = line(title, most=NAME_SHOWN)
        self.totals = Totals()
        self.leaving: list[Spans] = []
        self.begun = False
        self._marks = marks
        self._shown = frozenset(shown)
        self._running: dict[Key, TreeNode] = {}
        # Those that began and are no nodes yet: when, under which one, and what they said.
        self._fresh: dict[Key, tuple[float, TreeNode, list[TokenDelta]]] = {}

    @property
    def running(self) -> int:
        """Nodes at work."""
        return len(self._running)

    def see(self, event: Event, now: float) -> None:
        """Note what happened, and when."""
        self.see_all((event,), (now,))

    def see_all(self, events: Iterable[Event], times: Iterable[float]) -> None:
        """Note what happened, in order, and when. Many at once cost least.

        Of many nodes that begin and end among these events it is only counted what they
        did; a `TreeNode` is made of one that is there for longer, or has more to show.

        Args:
            events: What happened.
            times: When that was, of each that is not a `TokenDelta`: text has no time.
        """
        when = iter(times)
        root, running, fresh = self.root, self._running, self._fresh
        # Where the last one began, and under which node; None when that may have changed.
        place: Key | None = None
        parent: TreeNode | None = None
        for event in events:
            if type(event) is TokenDelta:
                key = event.node_path or (event.node_name,)
                begun = fresh.get(key)
                if begun is not None:
                    begun[2].append(event)
                elif key in running:
                    self._hear(running[key], event)
            elif type(event) is NodeStarted:
                key = event.node_path or (event.node_name,)
                if key[:-1] != place:  # the items of a map are one each
                    place = around = key[:-1]
                    while around and type(around[-1]) is int:
                        around = around[:-1]
                    parent = running.get(around) if around else root
                if parent is None or event.attempt > 1 or key in running:
                    self._settle()
                    self._node_started(event, next(when))
                    place = None
                else:
                    if parent.totals is None:
                        parent.expect()
                    fresh[key] = next(when), parent, []
            elif type(event) is NodeCompleted:
                key = event.node_path or (event.node_name,)
                begun = fresh.pop(key, None)
                if begun is None:
                    self._node_completed(event, next(when))
                    place = None
                    continue
                since, its, _ = begun
                self._count(key, its, event, next(when) - since)
            else:
                now = next(when)
                handler = self._HANDLERS.get(type(event))
                if handler is not None:
                    self._settle()
                    handler(self, event, now)
                    place = None
        self._settle()

    def _count(self, key: Key, parent: TreeNode, event: NodeCompleted, took: float) -> None:
        """Count what a node did that was never shown as one."""
        totals, done = parent.totals, parent.done
        assert totals is not None
        assert done is not None
        total = totals.get(key[-1])
        if total is None:
            total = totals[key[-1]] = self.totals.node(key)
        total.executions += 1
        total.seconds += took
        calls, usage = event.model_calls, event.usage
        if calls or usage is not None:
            total.spent(calls, usage)
        parent.ended += 1
        done.append((key, took, calls, usage))

    def _settle(self) -> None:
        """Make nodes of those that began and are still at work."""
        for key, (since, parent, said) in self._fresh.items():
            node = self._begin(TreeNode(key, since, parent, parent.totals))
            for event in said:
                self._hear(node, event)
        self._fresh.clear()

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
        if parent.totals is None:
            parent.expect()
        node = self._again(parent, key) if event.attempt > 1 else None
        if node is None:
            # Else nobody heard that a node in between began.
            near = without_items(key[:-1]) == parent.key
            node = TreeNode(key, now, parent, parent.totals if near else None)
        node.attempt = event.attempt
        self._begin(node)

    def _begin(self, node: TreeNode) -> TreeNode:
        parent = node.parent
        assert parent is not None
        assert parent.running is not None
        self._running[node.key] = parent.running[node.key] = node
        return node

    def _again(self, parent: TreeNode, key: Key) -> TreeNode | None:
        """The node that failed and is tried again, taken from where it was put aside."""
        node = self._failed(parent, key)
        if node is None:
            return None
        assert parent.done is not None
        parent.done.remove(node)
        parent.ended -= 1
        node.phase = Phase.RUNNING
        node.usage, node.model_calls = None, 0
        self._enter(node, Note(failure=node.error))
        node.error = ""
        return node

    def _failed(self, parent: TreeNode, key: Key) -> TreeNode | None:
        for node in reversed(parent.done or ()):
            if isinstance(node, TreeNode):
                if node.key == key:
                    return node if node.phase is Phase.FAILED else None
            elif node[0] == key:
                break
        return None

    def _node_completed(self, event: NodeCompleted, now: float) -> None:
        key = event.node_path or (event.node_name,)
        node = self._running.get(key)
        if node is None or node.totals is not None:
            self._settle()  # what is under it, too
        node = self._running.pop(key, None)
        if node is not None:
            self._put_aside(node, Phase.DONE, event, now)
            return
        # A policy put a result in the place of its failure.
        node = self._failed(self._parent(key), key)
        if node is not None:
            node.phase = Phase.DONE
            node.spent(event)
            failure, node.error = node.error, ""
            self._leave(Note(failure=failure), node)
            self.totals.node_replaced(key)

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
        assert parent.done is not None
        node.phase = phase
        node.took = took = now - node.since
        parent.running.pop(node.key, None)
        parent.done.append(node)
        parent.ended += 1
        if node.totals is not None:
            self._collapse(node)
        if node.entries is not None:
            self._leave_notes(node)
        node.pieces = node.open = None
        name, kin = node.key[-1], node.kin
        total = None if kin is None else kin.get(name)
        if total is None:
            total = self.totals.node(node.key)
            if kin is not None:
                kin[name] = total
        total.ended(event, took)
        node.spent(event)

    def _collapse(self, node: TreeNode) -> None:
        """Let go of what is under a node that has ended."""
        for child in (node.running or {}).values():
            self._running.pop(child.key, None)
            self._collapse(child)
        node.running = node.done = node.totals = None
        node.ended = 0

    def _parent(self, key: Key) -> TreeNode:
        """The innermost node around this one that is at work."""
        while len(key) > 1:
            key = without_items(key[:-1])
            found = self._running.get(key)
            if found is not None:
                return found
        return self.root

    # --- what goes on in a node -------------------------------------------------------

    def _hear(self, node: TreeNode, event: TokenDelta) -> None:
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
        NodeFailed: _node_failed,
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


def without_items(place: Key) -> Key:
    """Where the node is that a place is in: ``("each", 2)`` is in ``each``."""
    while place and isinstance(place[-1], int):
        place = place[:-1]
    return place
