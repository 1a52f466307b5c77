"""JSON in, plain data out.

msgspec reads it. What it refuses, or lets pass and we don't, is looked at again by the
standard library's reader, which is slower and says more.
"""

import re
from typing import Any, NoReturn

import msgspec

from heddle.spec.problems import shown
from heddle.spec.repeated_keys import refuse_repeated_keys
from heddle.spec.source import (
    MAX_DIGITS,
    MAX_NESTING,
    position,
    refusal,
    text_of,
    too_deep,
)
from plugins_host import json_hint
from plugins_host.json_faults import same_in_every_python


def parse_json(data: bytes, name: str) -> Any:
    """Read JSON.

    Raises:
        DocumentError: It is malformed, repeats a key, or nests too deep.
    """
    try:
        document = msgspec.json.decode(data)
        # Of repeated keys the decoder keeps the last. Encoding again costs little, and
        # every key that was lost took its colon along.
        colons = msgspec.json.encode(document).count(b":")
    except RecursionError:
        raise too_deep(name, _deepest(text_of(data, name))) from None
    except msgspec.DecodeError as error:
        _explain_json(data, name, error)
    if data.count(b"[") + data.count(b"{") > MAX_NESTING and _nests_too_deep(document):
        raise too_deep(name, _deepest(text_of(data, name)))
    if data.count(b":") != colons or b"\\u003" in data:
        refuse_repeated_keys(data.decode(), name)
    return document


def _nests_too_deep(document: Any) -> bool:
    """Whether brackets nest deeper than they may, found one level after the other."""
    level = [document] if type(document) is dict or type(document) is list else []
    for _ in range(MAX_NESTING):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _deepest(text: str) -> str:
    """Where brackets first nest deeper than they may."""
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', text, re.DOTALL):
        match token[0][0]:
            case "[" | "{":
                depth += 1
                if depth > MAX_NESTING:
                    return position(text, token.start())
            case "]" | "}":
                depth -= 1
    return ""  # what is malformed may end before its brackets do


def _explain_json(data: bytes, name: str, error: msgspec.DecodeError) -> NoReturn:
    """Raise what the standard library's reader has to say: it knows the line, and says
    what it expected there. What it would let pass is told in the decoder's words."""
    import json

    text = text_of(data, name)
    if not text.strip():
        raise refusal(name, "this document is empty") from error

    def refuse(token: str, what: str, fix: str = "") -> NoReturn:
        raise refusal(name, what, where=_first(token, text), fix=fix) from error

    def constant(word: str) -> NoReturn:
        refuse(word, f"{word} is not a number in JSON", "Write null, or a text.")

    def number(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            refuse(digits, f"the number {shown(digits)} is out of range")
        return value

    def integer(digits: str) -> int:
        if len(digits.lstrip("-")) > MAX_DIGITS:
            refuse(digits, f"an integer of {len(digits)} digits is out of range")
        return int(digits)

    try:
        json.loads(text, parse_constant=constant, parse_float=number, parse_int=integer)
    except json.JSONDecodeError as better:
        better = same_in_every_python(better)
        what = (better.msg[0].lower() + better.msg[1:]).removesuffix(" at")
        raise refusal(
            name,
            f"malformed JSON: {what}",
            where=position(text, better.pos),
            fix=json_hint(text, better.pos, better.msg),
        ) from error
    except RecursionError:
        raise too_deep(name, _deepest(text)) from None
    for escape in _ESCAPE.finditer(text):
        if escape["half"]:
            raise refusal(
                name,
                f"{escape[0]} is half of a surrogate pair, and stands alone",
                where=position(text, escape.start()),
            ) from error
    byte = re.search(r"\(byte (\d+)\)", str(error))
    where = (
        position(text, len(data[: int(byte[1])].decode(errors="ignore"))) if byte else ""
    )
    what = re.sub(r" \(byte \d+\)", "", str(error)).removeprefix("JSON is malformed: ")
    raise refusal(name, f"malformed JSON: {what}", where=where) from error


# An escape in a string of valid JSON; ``half`` when it is no character by itself.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL
)


def _first(token: str, text: str) -> str:
    """Where a token stands that is no text, for the first time."""
    pattern = rf'"(?:[^"\\]|\\.)*+"|(?P<found>{re.escape(token)})'
    found = next(m for m in re.finditer(pattern, text, re.DOTALL) if m["found"])
    return position(text, found.start())
