"""Server-sent events are cut the same way whatever the network did to the bytes."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.http.sse import SseEvent, SseParser

TEXT = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))


def parse(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.end()


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(place for place in places if place < len(stream))})
    return [stream[a:b] for a, b in pairwise(edges)]


def data(*pieces: bytes) -> list[bytes]:
    return [event.data for event in parse(*pieces)]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end_ends_a_line(newline: bytes) -> None:
    stream = newline.join([b"data: a", b"", b"event: error", b"data: b", b"", b""])

    assert parse(stream) == [SseEvent(b"a"), SseEvent(b"b", b"error")]


def test_lines_of_data_are_joined() -> None:
    assert data(b"data: a\ndata: b\n\n") == [b"a\nb"]


def test_a_blank_behind_the_colon_is_not_data_but_a_second_is() -> None:
    assert data(b"data:a\n\ndata:  b\n\n") == [b"a", b" b"]


def test_comments_other_fields_and_events_without_data_are_skipped() -> None:
    stream = b": hello\n\nid: 7\nretry: 1\nevent: ping\n\ndata: a\n: more\n\n"

    assert parse(stream) == [SseEvent(b"a")]


def test_a_field_without_a_colon_is_a_field_without_a_value() -> None:
    assert data(b"data\n\ndata\ndata\n\n") == [b"", b"\n"]


def test_a_byte_order_mark_is_not_part_of_the_first_line() -> None:
    assert data(b"\xef\xbb", b"\xbfdata: a\n\n") == [b"a"]


def test_the_last_event_counts_without_its_blank_line_and_its_line_end() -> None:
    assert data(b"data: a\n\ndata: [DONE]\n") == [b"a", b"[DONE]"]
    assert data(b"data: a\n\ndata: [DONE]") == [b"a", b"[DONE]"]


def test_a_name_does_not_outlive_its_event() -> None:
    assert parse(b"event: x\n\ndata: a\n\n") == [SseEvent(b"a")]


def test_nothing_is_no_events() -> None:
    assert parse() == []
    assert parse(b"", b"\n", b"\r\n") == []


@given(
    events=st.lists(st.tuples(st.lists(TEXT, min_size=1), TEXT.filter(lambda n: n != ""))),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    comment=st.booleans(),
    cuts=st.lists(st.integers(0, 400)),
)
@example([(["a"], "n")], "\r\n", False, [16, 17])
def test_what_was_written_is_read_however_it_is_cut(
    events: list[tuple[list[str], str]], newline: str, comment: bool, cuts: list[int]
) -> None:
    lines: list[str] = []
    for values, name in events:
        lines += [": c"] if comment else []
        lines += [f"event: {name}", *(f"data: {value}" for value in values), ""]
    stream = "".join(line + newline for line in lines).encode()

    assert parse(*cut(stream, cuts)) == [
        SseEvent("\n".join(values).encode(), name.encode()) for values, name in events
    ]


def same_however_cut(stream: bytes, cuts: list[int]) -> None:
    bytewise = [stream[i : i + 1] for i in range(len(stream))]

    assert parse(*cut(stream, cuts)) == parse(stream) == parse(*bytewise)


@given(st.binary(), st.lists(st.integers(0, 100)))
@example(b"data: a\n\n\n\n", [])
@example(b"\n\ndata: a\n\n", [])
@example(b"data: a\n\ndata: b\r\n\n", [9])
@example(b"\xef\xbb\xbfdata: a\n\n", [])
@example(b"data: a\n\n", [8])
@example(b"event: x\ndata: a\n\n", [9])
def test_how_any_bytes_are_cut_changes_nothing(stream: bytes, cuts: list[int]) -> None:
    same_however_cut(stream, cuts)


@given(st.text(alphabet="daevnt: \n\rx\ufeff"), st.lists(st.integers(0, 100)))
def test_how_near_misses_of_events_are_cut_changes_nothing(
    text: str, cuts: list[int]
) -> None:
    same_however_cut(text.encode(), cuts)


def test_a_long_line_in_small_pieces_costs_no_more_than_its_length() -> None:
    piece = b"x" * 1000
    parser = SseParser()
    parser.feed(b"data: ")
    for _ in range(5000):
        assert parser.feed(piece) == []

    (event,) = parser.feed(b"\n\n")

    assert len(event.data) == 5_000_000
