"""A sketch as a list, for what is too wide to be drawn: each node, and where it leads.

● route  BranchingNode
│   by category
│   ◆ node.before: Audit
├─ bug ─▶ fix
├─ question ─▶ answer
┊ category ┈▶ log.what
"""

from collections.abc import Iterator

from heddle.cli.drawing.boxes import Part, rows
from heddle.cli.drawing.signs import Signs
from heddle.cli.drawing.widths import cut
from heddle.preview.sketch import Sketch, Style


def outline(sketch: Sketch, signs: Signs, width: int) -> list[str]:
    """The lines, each at most ``width`` cells wide."""
    return [cut(each, width).rstrip() for each in _sketch(sketch, signs, width)]


def _sketch(sketch: Sketch, signs: Signs, width: int) -> Iterator[str]:
    most = max(width - 4, 8)
    down = signs.down
    for number, box in enumerate(sketch.boxes):
        name, kind, *more = rows(box, most=most, mark=f"{signs.asked} ")
        yield f"{signs.node} {name.text}  {kind.text}"
        for row in more:
            yield f"{down}   {row.text}" if row.part is not Part.NAME else row.text
        for inner in box.inside:
            # Deep inside there is no room to the left any more.
            step = f"{down} " if width > 24 else ""
            yield f"{down} {signs.more} {inner.name}"
            for each in _sketch(inner, signs, width - len(step)):
                yield f"{step}{each}"
        for line in sketch.lines:
            if line.source == number:
                target = sketch.boxes[line.target].name
                label = f" {line.label} " if line.label else ""
                begin, end = (
                    (f"{signs.dashed_branch}{signs.dashed_across}", signs.dashed_across)
                    if line.style is Style.DATA
                    else (f"{signs.branch}{signs.across}", signs.across)
                )
                back = "" if line.target > number else f"  ({signs.up} above)"
                yield f"{begin}{label}{end}{signs.right} {target}{back}"
        if number < len(sketch.boxes) - 1:
            yield ""
