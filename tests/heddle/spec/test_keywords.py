"""What keywords of a JSON Schema may hold: as the schema of schemas has it."""

from itertools import product
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator, SchemaError

from heddle.spec.keywords import KEYWORDS, wanted
from tests.heddle.spec.documents import agent, problems_of, sentences_of

VALUES: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        10**400,
        2.0,
        2.5,
        -0.5,
        1e300,
        "",
        "x",
        "a+",
        "(",
        "[z-a]",
    ),
    *([], ["a"], ["a", "b"], [1], ["a", 1], {}, {"a": 1}),
)


def is_schema(schema: Any) -> bool:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return False
    return True


@pytest.mark.parametrize("key", KEYWORDS)
def test_a_value_may_stand_where_it_makes_a_schema(key: str) -> None:
    for value in VALUES:
        # The older dialects have flags there, and a document may say that it is of one.
        if key.startswith("exclusive") and type(value) is bool:
            assert wanted(key, value) is None
        else:
            assert (wanted(key, value) is None) == is_schema({key: value}), (key, value)


def test_every_value_is_refused_somewhere_and_every_keyword_refuses() -> None:
    refused = [(k, v) for k, v in product(KEYWORDS, VALUES) if wanted(k, v) is not None]
    assert {key for key, _ in refused} == set(KEYWORDS)
    assert wanted("minLength", float("inf")) is not None


def test_a_pattern_that_looks_around_is_one() -> None:
    assert wanted("pattern", "(?<=a)b") is None


DECLARED: Final = {"title": "a", "type": "string"}


def test_what_is_wrong_is_said_with_its_path() -> None:
    inputs = [
        {**DECLARED, "minLength": "3"},
        {"title": "b", "anyOf": [{"type": "string", "pattern": "("}]},
        {"title": "c", "type": "object", "required": "x", "if": 5},
        {"title": "d", "anyOf": []},
    ]
    assert sentences_of(agent(inputs=inputs)) == [
        "$.inputs[0].minLength: this is '3' where a whole number from 0 belongs",
        "$.inputs[1].anyOf[0].pattern: this is '(' where a regular expression belongs",
        "$.inputs[2].required: this is 'x' where a list of names belongs",
        "$.inputs[2].if: 5 is not a JSON Schema. Write an object.",
        "$.inputs[3].anyOf: this is an empty list where a list of schemas belongs",
    ]


def test_the_authors_own_words_and_unknown_keywords_may_be_anything() -> None:
    notes = {"description": None, "format": 5, "x-note": {"required": "x"}, "examples": [1]}
    assert problems_of(agent(inputs=[{**DECLARED, **notes}])) == ()
    assert problems_of(agent(inputs=[{**DECLARED, "default": {"minLength": "x"}}])) == ()
