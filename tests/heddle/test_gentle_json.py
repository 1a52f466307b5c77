"""Long values are encoded as short ones are, and others have their turn meanwhile."""

from typing import Any
from unittest.mock import patch

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from heddle import gentle_json
from heddle.gentle_json import AT_ONCE, any_long, encode_gently, is_long

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 9), inner, max_size=5)
    ),
    max_leaves=60,
)


@given(VALUES, st.integers(0, 12))
def test_any_value_has_the_json_that_it_has_at_once(value: Any, at_once: int) -> None:
    with patch.object(gentle_json, "AT_ONCE", at_once):
        assert trio.run(encode_gently, value) == msgspec.json.encode(value)


@given(VALUES)
def test_long_is_what_has_many_values_in_it(value: Any) -> None:
    def size(each: Any) -> int:
        inside = each.values() if isinstance(each, dict) else each
        return 1 + sum(map(size, inside)) if isinstance(each, (list, dict, tuple)) else 1

    for at_once in (1, 3, size(value) - 1, size(value), size(value) + 1):
        with patch.object(gentle_json, "AT_ONCE", at_once):
            nested = isinstance(value, (list, dict, tuple))
            assert is_long(value) == (nested and size(value) > at_once)
            assert any_long({"a": 1, "b": value}) == is_long(value)


@pytest.mark.parametrize(
    "value",
    [
        list(range(20 * AT_ONCE)),
        {str(number): number for number in range(20 * AT_ONCE)},
        [[[number] for number in range(20 * AT_ONCE)]],
        {"a": {"b": [{"c": [1, 2]}] * (5 * AT_ONCE)}},
    ],
)
async def test_others_have_their_turn(value: Any) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        assert await encode_gently(value) == msgspec.json.encode(value)
        nursery.cancel_scope.cancel()
    assert turns >= 19


async def test_what_has_no_json_is_told() -> None:
    with pytest.raises(TypeError):
        await encode_gently([[0]] * AT_ONCE + [object()])
