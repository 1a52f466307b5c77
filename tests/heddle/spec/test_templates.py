"""Placeholders: what counts as one, and what is filled in."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.spec import as_text, placeholders, render, render_briefly
from heddle.spec.templates import MAX_TEXT, TextTooLong

NAMES = st.text("abcÄ_7", min_size=1, max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("no placeholder", ()),
        ("{{x}}", ("x",)),
        ("{{ x }} and {{y}} and {{\tx\n}}", ("x", "y")),
        ("{x} {{}} {{ }} {{a b}} {{a.b}} {{a-b}} {{ a", ()),
        ("{{{x}}}", ("x",)),
        ("{{größe_2}}", ("größe_2",)),
        ("{{ {{x}} }}", ("x",)),
    ],
)
def test_placeholders_are_words_in_double_braces(text: str, names: tuple[str, ...]) -> None:
    assert placeholders(text) == names


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (3, "3"),
        (2.0, "2.0"),
        (True, "true"),
        (None, "null"),
        ([1, "b"], '[1,"b"]'),
        ({"a": {"b": None}}, '{"a":{"b":null}}'),
        ("ü", "ü"),
    ],
)
def test_strings_are_verbatim_and_the_rest_is_compact_json(
    value: object, text: str
) -> None:
    assert render("<{{v}}>", {"v": value}) == (f"<{text}>", ())
    assert as_text(value) == text


def test_an_unknown_name_stays_and_is_told_once() -> None:
    assert render("{{a}} {{ b }} {{a}} {{c}}", {"c": 1}) == (
        "{{a}} {{ b }} {{a}} 1",
        ("a", "b"),
    )


def test_a_value_is_not_expanded_again() -> None:
    assert render("{{a}}{{b}}", {"a": "{{b}}", "b": "{{a}}"}) == ("{{b}}{{a}}", ())


@given(st.text(), st.dictionaries(NAMES, VALUES))
def test_names_that_are_not_filled_are_exactly_those_without_a_value(
    text: str, values: dict[str, object]
) -> None:
    _, unknown = render(text, values)
    assert set(unknown) == set(placeholders(text)) - values.keys()


@given(NAMES, VALUES, st.text(), st.text())
def test_a_value_arrives_whole(name: str, value: object, before: str, after: str) -> None:
    before, after = before.replace("{", "("), after.replace("}", ")").replace("{", "(")
    rendered, unknown = render(f"{before}{{{{ {name} }}}}{after}", {name: value})
    assert not unknown
    inside = rendered.removeprefix(before).removesuffix(after)
    assert (
        inside == value if isinstance(value, str) else msgspec.json.decode(inside) == value
    )


def test_many_braces_take_no_longer_than_their_length() -> None:
    hostile = "{{ " * 50_000 + "a" * 50_000 + " " * 50_000
    assert placeholders(hostile) == ()
    assert render(hostile, {}) == (hostile, ())


@given(
    st.lists(st.sampled_from(("{{a}}", "{{ b }}", "{{nobody}}", "{{", "}}", "é", "x"))),
    st.dictionaries(st.sampled_from("ab"), st.text() | st.integers()),
)
def test_a_text_that_is_taken_apart_once_comes_to_the_same(
    parts: list[str], values: dict[str, object]
) -> None:
    text = "".join(parts)
    assert render_briefly(text, values) in (render(text, values), None)
    assert render_briefly(text, values) is not None or text.count("{{") > 64


def test_a_text_of_many_placeholders_or_great_length_is_not_brief() -> None:
    assert render_briefly("{{a}}" * 65, {"a": "1"}) is None
    assert render_briefly("x" * 20_000 + "{{a}}", {"a": "1"}) is None
    assert render_briefly("{{a}}" * 64, {"a": "1"}) == ("1" * 64, ())
    with pytest.raises(TextTooLong):
        render_briefly("{{a}}{{a}}", {"a": "x" * (MAX_TEXT // 2)})
