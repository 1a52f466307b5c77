"""Bodies in chunks, in whatever pieces they arrive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.server.http import Refusal
from heddle.server.http.chunks import ChunkedBody


def read(pieces: list[bytes], most: int = 10_000) -> tuple[bytes, bytes | None]:
    """The content of a body and what follows it; None for that when it hasn't ended."""
    body = ChunkedBody(most=most, trailers=100)
    content = b""
    for piece in pieces:
        content += body.feed(piece)
    return content, body.rest if body.finished else None


def cut(raw: bytes, at: list[int]) -> list[bytes]:
    marks = sorted({0, len(raw), *(one % (len(raw) + 1) for one in at)})
    return [raw[start:end] for start, end in pairwise(marks)]


CUTS = st.lists(st.integers(0, 10_000), max_size=20)
EXTENSIONS = st.sampled_from([b"", b";a", b";a=b", b';a="b c"', b";;", b"; \t~"])
TRAILERS = st.sampled_from([b"", b"A: 1\r\n", b"A: 1\r\nB:\r\n"])


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=40), EXTENSIONS)),
    TRAILERS,
    st.binary(max_size=20),
    CUTS,
)
def test_what_was_sent_in_chunks_is_what_arrives_however_it_is_cut(
    chunks: list[tuple[bytes, bytes]], trailers: bytes, rest: bytes, cuts: list[int]
) -> None:
    raw = b"".join(b"%x%b\r\n%b\r\n" % (len(data), ext, data) for data, ext in chunks)
    raw += b"0\r\n" + trailers + b"\r\n" + rest
    content = b"".join(data for data, _ in chunks)
    assert read(cut(raw, cuts)) == (content, rest)


BAD = [
    b"g\r\n",
    b"\r\n",
    b" 5\r\nhello\r\n0\r\n\r\n",
    b"5 \r\nhello\r\n0\r\n\r\n",
    b"5\t;a\r\nhello\r\n0\r\n\r\n",
    b"+5\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"5_0\r\n",
    b"5\nhello\r\n0\r\n\r\n",
    b"5\rhello\r\n0\r\n\r\n",
    b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    b"5;a\x00\r\nhello\r\n0\r\n\r\n",
    b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello0\r\n\r\n",
    b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhello\r0\r\n\r\n",
    b"5\r\nhell\r\n0\r\n\r\n",
    b"5\r\nhello!\r\n0\r\n\r\n",
    b"1234567890abcdef\r\n",
    b"00000000000000000\r\n\r\n",
    b"5;%b\r\nhello\r\n" % (b"a" * 300),
    b"0\r\nA\r\n\r\n",
    b"0\r\nA : 1\r\n\r\n",
    b"0\r\nA: 1\n\r\n",
    b"0\r\n A: 1\r\n\r\n",
    b"0\r\nA: 1\r\n B\r\n\r\n",
    b"0\r\nContent-Length: 5\r\n\r\n",
    b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
]


@pytest.mark.parametrize("raw", BAD)
def test_what_is_no_chunk_is_refused_however_it_is_cut(raw: bytes) -> None:
    for pieces in ([raw], [raw[at : at + 1] for at in range(len(raw))]):
        with pytest.raises(Refusal) as caught:
            read(pieces)
        assert caught.value.status == 400


@given(st.binary(max_size=60), CUTS)
def test_how_any_bytes_are_cut_changes_nothing(raw: bytes, cuts: list[int]) -> None:
    def outcome(pieces: list[bytes]) -> object:
        try:
            return read(pieces)
        except Refusal as refusal:
            return refusal.status

    assert outcome([raw]) == outcome(cut(raw, cuts))


def test_a_body_over_its_limit_is_refused_by_the_size_of_the_chunk_alone() -> None:
    assert read([b"5\r\nhello\r\n0\r\n\r\n"], most=5)[0] == b"hello"
    with pytest.raises(Refusal) as caught:
        read([b"3\r\nhel\r\n3\r\n"], most=5)
    assert caught.value.status == 413
    with pytest.raises(Refusal) as caught:
        read([b"fffffffffffffff\r\n"])
    assert caught.value.status == 413
    assert str(caught.value) == "the body is longer than 10000 bytes"


def test_trailers_have_a_limit() -> None:
    with pytest.raises(Refusal) as caught:
        read([b"0\r\n", *([b"A: 1\r\n"] * 30)])
    assert caught.value.status == 431


def test_a_body_that_is_mostly_framing_is_refused() -> None:
    chunk = b"1;%b\r\na\r\n" % (b"x" * 200)
    with pytest.raises(Refusal) as caught:
        read([chunk] * 100)
    assert str(caught.value) == "the body's chunks are mostly not content"


def test_small_chunks_are_no_offence() -> None:
    assert read([b"1\r\na\r\n" * 5000])[0] == b"a" * 5000
