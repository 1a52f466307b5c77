"""Formats of documents: one registry, and readers that are somebody else's."""

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pytest

from heddle.spec import FORMATS, DocumentError, FormatRefused, InputFormat, format_of
from heddle.spec.syntax import parse


def lines(text: str) -> dict[str, str]:
    """``key=value`` lines."""
    return dict(each.split("=", 1) for each in text.splitlines())


WITH_LINES = FORMATS.and_also([format_of("lines", [".lines"], lines)])


def made_of(value: Any) -> Any:
    """A document whose reader gives this value."""
    formats = FORMATS.and_also([format_of("odd", [".odd"], lambda _: value)])
    return parse(b"", name="flow.odd", formats=formats)


def test_json_and_yaml_are_entries_like_any_other() -> None:
    assert FORMATS.names == ("json", "yaml")
    assert WITH_LINES.names == ("json", "yaml", "lines")


@pytest.mark.parametrize("name", ["flow.lines", "a.b.LINES"])
def test_a_format_is_known_by_the_extension(name: str) -> None:
    assert parse(b"a=1\nb=2", name=name, formats=WITH_LINES) == {"a": "1", "b": "2"}


def test_a_named_format_wins_over_the_extension() -> None:
    read = parse(b"a=1", name="flow.json", format="lines", formats=WITH_LINES)

    assert read == {"a": "1"}


def test_an_unknown_format_is_refused_with_a_guess() -> None:
    with pytest.raises(FormatRefused, match="Did you mean 'yaml'"):
        parse(b"{}", name="flow", format="yml")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (format_of("yaml", [], lines), "two formats 'yaml'"),
        (format_of("lines", [".yml"], lines), "'.yml' is the extension of format 'yaml'"),
    ],
)
def test_what_is_taken_cannot_be_taken_again(entry: InputFormat, said: str) -> None:
    with pytest.raises(FormatRefused, match=said):
        FORMATS.and_also([entry])


def test_what_a_reader_raises_is_told_as_the_documents_problem() -> None:
    with pytest.raises(DocumentError, match="flow.lines.*not valid lines"):
        parse(b"no equals sign", name="flow.lines", formats=WITH_LINES)


def test_text_that_is_not_utf_8_does_not_reach_the_reader() -> None:
    with pytest.raises(DocumentError, match="not UTF-8"):
        parse(b"a=\xff", name="flow.lines", formats=WITH_LINES)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["me"] = [value]
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"when": [dt.date(2000, 1, 1)]}, r"\$\.when\[0\].*a date, which JSON"),
        ({"x": math.inf}, r"\$\.x.*inf"),
        ({"x": math.nan}, r"\$\.x.*nan"),
        ({"x": 10**5000}, r"\$\.x.*digits"),
        ({1: "x"}, "the key 1"),
        (nested(200), "nested more than 128"),
        (circular(), "nested more than 128"),
        ([1], "where a document is an object"),
        (None, "where a document is an object"),
    ],
)
def test_what_json_does_not_have_is_refused_where_it_stands(value: Any, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        made_of(value)


def test_what_json_has_comes_through_as_it_is() -> None:
    value = {"a": [1, 1.5, True, None, "x"], "b": {"c": ()}}

    assert made_of(value) == {"a": [1, 1.5, True, None, "x"], "b": {"c": []}}


def test_the_toml_example_reads_a_flow_as_json_would() -> None:
    from heddle import installation, preparing

    folder = Path(__file__).parents[3] / "examples" / "plugins" / "toml-format"
    installed = installation.install((str(folder / "toml_format.py"),))
    prepared = preparing.load(str(folder / "greeting.toml"), installed=installed)

    assert prepared.plan.graph.name == "greeting"
    with pytest.raises(DocumentError):
        preparing.load(str(folder / "greeting.toml"))
