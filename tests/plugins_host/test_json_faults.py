"""What somebody reads who wrote something that is almost JSON."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugins_host import json_flaw, json_hint, not_json
from plugins_host.json_faults import same_in_every_python


def told(data: bytes) -> str:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError, RecursionError)) as caught:
        msgspec.json.decode(data)
    return not_json(data, caught.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"{", "line 1, column 2: expecting property name enclosed in double quotes"),
        (b'{"a":\n tru}', "line 2, column 2: expecting value"),
        (b'{"a": "\x01"}', "line 1, column 8: invalid control character"),
        (b'"\xff"', "it is not UTF-8"),
        (b"[" * 100_000, "it is nested too deep"),
        (b"[NaN]", "invalid character (byte 1)"),
        (b"[1e999]", "number out of range"),
        (b"1" * 5000, "integer value out of range"),
        (b'"\\ud800"', r"half of a surrogate pair, such as \ud800, stands alone"),
    ],
)
def test_the_place_and_the_reason_are_told(data: bytes, says: str) -> None:
    assert told(data) == says


NOTHING = "Keep one value in a document, and nothing behind it."
QUOTES = "Put names and texts in double quotes."
COMMENT = "Take the comment out: JSON has none."
COLON = "Write a colon between the name and its value."


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ('{"a": 1,}', "Take away the comma before '}'."),
        ("[1, 2, ]", "Take away the comma before ']'."),
        ("[1,, 2]", "Take away the comma before ','."),
        ("{'a': 1}", QUOTES),
        ("{a: 1}", QUOTES),
        ("{None: 1}", QUOTES),
        ('{"a": hello}', QUOTES),
        ('{"a": “b”}', 'Write the quotes as ", which are the only ones of JSON.'),
        ('{"a": None}', "Write null, which JSON has in place of None."),
        ('{"a": undefined}', "Write null, which JSON has in place of undefined."),
        ('{"a": True}', "Write true, which JSON has in place of True."),
        ("[FALSE]", "Write false, which JSON has in place of FALSE."),
        ("[tru]", "Did you mean true?"),
        ('{"a": 1 // one\n}', COMMENT),
        ("# a flow\n{}", COMMENT),
        ('{"a": 1\n "b": 2}', "Write a comma before it."),
        ('{"a": 1; "b": 2}', "Write a comma in its place."),
        ("[1 2]", "Write a comma before it."),
        ('{"a" 1}', COLON),
        ('{"a"= 1}', "Write a colon in its place."),
        ('{"a": }', "Write a value behind the colon."),
        ('{"a": "it"s"}', r"Write \" for a quote in a text."),
        ('{"a": "b}', "Close the quote that begins here."),
        (
            '{"a": "b\nc"}',
            r"Close the quote before the line ends, or write \n for a line break.",
        ),
        ('["\t"]', r"Write \t for a tab."),
        ('["\x01"]', "Take the character out."),
        (r'["C:\x"]', r"Write a backslash in a text as two: \\."),
        ('{"a": [1, "]"', "Close the '[' of line 1."),
        ('{\n"a": 1,', "Close the '{' of line 1."),
        ('{"a":\n ["b"}', "Close the '[' of line 2 first."),
        ('{"a": 1}}', "Take the '}' away: nothing is open there."),
        ('{"a": 1} {"b": 2}', NOTHING),
        ("[01]", "Take away the zero that the number begins with."),
        ("[-01]", "Take away the zero that the number begins with."),
        ("[100 1]", "Write a comma before it."),
        ("[.5]", "Write a digit before the point."),
        ("[+5]", "Take away the plus."),
        ("[(1)]", "Write a list in square brackets."),
        ("[<p>]", ""),
    ],
)
def test_what_people_write_in_its_place_says_what_to_do(text: str, does: str) -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(text)
    flaw = json_flaw(text.encode(), caught.value)
    assert flaw.fix == does
    assert flaw.offset is not None


def test_brackets_of_a_very_long_text_are_not_counted() -> None:
    assert json_hint("[" + " " * (1 << 20), 1 + (1 << 20), "Expecting value") == ""


@pytest.mark.parametrize(
    ("text", "newer"),
    [
        ('{"a": 1\n, }', json.JSONDecodeError("Illegal trailing comma before end of object",
                                             '{"a": 1\n, }', 8)),
        ("[1, ]", json.JSONDecodeError("Illegal trailing comma before end of array",
                                       "[1, ]", 2)),
        ("[1 2]", None),
    ],
)  # fmt: skip
def test_a_comma_too_many_is_told_the_same_by_every_python(
    text: str, newer: json.JSONDecodeError | None
) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    # This one is of either kind, as the Python is that runs the test.
    here = same_in_every_python(caught.value)
    other = same_in_every_python(newer or caught.value)
    assert (here.msg, here.pos, here.lineno, here.colno) == (
        other.msg, other.pos, other.lineno, other.colno
    )  # fmt: skip


@given(st.text(alphabet="{}[]\",:'ab01.\\ \n"))
def test_any_text_has_a_hint_or_none(text: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        hint = json_hint(text, error.pos, error.msg)
    else:
        hint = ""
    assert "\n" not in hint


@given(st.binary())
@example(json.dumps("\ud800").encode())
def test_whatever_is_refused_has_a_reason(data: bytes) -> None:
    with suppress(pytest.fail.Exception):
        assert told(data)
