from heddle.cli.reading.excerpts import WIDTH, excerpt
from heddle.spec.places import Span


def test_the_line_is_quoted_with_a_mark_below_the_piece() -> None:
    assert excerpt("f.json", '{\n  "a": "bad"\n}', Span(9, 14)) == [
        "   --> f.json:2:8",
        '  2 |   "a": "bad"',
        "    |        ^^^^^",
    ]


def test_a_long_line_is_cut_on_both_sides_of_the_mark() -> None:
    text = "x" * 500 + "BAD" + "y" * 500
    _, shown, mark = excerpt("f", text, Span(500, 503))
    assert len(shown) <= WIDTH + 8
    assert shown[mark.index("^") :][:3] == "BAD"
    assert mark.count("^") == 3
    assert shown.count("…") == 2


def test_a_piece_of_several_lines_is_marked_on_its_first() -> None:
    _, shown, mark = excerpt("f", "a: b\n  c\nd", Span(3, 8))
    assert shown == "  1 | a: b"
    assert mark == "    |    ^"


def test_wide_characters_and_controls_keep_the_mark_in_its_place() -> None:
    _, shown, mark = excerpt("f", "日本\x1b: bad", Span(5, 8))
    assert shown == "  1 | 日本\\x1b: bad"
    assert mark == "    | " + " " * 10 + "^^^"


def test_what_is_missing_at_the_end_of_the_text_has_a_mark_too() -> None:
    assert excerpt("f", "a:", Span(2, 3))[-1] == "    |   ^"
