"""Styled text as rows of segments, as `heddle.cli.terminal.region` draws them.

(("✓ ", "green"), ("look", "cyan"))    →    [Segment("✓ "), Segment("look")]
"""

from functools import cache

from rich.segment import Segment
from rich.style import Style

from heddle.cli.live.telling import Spans


def segments(spans: Spans) -> list[Segment]:
    """Text of one line as a row."""
    return [Segment(text, styled(style)) for text, style in spans if text]


def text_rows(spans: Spans) -> list[list[Segment]]:
    """Text of any number of lines as a row each."""
    made: list[list[Segment]] = [[]]
    for text, style in spans:
        first, *more = text.split("\n")
        made[-1].append(Segment(first, styled(style)))
        made += [[Segment(each, styled(style))] for each in more]
    return made


@cache
def styled(words: str) -> Style | None:
    """A style from rich's words for it."""
    return Style.parse(words) if words else None
