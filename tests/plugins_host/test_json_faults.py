"""What somebody reads who wrote something that is almost JSON."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugins_host import not_json


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


@given(st.binary())
@example(json.dumps("\ud800").encode())
def test_whatever_is_refused_has_a_reason(data: bytes) -> None:
    with suppress(pytest.fail.Exception):
        assert told(data)
