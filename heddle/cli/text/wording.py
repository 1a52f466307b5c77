"""Text from models, tools and documents, made fit for a line on a terminal.

What moves the cursor, rings, recolours or reorders is shown instead of obeyed: an escape
character becomes ``\\x1b``. Everything that the command line prints comes through here.
"""

import re
from typing import Any, Final

import msgspec

from plugins_host import NodePath

# C0 and C1 controls, line and paragraph separators, and the marks that reorder text so
# that it reads differently from what it says (trojansource.codes); and halves of pairs,
# which no stream takes: file names that are no UTF-8 have them. Newline and tab stay.
UNFIT: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)
# The same in encoded JSON, where controls below space and halves of pairs are escaped
# already. Looking for the first byte of each alone takes less than for each by itself.
UNFIT_IN_JSON: Final = re.compile(
    rb"[\x7f\xc2\xe2](?:(?<=\x7f)|(?<=\xc2)[\x80-\x9f]"
    rb"|(?<=\xe2)(?:\x80[\x8e\x8f\xa8-\xae]|\x81[\xa6-\xa9]))"
)


def fit(text: str) -> str:
    """Any number of lines, without a character that acts on a terminal."""
    return UNFIT.sub(_escaped, text)


def line(text: str, *, most: int = 0) -> str:
    """One line, cut to ``most`` characters where that is not 0."""
    one = fit(text[: most + 1] if most else text).replace("\n", "\\n").replace("\t", " ")
    return one if not most or len(one) <= most else one[: most - 1] + "…"


def place(node: str, path: NodePath | None, *, most: int = 0) -> str:
    """Where a node is, on one line: ``ask``, ``each[2] / ask``."""
    if path is None:
        return line(node, most=most)
    steps: list[str] = []
    for step in path:
        if isinstance(step, int) and steps:
            steps[-1] += f"[{step}]"
        else:
            steps.append(str(step))
    return line(" / ".join(steps), most=most)


def json_line(value: Any, *, most: int = 0) -> str:
    """A JSON value on one line, cut to ``most`` characters where that is not 0."""
    return line(msgspec.json.encode(value).decode(), most=most)


def fit_json(encoded: bytes) -> bytes:
    """The same JSON, with the last characters that act on a terminal escaped."""
    if not UNFIT_IN_JSON.search(encoded):
        return encoded
    return UNFIT_IN_JSON.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), encoded)


def seconds(length: float) -> str:
    """A duration as people read it: ``0.2 s``, ``12 s``, ``3 min 5 s``."""
    if length < 10:
        return f"{length:.1f} s"
    if length < 60:
        return f"{length:.0f} s"
    minutes, rest = divmod(round(length), 60)
    return f"{minutes} min {rest} s"


def _escaped(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
