"""An explanation as sections of a page, and as JSON.

    places, in the order of a run
      1  helper (AgentNode)  agentRound.before      RoundBudget
      2                        toolCall.before      ApprovalGate
                                 shell

Pure: an explanation in, styled text or plain data out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from heddle.cli.drawing.widths import cells, wrapped
from heddle.cli.live.telling import STYLES, Spans, counted
from heddle.cli.text.wording import line
from heddle.preview.explanation import Explanation
from heddle.preview.policies import Policy
from heddle.preview.seams import MAX_PLACES, Place
from plugins_host import Half, Seam

GAP: Final = 2
NARROWEST: Final = 12
"""Cells that a column keeps however narrow the terminal is."""

MOST_LINES: Final = 1000
"""Of one cell: settings may be megabytes."""

DEEPEST: Final = 8
"""Steps to the right; a team of agents may be deeper inside one another than a screen is
wide."""


class Cell(NamedTuple):
    """Text with a look, set off from the left of its column."""

    text: str
    style: str = ""
    indent: int = 0

    @property
    def width(self) -> int:
        """Cells that it takes on one line."""
        return self.indent + cells(line(self.text))

    def lines(self, width: int) -> list[str]:
        """Itself in a column of this width."""
        room = max(width - self.indent, NARROWEST // 2)
        left = " " * self.indent
        broken = wrapped(self.text, room, lines=MOST_LINES, indent="")
        return [left + each for each in broken]


Row = Sequence[Cell]


def page(explanation: Explanation, width: int) -> Iterator[Spans]:
    """The lines for a terminal of this width."""
    sections = (
        ("policies, in the order in which they are asked", _policies(explanation), ()),
        ("places, in the order of a run", _places(explanation), _notes(explanation)),
        ("not asked in this flow", _unasked(explanation), ()),
        ("limits", _limits(explanation), ()),
    )
    first = True
    for title, rows, notes in sections:
        found, below = list(rows), list(notes)
        if not (found or below):
            continue
        if not first:
            yield (("", ""),)
        first = False
        yield ((title, STYLES["node"]),)
        if found:
            yield from table(found, width)
        for note in below:
            for each in wrapped(note, width - GAP, lines=4, indent=""):
                yield (" " * GAP, ""), (each, STYLES["dim"])


def table(rows: Sequence[Row], width: int) -> Iterator[Spans]:
    """Rows with their columns under each other; what does not fit goes on below."""
    room = max(width - GAP * len(rows[0]), NARROWEST)
    widths = [min(max(column), room) for column in zip(*map(_widths, rows), strict=True)]
    while sum(widths) > room and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    broken = [
        [
            each.lines(column) if each.text else []
            for each, column in zip(row, widths, strict=True)
        ]
        for row in rows
    ]
    # Words that went to the next line have left room behind.
    for index in range(len(widths)):
        texts = (text for columns in broken for text in columns[index])
        widths[index] = max(map(cells, texts), default=0)
    for row, columns in zip(rows, broken, strict=True):
        for number in range(max(map(len, columns))):
            yield tuple(_line(row, columns, widths, number))


def _widths(row: Row) -> list[int]:
    return [each.width for each in row]


def _line(
    row: Row, columns: Sequence[Sequence[str]], widths: Sequence[int], number: int
) -> Iterator[tuple[str, str]]:
    """One line of a row, with nothing after the last of its text."""
    texts = [each[number] if number < len(each) else "" for each in columns]
    last = max(index for index, text in enumerate(texts) if text)
    for index, text in enumerate(texts[: last + 1]):
        pad = "" if index == last else " " * (widths[index] - cells(text))
        yield " " * GAP, ""
        yield text, row[index].style
        yield pad, ""


def _policies(explanation: Explanation) -> Iterator[Row]:
    for number, policy in enumerate(explanation.policies, 1):
        facts = [
            ("plugin", _home(policy)),
            ("asked at", ", ".join(policy.halves)),
            *(("setting", each) for each in _settings(policy.settings)),
            *(("default", each) for each in _settings(policy.defaults)),
        ]
        for index, (what, told) in enumerate(facts):
            first = index == 0
            name = Cell(policy.component_type if first else "", STYLES["policy"])
            again = index and facts[index - 1][0] == what
            label = Cell("" if again else what, STYLES["dim"])
            yield Cell(str(number) if first else ""), name, label, Cell(told)


def _home(policy: Policy) -> str:
    where = "in heddle itself" if policy.in_process else "a process of its own"
    return f"{policy.plugin}, {where} ({policy.source})"


def _settings(settings: Any) -> Iterator[str]:
    """``maxRounds = 2``, one a line."""
    for name, value in settings.items():
        yield f"{name} = {msgspec.json.encode(value).decode()}"


def _places(explanation: Explanation) -> Iterator[Row]:
    before: tuple[Any, ...] = ()
    base: dict[tuple[str, ...], int] = {}
    for number, each in enumerate(explanation.consulted, 1):
        place = each.place
        here = (place.path, place.agent)
        # A node's first half is met at the depth of the node, whoever is asked there.
        depth = place.depth - base.setdefault(place.path, _depth_of_node(place))
        again = here == before
        before = here
        yield (
            Cell(str(number), STYLES["dim"]),
            Cell("" if again else _where(place), STYLES["node"]),
            Cell(_what(place), "", 2 * min(depth, DEEPEST)),
            Cell(
                ", ".join(one.component_type for one in each.policies) or "nobody",
                STYLES["policy"] if each.policies else STYLES["dim"],
            ),
        )


def _depth_of_node(place: Place) -> int:
    """How deep the node of a place is: each node around it is one step."""
    return len(place.path) - 1


def _where(place: Place) -> str:
    agent = f", agent {place.agent}" if place.agent is not None else ""
    return f"{' / '.join(place.path)} ({place.node_type}{agent})"


def _what(place: Place) -> str:
    told = f"{place.seam}.{place.half}"
    if place.tool is not None:
        told += f" {place.tool}"
    elif place.toolbox is not None:
        told += f" any of {place.toolbox}"
    if place.when:
        told += f", {place.when}"
    elif place.seam is Seam.AGENT_ROUND and place.half is Half.BEFORE:
        told += ", each round"
    return told


def _notes(explanation: Explanation) -> Iterator[str]:
    if not explanation.policies:
        yield "Nobody is asked: no policy is installed. Name plugins with --plugin."
    if explanation.quiet and explanation.policies:
        places = counted(explanation.quiet, "place")
        yield f"Nobody is asked at {places} more, which --all shows."
    if explanation.cut:
        yield f"There are more places than {MAX_PLACES:,}, which were looked at."


def _unasked(explanation: Explanation) -> Iterator[Row]:
    for each in explanation.unasked:
        never = "never asked: " if each.never else ""
        yield (
            Cell(each.policy.component_type, STYLES["policy"]),
            Cell(", ".join(each.halves)),
            Cell(f"{never}{each.why}", STYLES["warning"] if each.never else ""),
        )


def _limits(explanation: Explanation) -> Iterator[Row]:
    for each in explanation.limits:
        value = f"{each.value:,.10g}{' s' if each.seconds else ''}"
        yield Cell(each.what), Cell(value), Cell(each.flag or "fixed", STYLES["dim"])


def as_data(flow: str, explanation: Explanation) -> dict[str, Any]:
    """The same for programs; what is not there is left out."""
    return {
        "flow": flow,
        "policies": [_policy(each) for each in explanation.policies],
        "places": [
            {
                **_place(each.place),
                "policies": [one.component_type for one in each.policies],
            }
            for each in explanation.consulted
        ],
        "unasked": [
            {
                "componentType": each.policy.component_type,
                "halves": list(each.halves),
                "why": each.why,
                "never": each.never,
            }
            for each in explanation.unasked
        ],
        "limits": [
            {
                "name": each.name,
                "what": each.what,
                "value": each.value,
                "unit": "s" if each.seconds else "",
                "flag": each.flag,
            }
            for each in explanation.limits
        ],
        "placesLeftOut": explanation.quiet,
        "complete": not explanation.cut,
    }


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "componentType": policy.component_type,
        "plugin": policy.plugin,
        "source": policy.source,
        "runsIn": "heddle" if policy.in_process else "process",
        "halves": list(policy.halves),
        "settings": policy.settings,
        "defaults": policy.defaults,
    }


def _place(place: Place) -> dict[str, Any]:
    fields = {
        "path": list(place.path),
        "nodeType": place.node_type,
        "agent": place.agent,
        "tool": place.tool,
        "toolbox": place.toolbox,
        "seam": place.seam,
        "half": place.half,
        "depth": place.depth,
        "when": place.when or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def plain(lines: Iterable[Spans]) -> str:
    """The lines without their looks."""
    return "".join("".join(text for text, _ in spans) + "\n" for spans in lines)
