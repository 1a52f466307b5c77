"""Types: what may be joined, and what a value becomes."""

import math
from typing import Any

import pytest
from hypothesis import given

from heddle.spec import TypeConversionError, check, convert, is_subtype
from tests.heddle.spec.schemas import (
    ANY,
    BOOLEAN,
    INTEGER,
    LIST,
    NULL,
    NUMBER,
    OBJECT,
    SCHEMAS,
    STRING,
    TREE,
    VALUES,
    any_of,
    list_of,
    object_of,
)

# --- may it flow? -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        *(
            (one, one)
            for one in (STRING, INTEGER, NUMBER, BOOLEAN, NULL, LIST, OBJECT, ANY)
        ),
        *(
            (one, STRING)
            for one in (INTEGER, NUMBER, BOOLEAN, NULL, LIST, OBJECT, ANY, TREE)
        ),
        *(
            (one, other)
            for one in (INTEGER, NUMBER, BOOLEAN)
            for other in (INTEGER, NUMBER)
        ),
        (INTEGER, BOOLEAN),
        (NUMBER, BOOLEAN),
        (STRING, ANY),
        (LIST, {}),
        (ANY, INTEGER),
        ({}, OBJECT),
        (OBJECT, {"description": "no type"}),
        (list_of(INTEGER), list_of(STRING)),
        (list_of(INTEGER), LIST),
        (LIST, list_of(INTEGER)),
        (list_of(list_of(BOOLEAN)), list_of(list_of(NUMBER))),
        (object_of(a=INTEGER, b=NULL), object_of(a=NUMBER)),
        (object_of(a=INTEGER), OBJECT),
        (object_of(a=object_of(b=INTEGER)), object_of(a=object_of(b=STRING))),
        (INTEGER, any_of(NULL, NUMBER)),
        (any_of(INTEGER, BOOLEAN), NUMBER),
        (any_of(INTEGER, NULL), any_of(NULL, NUMBER)),
        ({"type": ["integer", "null"]}, {"type": ["null", "number"]}),
        (any_of(INTEGER, NULL), STRING),
        ({"oneOf": [INTEGER]}, INTEGER),
        (TREE, TREE),
        (TREE, object_of(value=STRING)),
        ({"$ref": "https://example.org/x"}, INTEGER),
        ({"$ref": "#/nowhere"}, INTEGER),
        (
            {"type": "object", "additionalProperties": INTEGER},
            {"type": "object", "additionalProperties": NUMBER},
        ),
        (object_of(a=INTEGER), {"type": "object", "additionalProperties": NUMBER}),
        (object_of(), {"type": "object", "additionalProperties": False}),
    ],
)
def test_what_may_be_joined(source: Any, destination: Any) -> None:
    assert is_subtype(source, destination)


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        *((STRING, one) for one in (INTEGER, NUMBER, BOOLEAN, NULL, LIST, OBJECT)),
        *((NULL, one) for one in (INTEGER, NUMBER, BOOLEAN, LIST, OBJECT)),
        (INTEGER, NULL),
        (LIST, OBJECT),
        (OBJECT, LIST),
        (INTEGER, LIST),
        (list_of(STRING), list_of(INTEGER)),
        (INTEGER, list_of(INTEGER)),
        (OBJECT, object_of(a=INTEGER)),
        (object_of(a=STRING), object_of(a=INTEGER)),
        (object_of(b=INTEGER), object_of(a=INTEGER)),
        (any_of(INTEGER, NULL), INTEGER),
        ({"type": ["integer", "string"]}, {"type": ["integer", "null"]}),
        (STRING, any_of(INTEGER, NULL)),
        (TREE, object_of(value=LIST)),
        (object_of(value=INTEGER, children=list_of(INTEGER)), TREE),
        (object_of(a=STRING), {"type": "object", "additionalProperties": NUMBER}),
        (object_of(a=STRING), {"type": "object", "additionalProperties": False}),
        (
            {"type": "object", "additionalProperties": STRING},
            {"type": "object", "additionalProperties": NUMBER},
        ),
    ],
)
def test_what_may_not_be_joined(source: Any, destination: Any) -> None:
    assert not is_subtype(source, destination)


def test_a_schema_that_allows_nothing_takes_nothing() -> None:
    assert is_subtype(False, INTEGER)
    assert is_subtype(INTEGER, True)
    assert is_subtype(True, INTEGER)
    assert not is_subtype(INTEGER, False)
    assert is_subtype(False, False)


def test_types_that_branch_at_every_level_are_compared_in_no_time() -> None:
    definitions: dict[str, Any] = {
        f"l{level}": any_of(*({"$ref": f"#/$defs/l{level + 1}"},) * 2)
        for level in range(60)
    }
    schema = {"$ref": "#/$defs/l0", "$defs": {**definitions, "l60": STRING}}
    assert is_subtype(schema, schema)
    assert not is_subtype(schema, {**schema, "$defs": {**definitions, "l60": INTEGER}})


def test_an_answer_that_rests_on_a_wrong_assumption_is_forgotten() -> None:
    # Whether inner fits inner is asked inside the question whether outer fits outer,
    # which then turns out not to.
    def types(flag: Any) -> dict[str, Any]:
        return {
            "outer": object_of(inner={"$ref": "#/$defs/inner"}, flag=flag),
            "inner": object_of(outer={"$ref": "#/$defs/outer"}),
        }

    outer, inner = {"$ref": "#/$defs/outer"}, {"$ref": "#/$defs/inner"}
    source = {**object_of(one=outer, two=inner), "$defs": types(BOOLEAN)}
    destination = {
        **any_of(object_of(one=outer), object_of(two=inner)),
        "$defs": types(LIST),
    }

    assert not is_subtype(source, destination)
    assert is_subtype({**source, "$defs": types(LIST)}, destination)


def test_a_reference_that_leads_to_itself_says_nothing() -> None:
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert is_subtype(circle, INTEGER)
    assert convert("x", circle) == "x"


# --- what arrives -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "destination", "arrives"),
    [
        ("as it is", STRING, "as it is"),
        (True, STRING, "true"),
        (None, STRING, "null"),
        (3, STRING, "3"),
        (2.0, STRING, "2.0"),
        ([1, "a"], STRING, '[1,"a"]'),
        ({"a": {"b": 1}}, STRING, '{"a":{"b":1}}'),
        (2.7, INTEGER, 2),
        (-2.7, INTEGER, -2),
        (2, INTEGER, 2),
        (True, INTEGER, 1),
        (2, NUMBER, 2.0),
        (False, NUMBER, 0.0),
        (0, BOOLEAN, False),
        (-1, BOOLEAN, True),
        (0.0, BOOLEAN, False),
        (0.1, BOOLEAN, True),
        (None, NULL, None),
        ([1, True], list_of(STRING), ["1", "true"]),
        ([1.5, 2], list_of(INTEGER), [1, 2]),
        ([[1]], list_of(list_of(NUMBER)), [[1.0]]),
        ([1], LIST, [1]),
        ({"a": 1, "b": 2}, object_of(a=STRING), {"a": "1", "b": 2}),
        ({"a": 1}, object_of(a=NUMBER, b=STRING), {"a": 1.0}),
        (
            {"a": 1, "b": 2},
            {"type": "object", "additionalProperties": NUMBER},
            {"a": 1.0, "b": 2.0},
        ),
        ({"a": 1}, OBJECT, {"a": 1}),
        ("anything", ANY, "anything"),
        ("anything", True, "anything"),
        (5, any_of(STRING, INTEGER), 5),
        (None, any_of(STRING, NULL), None),
        (5, any_of(STRING, NULL), "5"),
        (2.5, {"type": ["null", "integer"]}, 2),
        (2, {"oneOf": [NULL, NUMBER]}, 2.0),
        ([1], any_of(NULL, list_of(STRING)), ["1"]),
        (
            {"value": 1.5, "children": [{"value": True}]},
            TREE,
            {"value": 1, "children": [{"value": 1}]},
        ),
        (5, any_of({"$ref": "#/$defs/s"}) | {"$defs": {"s": STRING}}, "5"),
    ],
)
def test_values_are_converted_where_they_flow(
    value: Any, destination: Any, arrives: Any
) -> None:
    converted = convert(value, destination)
    assert converted == arrives
    assert type(converted) is type(arrives)
    assert repr(converted) == repr(arrives)


@pytest.mark.parametrize(
    ("value", "destination", "sentence"),
    [
        ("5", INTEGER, "$: '5' can't become an integer"),
        ("5", NUMBER, "$: '5' can't become a number"),
        ("true", BOOLEAN, "$: 'true' can't become true or false"),
        (None, INTEGER, "$: null can't become an integer"),
        (0, NULL, "$: 0 can't become null"),
        ({}, LIST, "$: an empty object can't become a list"),
        ([], OBJECT, "$: an empty list can't become an object"),
        (math.inf, INTEGER, "$: inf can't become an integer"),
        (math.nan, INTEGER, "$: nan can't become an integer"),
        (b"x", INTEGER, "$: bytes can't become an integer"),
        (10**400, NUMBER, "$: a very large number can't become a number"),
        ([1, "x"], list_of(INTEGER), "$[1]: 'x' can't become an integer"),
        (
            {"a": [{"b": "x"}]},
            object_of(a=list_of(object_of(b=NUMBER))),
            "$.a[0].b: 'x' can't become a number",
        ),
        ("x", any_of(INTEGER, NULL), "$: 'x' can't become any of the types allowed here"),
    ],
)
def test_what_cannot_be_converted_says_where(
    value: Any, destination: Any, sentence: str
) -> None:
    with pytest.raises(TypeConversionError) as raised:
        convert(value, destination)
    assert str(raised.value) == sentence


def test_a_type_that_is_only_itself_is_an_error_and_no_endless_loop() -> None:
    circle = any_of({"$ref": "#/$defs/a"}) | {"$defs": {"a": any_of({"$ref": "#/$defs/a"})}}
    with pytest.raises(TypeConversionError):
        convert("x", circle)


def test_a_value_nested_without_end_cannot_be_converted() -> None:
    value: Any = {}
    for _ in range(2000):
        value = {"value": 1, "children": [value]}
    with pytest.raises(TypeConversionError):
        convert(value, TREE)


def test_types_that_json_schema_does_not_know_convert_nothing() -> None:
    assert convert(5, {"type": "text"}) == 5
    assert convert([5], list_of({"type": "text"})) == [5]
    assert convert(5, {"type": 7}) == 5
    assert convert(1.5, NUMBER) == 1.5


def test_the_value_itself_is_left_as_it_is() -> None:
    value = {"a": [1, 2]}
    assert convert(value, object_of(a=list_of(STRING))) == {"a": ["1", "2"]}
    assert value == {"a": [1, 2]}


@given(VALUES, SCHEMAS)
def test_what_was_converted_is_of_the_type(value: Any, schema: Any) -> None:
    try:
        converted = convert(value, schema)
    except TypeConversionError:
        return
    shape = [mistake for mistake in check(converted, schema) if "missing" not in mistake[1]]
    # A conversion sees to types; what else a schema asks is for the check to say.
    assert not shape or "enum" in repr(schema) or "anyOf" in repr(schema)


@given(VALUES, SCHEMAS)
def test_a_value_of_the_type_arrives_unchanged_but_for_numbers(
    value: Any, schema: Any
) -> None:
    if not check(value, schema):
        assert convert(value, schema) == value


@given(VALUES, SCHEMAS, SCHEMAS)
def test_where_types_may_be_joined_every_value_converts(
    value: Any, source: Any, destination: Any
) -> None:
    if "title" in repr(source):
        return  # A source that says nothing may be joined, and its values may not fit.
    if not check(value, source) and is_subtype(source, destination):
        if _says_nothing_somewhere(source, destination):
            return
        convert(value, destination)


def _says_nothing_somewhere(source: Any, destination: Any) -> bool:
    """Whether the joint rests on what the source leaves open."""
    return any(
        part in (LIST, OBJECT, {"enum": ["a", "b"]}) or "properties" in part
        for part in _parts(source)
    )


def _parts(schema: Any) -> list[Any]:
    inner = [*schema.get("anyOf", ()), *schema.get("properties", {}).values()]
    inner += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return [schema, *(part for one in inner for part in _parts(one))]
