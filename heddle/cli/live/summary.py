"""What is left of a run on the terminal: what each part of it took and did.

    ✓ flow.json  3.4 s · 4 model calls · 1,204 tokens in · 88 out · 3 tool calls
      nodes     start                0.0 s
                librarian            3.4 s  4 model calls · 1,204 tokens in · 88 out
      tools     survey               0.2 s
                shell                0.1 s  2 calls, 1 failed
      policies  ApprovalGate                toolCall.before: 2 proceed, 1 reject

Pure: totals in, styled text out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len

from heddle.cli.drawing.widths import cut
from heddle.cli.live.nodes import Phase
from heddle.cli.live.telling import STYLES, Marks, Spans, counted, work_done
from heddle.cli.live.totals import Name, NodeTotal, ToolTotal, Totals
from heddle.cli.live.tree import RunTree
from heddle.cli.terminal.region import flat
from heddle.cli.text.wording import seconds

if TYPE_CHECKING:
    from heddle.policy_counts import Place, Tally

# Rows of one kind; a person reads no more, and a screen has no room for more.
MOST: Final = 16
NAME_SHOWN: Final = 40
# Where what is said leaves less room: a name that nobody can tell is worse than a row that
# wraps.
NAME_LEAST: Final = 8
NAME_SHARE: Final = 0.3


# Columns with which what a section is called has a row to itself.
NARROW: Final = 48


class Told(NamedTuple):
    """A row of the summary: a name, a time that is "" where there is none, and facts."""

    name: str
    time: str
    facts: str
    style: str = STYLES["plain"]
    depth: int = 0


class Entry(NamedTuple):
    """A node and how deep it is in the flow."""

    depth: int
    name: str
    total: NodeTotal | None


def summary(
    tree: RunTree,
    *,
    marks: Marks,
    policies: "Mapping[Place, Tally]",
    width: int,
    stopped: bool = False,
) -> list[Spans]:
    """The summary of a run that has ended.

    Args:
        tree: The run.
        marks: The signs that the terminal can take.
        policies: What each policy said.
        width: Columns there are. Names are cut to leave room for what is said of them;
            what has no room even so is for the terminal to wrap.
        stopped: Whether a person or a program ended it.
    """
    totals = tree.totals
    sections = (
        ("nodes", _nodes(totals, marks)),
        ("tools", _tools(totals, marks)),
        ("policies", _policies(policies)),
    )
    return [_headline(tree, marks, stopped=stopped), *_grid(sections, width)]


def _headline(tree: RunTree, marks: Marks, *, stopped: bool) -> Spans:
    root, totals = tree.root, tree.totals
    facts = [seconds(root.took)]
    if stopped:
        mark, style = marks.stopped, STYLES["warning"]
        facts.append("interrupted")
    elif root.phase is Phase.FAILED:
        mark, style = marks.failed, STYLES["bad"]
        facts.append("failed")
    else:
        mark, style = marks.done, STYLES["good"]
    facts += work_done(totals.model_calls, totals.usage, totals.tool_calls, marks=marks)
    told = f"  {marks.between.join(facts)}"
    return (f"{mark} ", style), (root.label, STYLES["node"]), (told, STYLES["dim"])


def _nodes(totals: Totals, marks: Marks) -> Iterator[Told]:
    entries = list(in_order(totals.nodes))
    kept = _longest(entries)
    left_out = [each for number, each in enumerate(entries) if number not in kept]
    for number, (depth, name, total) in enumerate(entries):
        if number in kept:
            yield _node(name, total, marks)._replace(depth=depth)
    if left_out:
        time = sum(each.total.seconds for each in left_out if each.total is not None)
        yield Told(f"{marks.more} {len(left_out):,} more", seconds(time), "", STYLES["dim"])


def _node(name: str, total: NodeTotal | None, marks: Marks) -> Told:
    if total is None:
        return Told(name, "", "")
    facts = []
    ended = total.executions + total.stopped
    if ended > 1:
        facts.append(counted(ended, "execution"))
    if total.stopped:
        facts.append(f"{total.stopped:,} stopped" if ended > 1 else "stopped")
    if total.failures:
        facts.append(f"{total.failures:,} failed" if ended > 1 else "failed")
    facts += work_done(total.model_calls, total.usage, total.tool_calls, marks=marks)
    style = STYLES["bad"] if total.failures else STYLES["plain"]
    return Told(name, seconds(total.seconds), marks.between.join(facts), style)


def in_order(nodes: Mapping[Name, NodeTotal]) -> Iterator[Entry]:
    """Nodes with those of the flows inside them below, in the order in which they came."""
    inside: dict[Name, dict[Name, None]] = {}
    for name in nodes:
        for depth in range(len(name)):
            inside.setdefault(name[:depth], {})[name[: depth + 1]] = None
    waiting: list[Name] = [()]
    while waiting:
        name = waiting.pop()
        if name:
            yield Entry(len(name) - 1, name[-1], nodes.get(name))
        waiting += reversed(inside.get(name, {}))


def _longest(entries: Sequence[Entry]) -> set[int]:
    """Which nodes to show when there are too many: those that took longest or failed."""
    if len(entries) <= MOST:
        return set(range(len(entries)))

    def weight(number: int) -> tuple[bool, float]:
        total = entries[number].total
        return (False, 0.0) if total is None else (total.failures > 0, total.seconds)

    return set(sorted(range(len(entries)), key=weight, reverse=True)[: MOST - 1])


def _tools(totals: Totals, marks: Marks) -> Iterator[Told]:
    longest = sorted(totals.tools.items(), key=lambda each: -each[1].seconds)
    kept = totals.tools if len(longest) <= MOST else dict(longest[: MOST - 1])
    for name, total in totals.tools.items():
        if name in kept:
            yield _tool(name, total, marks)
    if len(kept) < len(longest):
        rest = longest[len(kept) :]
        time = sum(each.seconds for _, each in rest)
        yield Told(f"{marks.more} {len(rest):,} more", seconds(time), "", STYLES["dim"])


def _tool(name: str, total: ToolTotal, marks: Marks) -> Told:
    facts = [counted(total.calls, "call")]
    if total.failures:
        facts.append(f"{total.failures:,} failed")
    return Told(name, seconds(total.seconds), marks.between.join(facts), STYLES["tool"])


def _policies(policies: "Mapping[Place, Tally]") -> Iterator[Told]:
    """A row for each policy at each half of a seam where it said something."""
    by_policy: dict[str, list[tuple[str, Tally]]] = {}
    for (seam, half, policy), tally in policies.items():
        by_policy.setdefault(policy, []).append((f"{seam}.{half}", tally))
    for name, places in by_policy.items():
        for place, tally in places:
            said = [f"{number:,} {action}" for action, number in tally.actions.items()]
            if tally.failures:
                said.append(f"{tally.failures:,} without an answer")
            yield Told(name, "", f"{place}: {', '.join(said)}", STYLES["policy"])
            name = ""


def _grid(sections: Iterable[tuple[str, Iterable[Told]]], width: int) -> Iterator[Spans]:
    """Rows with their columns under each other."""
    filled = [(title, list(told)) for title, told in sections]
    every = [each for _, told in filled for each in told]
    if not every:
        return
    narrow = width < NARROW
    heads = 2 if narrow else max(len(title) for title, told in filled if told) + 2
    times = max(len(each.time) for each in every)
    facts = max(len(each.facts) for each in every)
    # A name, the time and the facts are two cells apart each; the last column stays free.
    left = width - 1 - (2 + heads) - 2 - times - (2 + facts if facts else 0)
    most = min(max(left, NAME_LEAST, int(NAME_SHARE * width)), NAME_SHOWN)
    every_name = [_shown(each, most) for each in every]
    names = max(map(cell_len, every_name)) + 2
    labels = iter(every_name)
    for title, told in filled:
        if narrow and told:
            yield ((f"  {title}", STYLES["dim"]),)
        for number, each in enumerate(told):
            head = title if number == 0 and not narrow else ""
            name = next(labels)
            yield (
                (f"  {head:<{heads}}", STYLES["dim"]),
                (name, each.style),
                (" " * (names - cell_len(name)), ""),
                (f"{each.time:>{times}}", STYLES["plain"]),
                (f"  {each.facts}" if each.facts else "", STYLES["dim"]),
            )


def _shown(told: Told, most: int) -> str:
    """Its name in at most so many cells, as deep as it is in the flow."""
    indent = min(2 * told.depth, most // 2)
    return " " * indent + cut(flat(told.name), most - indent)
