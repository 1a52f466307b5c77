"""Collapsed stacks as a picture: a flame graph in one SVG file that loads nothing.

The widest boxes took the most time; a box stands on the one that called it, and says in its
title (hover) what it is called in whole, how often it was seen and its share.
"""

import re
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

from msgspec import Struct

WIDTH: Final = 1600
ROW: Final = 18
_LETTER: Final = 6.7
_LEAST: Final = 0.6
"""Pixels below which nothing is drawn."""
_COLOURS: Final = (
    (re.compile(r" heddle/"), "#f2b66d"),
    (re.compile(r" (plugins_host|actors)/"), "#8fc78a"),
    (re.compile(r" (trio|outcome)/"), "#9db8dd"),
    (re.compile(""), "#d3d3d3"),
)


class Box(Struct):
    """A function where it was called, and those that it called."""

    name: str
    times: int = 0
    inside: dict[str, "Box"] = {}


def boxes(collapsed: str) -> Box:
    """The tree of stacks; its root is all that was seen. Lines with # are passed over."""
    root = Box("all")
    for line in collapsed.splitlines():
        if line.startswith("#"):
            continue
        stack, _, times = line.rpartition(" ")
        box = root
        box.times += int(times)
        for name in stack.rpartition("@")[0].split(";"):
            box = box.inside.setdefault(name, Box(name))
            box.times += int(times)
    return root


def flame(collapsed: str, title: str) -> str:
    """The SVG document. Boxes that were all the time there are left out at the bottom."""
    root = boxes(collapsed)
    whole = root.times
    while len(root.inside) == 1:
        (only,) = root.inside.values()
        if only.times < whole:
            break
        root = only
    drawn = list(_boxes(root, 0.0, 0, WIDTH / max(root.times, 1)))
    height = (2 + max((depth for _, _, depth, _ in drawn), default=0) + 1) * ROW + 12
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' width="{WIDTH}" height="{height}" font-family="monospace" font-size="11">'
        ),
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="6" y="16" font-size="14">{escape(title)}</text>',
    ]
    for box, x, depth, width in drawn:
        y = height - (depth + 1) * ROW - 4
        share = 100 * box.times / max(whole, 1)
        said = escape(f"{box.name}: {box.times} times, {share:.1f} %")
        letters = int((width - 6) / _LETTER)
        short = box.name.partition(" ")[0]
        text = box.name if len(box.name) <= letters else short[:letters]
        parts.append(
            f"<g><title>{said}</title>"
            f'<rect x="{x:.1f}" y="{y}" width="{max(width - 0.5, 0.3):.1f}"'
            f' height="{ROW - 1}" rx="2" fill="{_colour(box.name)}"/>'
            + (
                f'<text x="{x + 3:.1f}" y="{y + 13}">{escape(text)}</text>'
                if letters >= 3
                else ""
            )
            + "</g>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _boxes(
    box: Box, x: float, depth: int, scale: float
) -> Iterator[tuple[Box, float, int, float]]:
    width = box.times * scale
    if width < _LEAST:
        return
    yield box, x, depth, width
    for each in sorted(box.inside.values(), key=lambda one: one.name):
        yield from _boxes(each, x, depth + 1, scale)
        x += each.times * scale


def _colour(name: str) -> str:
    return next(colour for pattern, colour in _COLOURS if pattern.search(name))
