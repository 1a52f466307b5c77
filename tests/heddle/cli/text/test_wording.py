import json
import unicodedata

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.cli.text.wording import fit, fit_json, json_line, line, seconds


@given(st.text())
@example("\x1b[2J\x9b2J\x07\r\u202e")
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    for character in fit(text):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Zl")


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert fit(text) == text


def test_what_is_unfit_is_shown_by_its_number() -> None:
    assert fit("a\x1b[31mb\u202ec\x9bd") == "a\\x1b[31mb\\u202ec\\x9bd"
    assert fit("\udcff.json") == "\\udcff.json"


@given(st.text(), st.integers(1, 20))
def test_a_line_is_one_line_and_no_longer_than_asked(text: str, most: int) -> None:
    cut = line(text, most=most)
    assert "\n" not in cut
    assert len(cut) <= most


def test_a_line_that_was_cut_says_so() -> None:
    assert line("abcdef", most=4) == "abc…"
    assert line("abcd", most=4) == "abcd"
    assert line("a\nb") == "a\\nb"


def test_json_is_shown_on_one_line() -> None:
    assert json_line({"a": "ä\n"}) == '{"a":"ä\\n"}'
    assert json_line([1, 2, 3, 4], most=5) == "[1,2…"


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\x7f\x80\x9b\x9f\xa0\xc2\x7f\x7f")
@example("\u200d\u200e\u200f\u2028\u2029\u202e\u202f\u2065\u2066\u2069\u206a–€⁦")
def test_fit_json_is_the_same_json(text: str) -> None:
    encoded = fit_json(msgspec.json.encode({text: text}))
    assert json.loads(encoded) == {text: text}
    decoded = encoded.decode()
    assert not any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in decoded)
    assert fit(decoded) == decoded


@pytest.mark.parametrize(
    ("length", "text"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (10, "10 s"), (59.4, "59 s"), (185, "3 min 5 s")],
)
def test_durations_read_well(length: float, text: str) -> None:
    assert seconds(length) == text
