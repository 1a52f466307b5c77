"""What looking at a value may cost: bounded, and never in more than proportion."""

import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from heddle.spec import (
    Effort,
    EffortExceeded,
    TextTooLong,
    check,
    convert,
    is_subtype,
    problem_with,
    render,
    spending,
)


def doubling(depth: int, **leaf: Any) -> dict[str, Any]:
    """A schema whose every level refers to the next one twice."""
    twice = {
        f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]}
        for n in range(depth)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**twice, f"a{depth}": leaf or {"type": "null"}}}


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TEXT_LIST = {"type": "array", "items": {"type": "string"}}
NAMES = [f"name-{n}" for n in range(1000)]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("x", doubling(40)),
        ("x", {**doubling(40), "$schema": DRAFT_7}),
        ("x", doubling(40, type="null", **{"$schema": DRAFT_7})),
        ("x", {**doubling(40), "$ref": "#/$defs/a1", "allOf": [{"$ref": "#/$defs/a0"}]}),
        ("x", {**doubling(40), "$ref": "#/$defs/a40", "not": {"$ref": "#/$defs/a0"}}),
        (["x"] * 30_000, TEXT_LIST),
        (["x"] * 30_000, {**TEXT_LIST, "maxItems": 50_000}),
        ([{}] * 1000, {"items": {"required": NAMES}}),
        ([{}] * 1000, {"items": {"required": NAMES}, "minItems": 1}),
        (["x"] * 1000, {"items": {"enum": NAMES}}),
        ([{"x": 1}] * 30_000, {"type": "array", "uniqueItems": True}),
        (
            dict.fromkeys(NAMES, 1),
            {"patternProperties": {f"^{name}$": True for name in NAMES}},
        ),
        (
            dict.fromkeys(NAMES, 1),
            {
                "patternProperties": {f"^x{name}$": True for name in NAMES},
                "additionalProperties": False,
            },
        ),
        (dict.fromkeys(NAMES, 1), {"unevaluatedProperties": False}),
        ("x", {"properties": {name: {"minLength": 1} for name in NAMES}}),
        ("x" * 8_000_000, {"pattern": "y$"}),
    ],
)
def test_what_takes_long_is_given_up(value: Any, schema: Any) -> None:
    begun = time.monotonic()
    with spending(Effort(10_000)), pytest.raises(EffortExceeded):
        check(value, schema)
    assert time.monotonic() - begun < 5


def test_conversions_and_comparisons_spend_of_the_same() -> None:
    with spending(Effort(10_000)), pytest.raises(EffortExceeded):
        convert("x", doubling(40))
    with spending(Effort(1000)), pytest.raises(EffortExceeded):
        convert([1] * 2000, TEXT_LIST)
    wide = {"anyOf": [{"type": "object", "properties": {n: {}}} for n in NAMES]}
    with spending(Effort(10_000)), pytest.raises(EffortExceeded):
        is_subtype(wide, {"anyOf": wide["anyOf"][::-1]})


def test_an_effort_is_one_for_all_that_is_done_within_it() -> None:
    with spending(Effort(2500)) as effort:
        check(["x"] * 1000, TEXT_LIST)
        check(["x"] * 1000, TEXT_LIST)
        assert 0 < effort.left < 600
        with pytest.raises(EffortExceeded):
            check(["x"] * 1000, TEXT_LIST)
    check(["x"] * 1000, TEXT_LIST)


def test_a_list_of_wrong_things_is_told_in_a_few_sentences() -> None:
    for schema in (TEXT_LIST, {**TEXT_LIST, "minItems": 1}):
        assert len(check([1] * 5000, schema)) == 100


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.just(1.0) | st.sampled_from("ab"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner)
    ),
    max_leaves=6,
)
WORDS: list[Any] = [
    {"uniqueItems": True},
    {"pattern": "^a"},
    {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False},
    {"patternProperties": {"^a": True}, "additionalProperties": {"type": "integer"}},
    {"properties": {"a": True}, "additionalProperties": {"type": "integer"}},
    {"anyOf": [{"type": "integer"}, {"minItems": 1}]},
    {"oneOf": [{"type": "integer"}, {"minimum": 1}, {"minItems": 1}]},
    {"properties": {"a": True}, "unevaluatedProperties": False, "minProperties": 1},
]


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=4) | VALUES, st.sampled_from(WORDS))
@example([1, True], WORDS[0])
@example([1, 1.0], WORDS[0])
@example([[1], [True]], WORDS[0])
@example([{"a": 0}, {"a": False}], WORDS[0])
@example([["a", 1], {"a": 1}], WORDS[0])
def test_our_own_keywords_mean_what_the_library_s_do(value: Any, schema: Any) -> None:
    expected = Draft202012Validator(schema).is_valid(value)
    assert (check(value, {**schema, "$comment": ""}) == []) is expected


def test_a_pattern_that_backtracks_is_matched_in_no_time() -> None:
    begun = time.monotonic()
    assert check("a" * 100_000 + "!", {"pattern": "^(a+)+$"})
    assert check("a" * 100_000, {"pattern": "^(a+)+$"}) == []
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("^a+$", None),
        (r"^\u00e4", None),
        ("(?=x)", "bounded time"),
        (r"(a)\1", "bounded time"),
        ("((a{100}){100}){100}", "bounded time"),
        ("(", "no regular expression"),
    ],
)
def test_patterns_whose_time_is_not_bounded_are_known(
    pattern: str, words: str | None
) -> None:
    problem = problem_with(pattern)
    assert problem is None if words is None else words in str(problem)


def test_who_looks_ahead_is_matched_all_the_same() -> None:
    assert check("xa", {"pattern": "^(?=x)"}) == []
    assert check("a", {"pattern": "^(?=x)"}) != []
    assert check("ä", {"pattern": r"^\u00e4$"}) == []
    [(_, told)] = check("x", {"pattern": "("})
    assert "no regular expression" in told or "not valid" in told


def test_a_text_is_not_filled_in_without_end() -> None:
    with pytest.raises(TextTooLong, match="16 million characters"):
        render("{{x}}" * 1000, {"x": "y" * 100_000})
    with spending(Effort(10_000)), pytest.raises(EffortExceeded):
        render("{{x}}" * 50_000, {"x": ""})
    assert render("{{x}}{{x}}{{z}}", {"x": [1]}) == ("[1][1]{{z}}", ("z",))
