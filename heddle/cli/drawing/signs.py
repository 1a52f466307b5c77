"""The characters that pictures are drawn with, for streams of any encoding."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple


class Signs(NamedTuple):
    """Lines, corners, arrows and marks, each one cell wide."""

    down: str
    across: str
    dashed_down: str
    dashed_across: str
    thick_down: str
    thick_across: str
    corners: tuple[str, str, str, str]
    """From below to the right, from below to the left, from above to the right, … left."""
    box: tuple[str, str, str, str]
    """Top left, top right, bottom left, bottom right."""
    out: str
    """Where a line leaves the lower edge of a box."""
    branch: str
    dashed_branch: str
    below: str
    above: str
    right: str
    up: str
    node: str
    asked: str
    more: str


UNICODE: Final = Signs(
    down="│",
    across="─",
    dashed_down="┊",
    dashed_across="┈",
    thick_down="┃",
    thick_across="━",
    corners=("╭", "╮", "╰", "╯"),
    box=("┌", "┐", "└", "┘"),
    out="┬",
    branch="├",
    dashed_branch="┊",
    below="▼",
    above="▲",
    right="▶",
    up="↑",
    node="●",
    asked="◆",
    more="▾",
)
ASCII: Final = Signs(
    down="|",
    across="-",
    dashed_down=":",
    dashed_across=".",
    thick_down="|",
    thick_across="=",
    corners=("+", "+", "+", "+"),
    box=("+", "+", "+", "+"),
    out="+",
    branch="|",
    dashed_branch=":",
    below="v",
    above="^",
    right=">",
    up="^",
    node="*",
    asked="*",
    more="v",
)


def signs_for(encoding: str | None, environment: Mapping[str, str]) -> Signs:
    """Those that a stream of this encoding can take, and a terminal of this locale shows.

    Python writes UTF-8 where the locale says nothing of the kind; what reads it may not.
    """
    named = next(
        (
            environment[name]
            for name in ("LC_ALL", "LC_CTYPE", "LANG")
            if environment.get(name)
        ),
        "",
    )
    if named == "C.UTF-8" and not environment.get("LC_ALL"):
        # What Python itself puts in the place of a locale without an encoding (PEP 538).
        named = environment.get("LANG") or named
    if named and not re.search(r"utf-?8", named, re.IGNORECASE):
        return ASCII
    try:
        "".join("".join(each) for each in UNICODE).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
