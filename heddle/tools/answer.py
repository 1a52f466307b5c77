"""What a tool printed, read as its answer: a JSON object, or nothing for ``{}``.

b'{"hits": 3}\\n'   → {"hits": 3}
b""                 → {}
anything else       → ToolAnswerInvalid that shows how it begins
"""

from typing import Any, Final

import msgspec

from heddle.nesting import MAX_DEPTH, too_deep
from heddle.tools.faults import ToolAnswerInvalid
from plugins_host import not_json

# A tool that answers with a document fits; one that dumps a database does not. Bounds
# the memory that one misbehaving tool can cost.
MAX_OUTPUT: Final = 16 * 1024 * 1024
SHOWN: Final = 80

OBJECT_PLEASE: Final = "Print one JSON object on stdout, and messages on stderr."
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
WORDS: Final = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def read_answer(tool: str, printed: bytes) -> dict[str, Any]:
    """Decode what ``tool`` printed.

    Raises:
        ToolAnswerInvalid: It is no JSON object.
    """
    if not printed or printed.isspace():
        return {}
    try:
        answer = msgspec.json.decode(printed)
    except msgspec.DecodeError as error:
        raise ToolAnswerInvalid(
            tool,
            f"stdout is not JSON ({_reason(printed, error)}): {beginning(printed)}",
            fix=OBJECT_PLEASE,
        ) from error
    except RecursionError as error:
        raise _too_deep(tool) from error
    if not isinstance(answer, dict):
        kind = WORDS.get(type(answer), "a number")
        raise ToolAnswerInvalid(
            tool,
            f"stdout is {kind}, not a JSON object: {beginning(printed)}",
            fix=OBJECT_PLEASE,
        )
    if too_deep(answer, printed):
        raise _too_deep(tool)
    return answer


def beginning(printed: bytes) -> str:
    """The first characters, quoted and escaped: nothing in it moves a terminal."""
    text = printed[: SHOWN * 4].decode(errors="replace").strip()
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")


def _reason(printed: bytes, error: msgspec.DecodeError) -> str:
    if printed.startswith(BYTE_ORDER_MARK):
        return "it begins with a byte order mark"
    return not_json(printed, error)


def _too_deep(tool: str) -> ToolAnswerInvalid:
    return ToolAnswerInvalid(
        tool,
        f"the JSON on stdout is nested deeper than {MAX_DEPTH} levels",
        fix="Answer with less.",
    )
