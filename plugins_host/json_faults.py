"""Where a text stops being JSON, and why, in words for whoever wrote it.

b'{"a": 1,}'   →  "line 1, column 9: expecting property name enclosed in double quotes"
                  "Take away the comma before '}'."
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from plugins_host.json_hints import json_hint

if TYPE_CHECKING:
    from json import JSONDecodeError


class JsonFlaw(Struct, frozen=True):
    """What is wrong with a text that is no JSON: ``what`` with its place, ``fix`` what to
    do about it where that is known, ``offset`` the character that has no place there."""

    what: str
    fix: str = ""
    offset: int | None = None


def json_flaw(data: bytes, error: Exception) -> JsonFlaw:
    """What is wrong with ``data``, which the decoder refused with ``error``.

    The standard library's reader knows the line and says what it expected there. What it
    would let pass, such as NaN, is told in the decoder's words.
    """
    import json

    try:
        json.loads(data)
    except json.JSONDecodeError as better:
        if not data.strip():
            return JsonFlaw("it is empty")
        better = same_in_every_python(better)
        reason = (better.msg[0].lower() + better.msg[1:]).removesuffix(" at")
        return JsonFlaw(
            f"line {better.lineno}, column {better.colno}: {reason}",
            json_hint(better.doc, better.pos, better.msg),
            better.pos,
        )
    except UnicodeDecodeError:
        return JsonFlaw("it is not UTF-8")
    except RecursionError:
        return JsonFlaw("it is nested too deep")
    except ValueError:  # an integer of thousands of digits
        pass
    if "truncated" in str(error):
        return JsonFlaw(r"half of a surrogate pair, such as \ud800, stands alone")
    reason = str(error).removeprefix("JSON is malformed: ").partition(" - at `")[0]
    return JsonFlaw(reason[:1].lower() + reason[1:])


def same_in_every_python(error: "JSONDecodeError") -> "JSONDecodeError":
    """The error as readers before Python 3.13 have it: where a comma has nothing behind it,
    they point at what stands there, and newer ones at the comma."""
    if "trailing comma" not in error.msg:
        return error
    behind = error.doc[error.pos + 1 :]
    at = error.pos + 1 + len(behind) - len(behind.lstrip())
    in_array = error.doc[at : at + 1] == "]"
    expected = "value" if in_array else "property name enclosed in double quotes"
    return type(error)(f"Expecting {expected}", error.doc, at)


def not_json(data: bytes, error: Exception) -> str:
    """The same as one text, without what to do about it."""
    return json_flaw(data, error).what
