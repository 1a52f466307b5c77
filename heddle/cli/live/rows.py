"""The tree of a run as rows of a screen: as much of it as there is room for.

    ⠹ flow.json  3.4 s · 1 node done
      ✓ start  0.0 s
      ⠹ librarian  3.3 s · round 3
        round 1  ✓ survey folder=heddle  0.2 s
        round 2  ✗ shell cmd="rm -r heddle"  0.0 s  this call was refused: …
                 ! ApprovalGate · toolCall.before  refuses the call of tool 'shell'
        round 3  ⠹ read_opening path=heddle/cli/run.py  0.4 s
        The folder has 120 modules with

Pure: a tree, a size and a time in, styled text out. Where the whole does not fit, what is
over goes first, then what is inside, and last the nodes that there are no rows for, which
are counted.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from rich.cells import cell_len, chop_cells

from heddle.cli.live.nodes import Call, Note, Phase, TreeNode
from heddle.cli.live.telling import (
    STYLES,
    UNICODE,
    Marks,
    Spans,
    counted,
    tool_called,
    tool_returned,
    work_done,
)
from heddle.cli.live.tree import RunTree
from heddle.cli.text.wording import fit, line, seconds

SPINNERS: Final = {True: "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", False: "|/-\\"}
"""The frames of something that is at work, for terminals of Unicode and of ASCII."""

STEP: Final = 2
# Deeper flows are not set off any further: names are to stay readable.
DEEPEST: Final = 8
# Of a failure or a warning: more than a row of any terminal.
REASON: Final = 400
NONE: Final[Spans] = ()


class Detail(NamedTuple):
    """How much of each node is shown: rows of what is done under it, entries, text."""

    done: int
    entries: int
    text: int


DETAILS: Final = (
    Detail(200, 12, 4),
    Detail(40, 8, 4),
    Detail(10, 6, 4),
    Detail(4, 6, 4),
    Detail(2, 4, 3),
    Detail(1, 2, 1),
    Detail(0, 1, 1),
    Detail(0, 1, 0),
    Detail(0, 0, 0),
)
"""The first one is taken with which everything fits."""


def rows(
    tree: RunTree, *, now: float, width: int, height: int, marks: Marks, turn: int
) -> list[Spans]:
    """The picture of a run.

    Args:
        tree: The run.
        now: The time, on the clock of the tree.
        width: Columns there are; longer rows are for whoever draws to cut.
        height: Rows there are.
        marks: The signs that the terminal can take.
        turn: Which frame of what turns.

    Returns:
        At most ``height`` rows, each without a newline.
    """
    spinners = SPINNERS[marks is UNICODE]
    drawing = _Drawing(now, width, marks, spinners[turn % len(spinners)])
    shown: list[Spans] = []
    for detail in DETAILS:
        shown = list(islice(drawing.tree(tree, detail), height + 1))
        if len(shown) <= height:
            return shown
    return _with_the_rest_counted(shown[:height], tree, marks)


def _with_the_rest_counted(shown: list[Spans], tree: RunTree, marks: Marks) -> list[Spans]:
    """Rows of nodes that are more than fit, the last one taken for their number."""
    if len(shown) > 1:
        more = tree.running - (len(shown) - 2)
        shown[-1] = (
            (f"  {marks.more} {counted(more, 'more node')} at work", STYLES["dim"]),
        )
    return shown


def node_facts(node: TreeNode, marks: Marks) -> str:
    """What there is to say about a node that has ended, behind its time."""
    facts = []
    if node.attempt > 1:
        facts.append(f"attempt {node.attempt}")
    facts += work_done(node.model_calls, node.usage, node.calls, marks=marks)
    return marks.between.join(facts)


class _Drawing:
    """One picture: what all its rows share."""

    def __init__(self, now: float, width: int, marks: Marks, spinner: str) -> None:
        self._now = now
        self._width = width
        self._marks = marks
        self._spinner = spinner

    def tree(self, tree: RunTree, detail: Detail) -> Iterator[Spans]:
        root = tree.root
        facts = [seconds(self._now - root.since)]
        done = root.ended
        if done:
            facts.append(f"{counted(done, 'node')} done")
        yield (
            (f"{self._spinner} ", STYLES["tool"]),
            (root.label, STYLES["node"]),
            (f"  {self._marks.between.join(facts)}", STYLES["dim"]),
        )
        yield from self._under(root, detail, 1)

    def _under(self, node: TreeNode, detail: Detail, depth: int) -> Iterator[Spans]:
        done = node.done
        if done:
            shown = min(detail.done, len(done))
            over = node.ended - shown
            # The root says how many are done as it is.
            if over and detail.done and depth > 1:
                yield self._dim(depth, f"{self._marks.done} {over:,} done before")
            for each in node.last(shown):
                yield self._done(each, depth)
        for each in (node.running or {}).values():
            yield self._running(each, depth)
            yield from self._inside(each, detail, depth + 1)
            yield from self._under(each, detail, depth + 1)

    def _done(self, node: TreeNode, depth: int) -> Spans:
        facts = node_facts(node, self._marks)
        took = seconds(node.took)
        said = f"  {took}{self._marks.between}{facts}" if facts else f"  {took}"
        if node.phase is Phase.FAILED:
            return (
                (_indent(depth), ""),
                (f"{self._marks.failed} ", STYLES["bad"]),
                (node.label, STYLES["bad"]),
                (said, STYLES["dim"]),
                (f"  {line(node.error, most=REASON)}", STYLES["bad"]),
            )
        return (
            (_indent(depth), ""),
            (f"{self._marks.done} ", STYLES["good"]),
            (node.label, STYLES["plain"]),
            (said, STYLES["dim"]),
        )

    def _running(self, node: TreeNode, depth: int) -> Spans:
        facts = [seconds(self._now - node.since)]
        if node.attempt > 1:
            facts.append(f"attempt {node.attempt}")
        done = node.ended
        if done:
            facts.append(f"{counted(done, 'node')} done")
        return (
            (_indent(depth), ""),
            (f"{self._spinner} ", STYLES["tool"]),
            (node.label, STYLES["node"]),
            (f"  {self._marks.between.join(facts)}", STYLES["dim"]),
        )

    # --- what a node that is at work does ---------------------------------------------

    def _inside(self, node: TreeNode, detail: Detail, depth: int) -> Iterator[Spans]:
        entries = node.entries
        if entries and detail.entries:
            over = max(len(entries) - detail.entries, 0)
            older = node.older + sum(isinstance(e, Call) for e in islice(entries, over))
            if older and detail.entries > 1:
                told = counted(older, "earlier tool call")
                yield self._dim(depth, f"{self._marks.more} {told}")
            round_before: int | None = None
            wide = len(f"round {node.rounds}  ") if node.rounds else 0
            for entry in islice(entries, over, None):
                head = ""
                if isinstance(entry, Call) and entry.event.round != round_before:
                    round_before = entry.event.round
                    head = "" if round_before is None else f"round {round_before}  "
                yield (
                    (_indent(depth), ""),
                    (head.ljust(wide), STYLES["dim"]),
                    *self._entry(entry, node),
                )
        if detail.text and node.pieces:
            yield from self._text(node, detail.text, depth)

    def _entry(self, entry: Call | Note, node: TreeNode) -> Spans:
        if isinstance(entry, Note):
            return self._note(entry, node)
        event = entry.event
        by = ((f"{line(event.agent, most=40)}: ", STYLES["dim"]),) if event.agent else NONE
        if entry.answer is not None:
            told = tool_returned(entry.answer, event.tool_args, marks=self._marks)
            return (*told[:1], *by, *told[1:])
        waits = "  waits for a decision" if entry.asking else ""
        return (
            (f"{self._spinner} ", STYLES["tool"]),
            *by,
            *tool_called(event.tool_name, event.tool_args),
            (f"  {seconds(self._now - entry.since)}", STYLES["dim"]),
            (waits, STYLES["warning"]),
        )

    def _note(self, note: Note, node: TreeNode) -> Spans:
        warning = note.warning
        if warning is None:
            return (
                (f"{self._marks.failed} ", STYLES["bad"]),
                (line(note.failure, most=REASON), STYLES["bad"]),
            )
        mark = f"{self._marks.warning} "
        if warning.policy is None:
            told = line(warning.message, most=REASON)
            return (mark, STYLES["warning"]), (told, STYLES["warning"])
        said = without_place(warning.message, node)
        who = f"{line(warning.policy)}{self._marks.between}{line(warning.seam or '')}"
        return (
            (mark, STYLES["policy"]),
            (who, STYLES["policy"]),
            (f"  {line(said, most=REASON)}", STYLES["warning"]),
        )

    def _text(self, node: TreeNode, most: int, depth: int) -> Iterator[Spans]:
        room = max(self._width - STEP * depth - 1, 1)
        speaker = f"{line(node.speaker, most=40)}: " if node.speaker else ""
        tail = fit(node.text[-most * room :]).strip().expandtabs(4)
        if not tail:
            return
        for each in wrapped(speaker + tail, room)[-most:]:
            yield (_indent(depth), ""), (each, STYLES["dim"])

    def _dim(self, depth: int, text: str) -> Spans:
        return (_indent(depth), ""), (text, STYLES["dim"])


def without_place(message: str, node: TreeNode) -> str:
    """What a policy did, without who it is and where: the row says that already."""
    head, colon, rest = message.partition(": ")
    said = rest if colon and head.startswith("middleware ") else message
    return said.replace(f" in node {node.key[-1]!r}", "", 1)


def wrapped(text: str, width: int) -> list[str]:
    """Text on lines of at most so many cells, broken between words where that goes."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        current, cells = "", 0
        for word in paragraph.split(" "):
            wide = cell_len(word)
            if current and cells + 1 + wide <= width:
                current, cells = f"{current} {word}", cells + 1 + wide
                continue
            if current:
                lines.append(current)
            *whole, current = chop_cells(word, width) or [""]
            lines += whole
            cells = cell_len(current)
        lines.append(current)
    return lines


def _indent(depth: int) -> str:
    return " " * (STEP * min(depth, DEEPEST))
