"""A sketch as a Mermaid flowchart.

    flowchart TB
      n0(["start<br/>StartNode"])
      n1{"route<br/>BranchingNode"}
      n0 --> n1
      n1 -->|"bug"| n2
      n0 -.->|"text"| n1

Names of nodes are text alone: ids are numbers, and all that means something to Mermaid or
to HTML is written as a character reference.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from heddle.cli.drawing.boxes import rows
from heddle.cli.drawing.widths import cut
from heddle.preview.sketch import Box, Look, Sketch, Style

PLAIN: Final = re.compile(r"[^\w .,:/+@=-]|_(?=_)")
"""Everything but these is written as a reference."""

SHAPES: Final[Mapping[Look, tuple[str, str]]] = {
    Look.START: ("([", "])"),
    Look.END: ("([", "])"),
    Look.CHOICE: ("{{", "}}"),
    Look.MODEL: ("(", ")"),
    Look.FLOW: ("[[", "]]"),
    Look.STEP: ("[", "]"),
}
ARROWS: Final[Mapping[Style, str]] = {
    Style.CONTROL: "-->",
    Style.DATA: "-.->",
    Style.TALK: "==>",
}
LABEL: Final = 60
NAME: Final = 60


def mermaid(sketch: Sketch) -> str:
    """The whole text, with a newline at its end."""
    lines = ["flowchart TB", *_Writer().sketch(sketch, "  ")]
    if sketch.note:
        lines.insert(1, f"  %% {_escaped(sketch.note)}")
    return "\n".join(lines) + "\n"


class _Writer:
    def __init__(self) -> None:
        self._count = 0

    def sketch(self, sketch: Sketch, indent: str) -> Iterator[str]:
        numbers = []
        for box in sketch.boxes:
            numbers.append(self._count)
            yield from self._box(box, indent)
        for each in sketch.lines:
            label = f'|"{_escaped(cut(each.label, LABEL))}"|' if each.label else ""
            source, target = numbers[each.source], numbers[each.target]
            yield f"{indent}n{source} {ARROWS[each.style]}{label} n{target}"

    def _box(self, box: Box, indent: str) -> Iterator[str]:
        name = f"n{self._count}"
        self._count += 1
        label = "<br/>".join(_escaped(each.text) for each in rows(box, most=NAME))
        inside = [each for each in box.inside if each.boxes]
        if not inside:
            before, after = SHAPES[box.look]
            yield f'{indent}{name}{before}"{label}"{after}'
            return
        yield f'{indent}subgraph {name}["{label}"]'
        yield f"{indent}  direction TB"
        if len(inside) == 1:
            yield from self.sketch(inside[0], indent + "  ")
        else:
            for number, each in enumerate(inside):
                title = _escaped(cut(each.name, NAME))
                yield f'{indent}  subgraph {name}_{number}["{title}"]'
                yield from self.sketch(each, indent + "    ")
                yield f"{indent}  end"
        yield f"{indent}end"


def _escaped(text: str) -> str:
    return PLAIN.sub(lambda found: f"#{ord(found[0])};", text)
