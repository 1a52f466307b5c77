"""The codec: any bytes, cut anywhere, are frames, stray text or a fault."""
# ruff: noqa: E501  a table of lines reads best with one a line

from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugins_host import frames
from plugins_host.frames import (
    MAX_QUOTE,
    Answer,
    Arrival,
    Broken,
    FrameError,
    FrameReader,
    Progress,
    Refusal,
    Request,
    Stray,
    Unreadable,
    decode,
)


def plain(arrival: Arrival) -> tuple[Any, ...]:
    """An arrival as a value that can be compared: `msgspec.Raw` compares by identity."""
    return (
        type(arrival).__name__,
        *(
            bytes(value) if isinstance(value, msgspec.Raw) else value
            for value in msgspec.structs.astuple(arrival)
        ),
    )


def read(data: bytes, *cuts: int, limit: int = 1000) -> list[tuple[Any, ...]]:
    """Everything that a stream holds, fed in pieces."""
    reader = FrameReader(limit=limit)
    edges = [0, *sorted(cuts), len(data)]
    arrivals = [a for start, end in pairwise(edges) for a in reader.feed(data[start:end])]
    return [plain(arrival) for arrival in [*arrivals, *reader.end()]]


UNSAID = (None, None, None)
"""A refusal that says nothing of a status, a wait and another try."""


def test_direction_is_told_by_shape() -> None:
    lines = (
        b'{"id":1,"method":"before","params":{"a":1}}\n'
        b'{"id":2,"result":{"a":1}}\n'
        b'{"id":3,"error":{"name":"TypeError","message":"no"}}\n'
        b'{"id":4,"partial":{"a":1}}\n'
    )
    assert read(lines) == [
        ("Request", 1, "before", b'{"a":1}'),
        ("Answer", 2, b'{"a":1}'),
        ("Refusal", 3, "TypeError", "no", *UNSAID),
        ("Progress", 4, b'{"a":1}'),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"id":1}', ("Answer", 1, b"null")),
        (b'{"id":1,"result":null}', ("Answer", 1, b"null")),
        (b'{"id":1,"result":7,"error":null}', ("Answer", 1, b"7")),
        (b'{"id":1,"error":null}', ("Refusal", 1, "Error", "null", *UNSAID)),
        (
            b'{"id":1,"error":{"message":"no","status":429,"retryAfterMs":5,"retryable":true}}',
            ("Refusal", 1, "Error", "no", 429, 5, True),
        ),
        (b'{"id":1,"error":"no"}', ("Refusal", 1, "Error", "no", *UNSAID)),
        (b'{"id":1,"error":{"message":"no"}}', ("Refusal", 1, "Error", "no", *UNSAID)),
        (b'{"id":1,"error":{"code":7}}', ("Refusal", 1, "Error", '{"code":7}', *UNSAID)),
        (b'{"id":1,"error":1e999}', ("Refusal", 1, "Error", "1e999", *UNSAID)),
        (b'{"id":1,"error":[7]}', ("Refusal", 1, "Error", "[7]", *UNSAID)),
        (b'{"id":"x","method":"log"}', ("Request", "x", "log", b"{}")),
        (b'{"id":1.5,"result":{}}', ("Answer", 1.5, b"{}")),
        (b'{"jsonrpc":"2.0","result":{},"id":1}', ("Answer", 1, b"{}")),
        (b'{"id":1,"result":{}}\r', ("Answer", 1, b"{}")),
    ],
)
def test_frames_written_by_hand_are_understood(
    line: bytes, expected: tuple[Any, ...]
) -> None:
    assert read(line + b"\n") == [expected]


def test_blank_lines_are_skipped() -> None:
    assert read(b'\n\r\n  \n{"id":1}\n\n{"id":2}\n\n') == [
        ("Answer", 1, b"null"),
        ("Answer", 2, b"null"),
    ]


def test_a_last_frame_needs_no_line_break() -> None:
    assert read(b'{"id":1}\n{"id":2}') == [("Answer", 1, b"null"), ("Answer", 2, b"null")]


def test_what_people_print_is_set_aside() -> None:
    assert read(b'debug: here\n{"id":1}\n[1]\n"x"\n {"id":2}\nlast') == [
        ("Stray", "debug: here"),
        ("Answer", 1, b"null"),
        ("Stray", "[1]"),
        ("Stray", '"x"'),
        ("Stray", ' {"id":2}'),
        ("Stray", "last"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"{debug: here}",
        b'{"id":1,"result":',
        b'{"id":1}{"id":2}',
        b'{"id":1} x',
        b'{"id":1,"result":{"a{"id":2,"result":{}}',
        b'{"level":"info","message":"a logger that writes JSON"}',
        b'{"id":null,"result":{}}',
        b'{"id":true,"result":{}}',
        b'{"id":[1],"result":{}}',
        b'{"id":1,"method":7}',
    ],
)
def test_a_line_that_begins_like_a_frame_and_is_none_breaks_the_channel(
    line: bytes,
) -> None:
    good = b'{"id":1}\n'
    before, broken = read(good + line + b"\n" + good)
    assert before == ("Answer", 1, b"null")
    assert broken[0] == "Broken"
    with pytest.raises(FrameError):
        decode(line, where="test")


def test_a_broken_channel_tells_what_where_and_what_to_do() -> None:
    arrival = FrameReader().feed(b'{"id":1,"resu\n')[0]
    assert isinstance(arrival, Broken)
    assert str(arrival.error(where="plugin 'gate'")) == (
        "plugin 'gate': a frame is not valid JSON: '{\"id\":1,\"resu'. "
        "stdout carries the protocol; write logs to stderr."
    )


@pytest.mark.parametrize("width", [1, 1000])
def test_a_line_without_an_id_is_quoted_as_it_was_written(width: int) -> None:
    lines = b'{"id":1,"partial":2}\n{"ids":1,"result":2}\n'
    reader = FrameReader()
    cut = (lines[at : at + width] for at in range(0, len(lines), width))
    *_, last = (each for piece in cut for each in reader.feed(piece))
    assert last == Broken(
        "a line of JSON is no frame (it has no id)", '{"ids":1,"result":2}'
    )


@given(st.text(min_size=500))
def test_an_error_quotes_no_more_than_it_may(text: str) -> None:
    line = b"{" + text.replace("\n", " ").encode(errors="replace")
    arrival = FrameReader().feed(line + b"\n")[0]
    assert isinstance(arrival, Broken)
    assert len(arrival.quote) <= MAX_QUOTE


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"id":7,"result":{"a":NaN}}', "a frame is not valid JSON"),
        (b'{"id":7,"result":-Infinity}', "a frame is not valid JSON"),
        (b'{"id":7,"result":"\xff"}', "a frame is not UTF-8"),
        (b'{"id":7,"result":' + b"[" * 450_000 + b"]" * 450_000 + b"}", "a frame is nested too deeply"),
    ],
)  # fmt: skip
def test_content_of_no_use_costs_one_call(line: bytes, why: str) -> None:
    assert read(line + b'\n{"id":8}\n', limit=1_000_000) == [
        ("Unreadable", 7, why, False),
        ("Answer", 8, b"null"),
    ]
    with pytest.raises(FrameError):
        decode(line, where="test")


def test_a_request_of_no_use_is_told_from_an_answer() -> None:
    assert read(b'{"id":"r","method":"log","params":{"x":NaN}}\n') == [
        ("Unreadable", "r", "a frame is not valid JSON", True)
    ]


def test_brackets_without_end_and_without_an_id_break_the_channel() -> None:
    assert read(b'{"x":' + b"[" * 100_000 + b"\n", limit=1_000_000)[0][0] == "Broken"


@pytest.mark.parametrize(
    ("written", "arrives"),
    [
        (rb'"\ud83d"', "�"),
        (rb'"a\ud83d b\ude00 c"', "a� b� c"),
        (rb'"\uD83D\uDE00"', "😀"),
        (rb'"\\ud83d"', r"\ud83d"),
        (rb'"\\\ud83d"', "\\�"),
        (rb'"\ud83d\ud83d\ude00"', "�😀"),
    ],
)
def test_half_an_emoji_becomes_a_replacement_character(
    written: bytes, arrives: str
) -> None:
    reader = FrameReader()
    (arrival,) = reader.feed(b'{"id":1,"result":' + written + b"}\n")
    assert isinstance(arrival, Answer)
    assert msgspec.json.decode(arrival.result) == arrives


def test_a_line_over_the_limit_costs_its_call_and_the_next_one_is_read() -> None:
    long = b'{"id":7,"result":"' + b"x" * 1500 + b'"}\n'
    for cuts in [(), (10,), (1200,), (1500, 1510)]:
        assert read(long + b'{"id":8}\n', *cuts) == [
            ("Unreadable", 7, "a frame is longer than 1000 bytes", False),
            ("Answer", 8, b"null"),
        ]


@pytest.mark.parametrize("id_", [b"012", b'"\xff"', b'"\x01"', b"-"])
def test_an_id_that_is_no_json_names_no_call(id_: bytes) -> None:
    long = b'{"id":' + id_ + b',"result":"' + b"x" * 1500 + b'"}\n'
    assert [each[0] for each in read(long)] == ["Broken"]
    deep = b'{"id":' + id_ + b',"a":' + b"[" * 200_000 + b"\n"
    assert [each[0] for each in read(deep, limit=1_000_000)] == ["Broken"]


def test_a_line_without_end_breaks_the_channel_and_is_not_kept() -> None:
    reader = FrameReader(limit=1000)
    arrivals = [a for _ in range(100) for a in reader.feed(b'{"idle": "' + b"x" * 90)]
    assert [type(a) for a in arrivals] == [Broken]
    assert reader.broken


def test_a_line_without_end_that_names_its_call_costs_the_call_first() -> None:
    reader = FrameReader(limit=1000)
    arrivals = reader.feed(b'{"id":7,"result":"')
    arrivals += [a for _ in range(100) for a in reader.feed(b"x" * 90)]
    assert [type(a) for a in arrivals] == [Unreadable, Broken]


def test_printed_text_without_end_breaks_the_channel_too() -> None:
    reader = FrameReader(limit=1000)
    arrivals = [a for _ in range(100) for a in reader.feed(b"x" * 90)]
    assert [type(a) for a in arrivals] == [Broken]


def test_a_large_frame_below_the_limit_is_read_from_small_pieces() -> None:
    big = b'{"id":1,"result":"' + b"x" * 5_000_000 + b'"}\n'
    arrivals = read(big, *range(0, len(big), 65_536), limit=frames.MAX_LINE)
    assert [(kind, len(result)) for kind, _, result in arrivals] == [("Answer", 5_000_002)]


ids = st.integers(-(2**63), 2**63) | st.text(max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)
texts = json_values.map(msgspec.json.encode)


@given(ids, st.text(), texts)
def test_a_request_survives_the_wire(call: frames.Id, method: str, params: bytes) -> None:
    frame = decode(frames.request(call, method, params), where="test")
    assert plain(frame) == ("Request", call, method, params)


@given(ids, texts)
def test_an_answer_survives_the_wire(call: frames.Id, result: bytes) -> None:
    frame = decode(frames.answer(call, result), where="test")
    assert plain(frame) == ("Answer", call, result)


@given(ids, st.text(min_size=1), st.text())
def test_a_refusal_survives_the_wire(call: frames.Id, name: str, message: str) -> None:
    assert decode(frames.refusal(call, name, message), where="test") == Refusal(
        call, name, message
    )


@given(ids, texts)
def test_progress_survives_the_wire(call: frames.Id, partial: bytes) -> None:
    frame = decode(frames.progress(call, partial), where="test")
    assert plain(frame) == ("Progress", call, partial)


lines = st.one_of(
    st.builds(frames.request, ids, st.text(max_size=5), texts),
    st.builds(frames.answer, ids, texts),
    st.builds(frames.refusal, ids, st.text(min_size=1, max_size=5), st.text(max_size=5)),
    st.builds(frames.progress, ids, texts),
    st.text(max_size=30).map(lambda text: text.encode() + b"\n"),
    st.sampled_from(
        [
            b"\n",
            b"\r\n",
            b'{"id":1,"result":NaN}\n',
            b'{"id":1,"result":"\xff"}\n',
            b'{"id":1,\n"result":2}\n',
            b'{"id":1}{"id":2}\n',
            b"{broken\n",
            b'{"id":1,"result":"' + b"x" * 60 + b'"}\n',
            b'{"id":1,"result":"' + b"x" * 160 + b'"}\n',
            b"x" * 60 + b"\n",
        ]
    ),
)


@given(st.lists(lines, max_size=6).map(b"".join), st.data())
def test_how_the_bytes_are_cut_changes_nothing(stream: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    assert read(stream, *cuts, limit=60) == read(stream, limit=60)


def test_a_frame_cut_at_every_byte_is_the_same_frame() -> None:
    stream = frames.answer(7, '{"said":"grüße 😀"}'.encode()) + frames.answer(8)
    whole = read(stream)
    assert len(whole) == 2
    assert all(read(stream, cut) == whole for cut in range(len(stream)))
    assert read(stream, *range(len(stream))) == whole


@given(st.lists(lines, max_size=6))
def test_all_at_once_reads_what_one_by_one_does(pieces: list[bytes]) -> None:
    one_by_one = FrameReader()
    arrivals = [a for piece in pieces for a in one_by_one.feed(piece)]
    assert [plain(a) for a in FrameReader().feed(b"".join(pieces))] == [
        plain(a) for a in arrivals
    ]


@given(st.binary())
@example(b"[" * 100_000)
@example(b"{" * 100_000)
@example(b'{"id":' + b"[" * 100_000)
@example(b'{"id":"\xff","result":1}')
@example(b'{"id":1e999}')
@example(b'{"id":NaN}')
@example(b'{"id":' + b"9" * 5000 + b"}")
def test_any_bytes_are_a_frame_or_a_frame_error(line: bytes) -> None:
    with suppress(FrameError):
        assert isinstance(decode(line, where="test"), Request | Answer | Refusal | Progress)


@given(st.binary(), st.data())
@example(b'{"id":1}\x00\n', None)
def test_any_stream_is_read_to_its_end(stream: bytes, data: st.DataObject | None) -> None:
    cuts = (
        [] if data is None else data.draw(st.lists(st.integers(0, len(stream)), max_size=5))
    )
    kinds = {"Request", "Answer", "Refusal", "Progress", "Stray", "Unreadable", "Broken"}
    assert {arrival[0] for arrival in read(stream, *cuts)} <= kinds


def test_a_stray_line_that_is_not_text_can_still_be_logged() -> None:
    assert FrameReader().feed(b"\xff\xfe\n") == [Stray("��")]


def test_unreadable_and_broken_are_plain_data() -> None:
    assert Unreadable(1, "x") == Unreadable(1, "x")
    assert Broken("x", "q") == Broken("x", "q")
