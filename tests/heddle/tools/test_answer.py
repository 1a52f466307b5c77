from contextlib import suppress

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.nesting import MAX_DEPTH, depth
from heddle.tools import ToolAnswerInvalid
from heddle.tools.answer import read_answer

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4
        )
    ),
)


@given(st.dictionaries(TEXT, JSON))
def test_an_object_is_read_as_it_was_written(answer: dict[str, object]) -> None:
    assert read_answer("t", msgspec.json.encode(answer)) == answer


@given(st.binary())
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b'{"a":"\xff"}')
@example(b"[1]")
@example(b"1")
@example(b"null")
@example(b'"x"')
def test_any_bytes_are_an_object_or_a_fault(printed: bytes) -> None:
    with suppress(ToolAnswerInvalid):
        assert isinstance(read_answer("t", printed), dict)


@pytest.mark.parametrize("printed", [b"", b"\n", b" \r\n\t"])
def test_nothing_printed_is_an_empty_object(printed: bytes) -> None:
    assert read_answer("t", printed) == {}


@pytest.mark.parametrize(
    ("printed", "kind"),
    [
        (b"[1]", "an array"),
        (b'"x"', "a string"),
        (b"true", "a boolean"),
        (b"null", "null"),
        (b"12", "a number"),
        (b"1.5", "a number"),
    ],
)
def test_other_json_than_an_object_is_told_by_its_kind(printed: bytes, kind: str) -> None:
    with pytest.raises(ToolAnswerInvalid) as caught:
        read_answer("search", printed)
    assert str(caught.value) == (
        f"tool 'search': stdout is {kind}, not a JSON object: {printed.decode()!r}. "
        "Print one JSON object on stdout, and messages on stderr."
    )


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (b"hello", r"line 1, column 1: expecting value\): 'hello'"),
        (b'{"a":NaN}', r"invalid character \(byte 5\)"),
        (b'{"a":Infinity}', r"invalid character \(byte 5\)"),
        (b'{"a":1e999}', "number out of range"),
        (b'{"a":"\xff"}', "it is not UTF-8"),
        (b'{"a":1}\n{"b":2}', "line 2, column 1: extra data"),
        (b'{"a":', "line 1, column 6: expecting value"),
        (b'\xef\xbb\xbf{"a":1}', "begins with a byte order mark"),
        (b'{"a":"\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_what_is_not_json_says_why(printed: bytes, reason: str) -> None:
    with pytest.raises(ToolAnswerInvalid, match=reason):
        read_answer("search", printed)


def test_only_the_beginning_is_shown_and_it_cannot_move_a_terminal() -> None:
    with pytest.raises(ToolAnswerInvalid) as caught:
        read_answer("search", b"\x1b[2J" + b"x" * 1_000_000)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 300


def nested(levels: int) -> bytes:
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


def test_nesting_is_bounded() -> None:
    assert depth(read_answer("t", nested(MAX_DEPTH))) == MAX_DEPTH
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(ToolAnswerInvalid, match="nested deeper than 200 levels"):
            read_answer("t", nested(levels))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    wide = b'{"a":[' + b",".join([b"[]"] * 1000) + b"]}"
    assert read_answer("t", wide) == {"a": [[]] * 1000}
