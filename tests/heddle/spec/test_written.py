"""Components written out: references replaced, shared, and bounded."""

from typing import Any

import pytest

from heddle.spec.effort import Effort, EffortExceeded, spending
from heddle.spec.written import MAX_VALUES, TooLarge, WrittenOut


def ref(identity: str) -> dict[str, Any]:
    return {"$component_ref": identity}


def test_references_are_replaced_and_definitions_left_out() -> None:
    out = WrittenOut({"m": {"model": [ref("v"), 1]}, "v": "value"}.__getitem__)
    written = out.of({"a": ref("m"), "b": [ref("v")], "$referenced_components": {"x": 1}})
    assert written == {"a": {"model": ["value", 1]}, "b": ["value"]}


def test_what_stands_for_nothing_stays_as_it_is() -> None:
    out = WrittenOut({}.__getitem__)
    assert out.of({"a": ref("b"), "c": {"$component_ref": 7}}) == {
        "a": ref("b"),
        "c": {"$component_ref": 7},
    }


def test_what_many_refer_to_is_there_once() -> None:
    out = WrittenOut({"m": {"x": list(range(1000))}}.__getitem__)
    one, other = out.of({"a": ref("m")}), out.of({"b": ref("m")})
    assert one["a"] is other["b"]


def test_the_values_of_one_component_are_counted_with_what_it_refers_to() -> None:
    many = [0] * (MAX_VALUES // 2)
    out = WrittenOut({"m": many}.__getitem__)
    out.of({"a": ref("m")})
    with pytest.raises(TooLarge):
        out.of({"a": ref("m"), "b": ref("m")})


def test_references_that_double_are_refused_at_once() -> None:
    definitions: dict[str, Any] = {"k0": {"level": 0}}
    for level in range(1, 60):
        definitions[f"k{level}"] = {"a": ref(f"k{level - 1}"), "b": ref(f"k{level - 1}")}
    with spending(Effort(1000)), pytest.raises(TooLarge):
        WrittenOut(definitions.__getitem__).of({"a": ref("k59")})


def test_all_components_together_are_bounded_by_what_may_be_spent() -> None:
    out = WrittenOut({}.__getitem__)
    with spending(Effort(100)), pytest.raises(EffortExceeded):
        for _ in range(100):
            out.of({"a": [1, 2, 3]})
