"""What to do about a text that is almost JSON, by where its reader gave up.

{"a": 1,}        Take away the comma before '}'.
{'a': None}      Put names and texts in double quotes.
{"a": None}      Write null, which JSON has in place of None.
{"a": [1, 2}     Close the '[' of line 1 first.
"""

import re
from collections.abc import Callable
from typing import Final

from plugins_host.faults import nearest

MOST_SEARCHED: Final = 1 << 20
"""Characters of a text whose brackets are counted, which takes a tenth of a second."""

_PLAIN_QUOTES: Final = "Put names and texts in double quotes."
_NO_COMMENTS: Final = "Take the comment out: JSON has none."

_BY_CHARACTER: Final = {
    "'": _PLAIN_QUOTES,
    "`": _PLAIN_QUOTES,
    **dict.fromkeys("“”„«»‘’", 'Write the quotes as ", which are the only ones of JSON.'),
    "/": _NO_COMMENTS,
    "#": _NO_COMMENTS,
    ";": "Write a comma in its place.",
    "=": "Write a colon in its place.",
    "+": "Take away the plus.",
    "(": "Write a list in square brackets.",
}
"""By the first character that has no place."""

_WORDS: Final = {
    **dict.fromkeys(("None", "nil", "NULL", "Null", "undefined"), "null"),
    **dict.fromkeys(("True", "TRUE"), "true"),
    **dict.fromkeys(("False", "FALSE"), "false"),
}
"""What other languages say for what JSON has one word for."""

_WORD: Final = re.compile(r"[^\W\d][\w$-]*")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL)


def json_hint(text: str, at: int, problem: str) -> str:
    """What to do, in one sentence; "" where nobody knows.

    Args:
        text: What is no JSON.
        at: Where the standard library's reader gave up in it.
        problem: What it says of that place.
    """
    return next((hint for look in _LOOKS if (hint := look(text, at, problem))), "")


def _comma_too_many(text: str, at: int, _: str) -> str:
    here = text[at : at + 1]
    before = text[max(0, at - 1000) : at].rstrip()
    if here and here in "}],":
        if before.endswith(","):
            return f"Take away the comma before {here!r}."
        if before.endswith(":"):
            return "Write a value behind the colon."
    return ""


def _in_a_text(text: str, at: int, problem: str) -> str:
    """Of what is between quotes."""
    if problem.startswith("Unterminated string"):
        return "Close the quote that begins here."
    if problem.startswith("Invalid control character"):
        if text[at] in "\r\n":
            return r"Close the quote before the line ends, or write \n for a line break."
        return r"Write \t for a tab." if text[at] == "\t" else "Take the character out."
    if "escape" in problem:
        return r"Write a backslash in a text as two: \\."
    return ""


def _bracket(text: str, at: int, _: str) -> str:
    """Of what was opened and not closed, or closed and not opened."""
    here = text[at : at + 1]
    if (here and here not in "}]") or len(text) > MOST_SEARCHED:
        return ""
    opened: list[int] = []
    for token in _TOKEN.finditer(text, 0, at):
        if token[0][0] in "{[":
            opened.append(token.start())
        elif token[0][0] in "}]" and opened:
            opened.pop()
    if not opened:
        return f"Take the {here!r} away: nothing is open there." if here else ""
    bracket, line = text[opened[-1]], text.count("\n", 0, opened[-1]) + 1
    if not here:
        return f"Close the {bracket!r} of line {line}."
    if f"{bracket}{here}" not in ("{}", "[]"):
        return f"Close the {bracket!r} of line {line} first."
    return ""


def _character(text: str, at: int, _: str) -> str:
    return _BY_CHARACTER.get(text[at : at + 1], "")


def _word(text: str, at: int, problem: str) -> str:
    found = _WORD.match(text, at)
    if found is None or problem.startswith("Expecting ','"):
        return ""
    word = found[0]
    if word in _WORDS and "property name" not in problem:
        return f"Write {_WORDS[word]}, which JSON has in place of {word}."
    guess = nearest(word, ("true", "false", "null"))
    if guess is not None and "property name" not in problem:
        return f"Did you mean {guess}?"
    return _PLAIN_QUOTES


def _number(text: str, at: int, _: str) -> str:
    if text[at : at + 1] == ".":
        return "Write a digit before the point."
    if text[at : at + 1].isdigit() and re.search(r"(?<![\w.])-?0\Z", text[:at][-3:]):
        return "Take away the zero that the number begins with."
    return ""


def _between(text: str, at: int, problem: str) -> str:
    """Of two things with nothing between them."""
    if problem.startswith("Expecting ':'"):
        return "Write a colon between the name and its value."
    if problem.startswith("Expecting ','"):
        if text[at - 1] == '"' and _WORD.match(text, at):
            return r"Write \" for a quote in a text."
        return "Write a comma before it."
    if problem.startswith("Extra data"):
        return "Keep one value in a document, and nothing behind it."
    return ""


_LOOKS: Final[tuple[Callable[[str, int, str], str], ...]] = (
    _comma_too_many,
    _in_a_text,
    _bracket,
    _character,
    _number,
    _word,
    _between,
)
"""Who is asked, the first that knows something."""
