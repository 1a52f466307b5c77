"""Long JSON in pieces is what it is at once."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.server.submitted import json_pieces
from heddle.server.submitted.json_pieces import TooDeep, TooMany

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=40,
)
CHANGES = [*(bytes((each,)) for each in b',[]{}":1 \\\xff'), b""]
SPACES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", "\t:\r ")])


@pytest.fixture(autouse=True, scope="module")
def _small_pieces() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "PIECE", 8)
        yield


def at_once(data: bytes) -> Any:
    """What msgspec says, or that it refuses."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "refused"


def in_pieces(data: bytes) -> Any:
    try:
        return json_pieces.decode(data, values=10**6, depth=100)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "refused"


@given(VALUES, SPACES, st.booleans())
def test_any_value_is_read_as_it_is_at_once(
    value: Any, spaces: tuple[str, str], ascii_only: bool
) -> None:
    data = json.dumps(value, separators=spaces, ensure_ascii=ascii_only).encode()
    assert in_pieces(data) == value


@given(VALUES, st.data())
def test_what_is_malformed_is_refused_and_nothing_else_is(
    value: Any, data: st.DataObject
) -> None:
    text = bytearray(json.dumps(value).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        change = data.draw(st.sampled_from(CHANGES))
        text[at : at + data.draw(st.integers(0, 1))] = change
    assert in_pieces(bytes(text)) == at_once(bytes(text))


@given(st.binary(max_size=60).map(lambda data: b"[" + data))
@example(b"[[1,2,3,4,5,6]1,2,3,4,5,6,7]")
@example(b"[1,2,3,4,5,6,7,[1,2,3,4,5,6,7],]")
@example(b'{"a":[1,2,3,4,5,6,7],"b":{"c":[1,2,3,4,5,6]},"a":[0]}')
@example(b'{"a":[1,2,3,4,5,6,7]"b":1,"c":2,"d":3}')
@example(b"{[1,2,3,4,5,6,7]:1}")
@example(b'{"a":1[1,2,3,4,5,6,7]}')
@example(b'{"a":-[1,2,3,4,5,6,7]}')
@example(b'{"a":1.[1,2,3,4,5,6,7]}')
@example(b'{"a":1e{"b":[1,2,3,4,5]}}')
@example(b'{"a":[][1,2,3,4,5,6,7]}')
@example(b'{"a":{}{"b":[1,2,3,4,5]}}')
@example(b'{"a"[1,2,3,4,5,6,7]}')
@example(b"[,[1,2,3,4,5,6,7]]")
@example(b"[1,2,3,4,5,6,7,8}          ")
@example(b'["\\')
@example(b'["\\"\\"\\"\\"\\"\\"\\"\\"')
def test_any_bytes_are_read_as_they_are_at_once(data: bytes) -> None:
    assert in_pieces(data) == at_once(data)


def test_no_more_is_decoded_at_once_than_a_piece_and_a_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[int] = []

    def decode(data: bytes) -> Any:
        decoded.append(len(data))
        return msgspec.json.decode(data)

    monkeypatch.setattr(json_pieces, "_decode", decode)
    leaf = {f"key {n}": [n, str(n), [None] * (n % 5)] for n in range(200)}
    value = {"wide": [leaf, 1] * 4, "deep": [[[leaf]], {"a": {"b": leaf}}], "last": "x"}
    data = msgspec.json.encode(value)
    assert json_pieces.decode(data, values=10**6, depth=20) == value
    assert len(decoded) > 1000
    assert max(decoded) < 64


def test_a_flaw_is_told_with_its_place_in_the_whole() -> None:
    data = b"[" + b"1," * 50 + b"x]"
    with pytest.raises(msgspec.DecodeError, match=rf"\(byte {data.index(b'x')}\)"):
        json_pieces.decode(data, values=1000, depth=10)


# What can stand before a value that it does not belong to: whole values and halves of them.
BEFORE = st.sampled_from(
    [
        "",
        " ",
        ":",
        ",",
        "1",
        "-",
        "1.",
        "1e",
        "0",
        "t",
        "null",
        '"b"',
        '"b":',
        "[]",
        "{}",
        "[",
    ]
)


@given(
    st.sampled_from(['{"a":%s%s}', "[%s%s]", '{"x":1,"a":%s%s,"y":2}', "[[0],%s%s,1]"]),
    BEFORE,
    BEFORE,
    VALUES,
)
def test_what_stands_before_a_long_value_is_not_lost(
    around: str, before: str, also: str, value: Any
) -> None:
    long = json.dumps([[value], {"k": [value, 1, 2, 3, 4, 5]}])
    data = (around % (before + also, long)).encode()
    assert in_pieces(data) == at_once(data)


def test_values_in_texts_do_not_count() -> None:
    assert not json_pieces.has_more(b'{"a":"[1,2,3,4,5]"}', 3)
    assert json_pieces.has_more(b'{"a":"b","c":[1,2]}', 3)


def test_there_may_be_so_many_and_so_deep() -> None:
    many = b"[" + b",".join([b"[]"] * 20) + b"]"
    assert len(json_pieces.decode(many, values=40, depth=2)) == 20
    with pytest.raises(TooMany):
        json_pieces.decode(many, values=39, depth=2)
    deep = b"[" * 20 + b"]" * 20
    assert json_pieces.decode(deep, values=100, depth=20)
    with pytest.raises(TooDeep):
        json_pieces.decode(deep, values=100, depth=19)
    # Never more is looked at than that.
    with pytest.raises(TooDeep):
        json_pieces.decode(b"[" * 10_000_000, values=10**8, depth=200)
