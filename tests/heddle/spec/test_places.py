"""Where a path leads in the text of a document."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from heddle.spec.places import Places, line_and_column
from heddle.spec.problems import Path, write_path

TEXT = """{
  "name": "hello",
  "nodes": [
    {"id": "a", "a key": true},
    {"id": "b", "odd\\"": [1, {"x": null}]}
  ]
}
"""

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)


def scalars(value: Any, path: Path = None) -> list[tuple[Path, Any]]:
    if isinstance(value, dict):
        return [
            each for key, inner in value.items() for each in scalars(inner, (path, key))
        ]
    if isinstance(value, list):
        return [each for n, inner in enumerate(value) for each in scalars(inner, (path, n))]
    return [(path, value)]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.name", '"hello"'),
        ("$.nodes[1].id", '"b"'),
        ("$.nodes[0]['a key']", "true"),
        ("$.nodes[1]['odd\"'][1].x", "null"),
        ("$.nodes", '"nodes"'),
        ("$.nodes[1]", "{"),
        ("$", "{"),
        ("$.absent", "{"),
        ("$.nodes[7]", '"nodes"'),
        ("$.nodes[1].absent.more", "{"),
        ("$.name.deeper", '"hello"'),
        ("line 2, column 11", '"'),
    ],
)
@pytest.mark.parametrize("format_", ["json", "yaml"])
def test_a_path_leads_to_a_scalar_a_key_or_a_bracket(
    path: str, found: str, format_: str
) -> None:
    span = Places(TEXT, format_).find(path)
    assert span is not None
    assert TEXT[span.start : span.end] == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.name", '"name"'),
        ("$.nodes", '"nodes"'),
        ("$.nodes[0]['a key']", '"a key"'),
        ("$.nodes[1]['odd\"'][1].x", '"x"'),
        ("$.nodes[1]", "{"),
        ("$.name.deeper", '"hello"'),
    ],
)
@pytest.mark.parametrize("format_", ["json", "yaml"])
def test_a_key_is_found_for_who_asks_for_it(path: str, found: str, format_: str) -> None:
    span = Places(TEXT, format_).find(path, key=True)
    assert span is not None
    assert TEXT[span.start : span.end] == found


def test_what_is_missing_in_an_object_of_a_list_is_shown_at_that_object() -> None:
    span = Places(TEXT, "json").find("$.nodes[1].absent")
    assert span is not None
    assert line_and_column(TEXT, span.start) == (5, 5)


@pytest.mark.parametrize("path", ["", "node 'look'", "--plugin-config X"])
def test_other_places_are_not_in_the_text(path: str) -> None:
    assert Places(TEXT, "json").find(path) is None


@pytest.mark.parametrize("text", ["", "{", '{"a', "[1", "{,}", "{]"])
@pytest.mark.parametrize("format_", ["json", "yaml"])
def test_text_that_is_broken_has_no_places_or_some(text: str, format_: str) -> None:
    span = Places(text, format_).find("$.a[0].b")
    assert span is None or span.start <= len(text)


@given(value=VALUES, indent=st.sampled_from([None, 2]))
def test_every_scalar_of_json_is_found(value: Any, indent: int | None) -> None:
    value = [value]
    text = json.dumps(value, indent=indent)
    places = Places(text, "json")
    for path, scalar in scalars(value):
        span = places.find(write_path(path))
        assert span is not None
        assert json.loads(text[span.start : span.end]) == scalar


@given(value=VALUES)
def test_every_scalar_of_yaml_is_found(value: Any) -> None:
    value = [value]
    text = yaml.safe_dump(value)
    places = Places(text, "yaml")
    for path, scalar in scalars(value):
        span = places.find(write_path(path))
        if isinstance(scalar, str) or span is None:
            continue
        found = yaml.safe_load(text[span.start : span.end])
        assert found == scalar


@pytest.mark.parametrize("format_", ["json", "yaml"])
def test_a_key_that_broke_lines_in_older_yaml_is_found(format_: str) -> None:
    text = '{"a\u2028b": "\x85", "c": {"\u2029": 7}}'
    found = Places(text, format_).find("$.c['\\u2029']")
    assert found is not None
    assert text[found.start : found.end] == "7"


def test_lines_and_columns_count_from_one() -> None:
    assert line_and_column("ab\ncd", 0) == (1, 1)
    assert line_and_column("ab\ncd", 4) == (2, 2)
