"""What is counted of a client's frames, however its bytes were cut."""

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.server.sockets.input import MAX_PIECES, PATIENCE, RATE, Incoming

TEXT, MORE, PING = 0x1, 0x0, 0x9


def frame(
    opcode: int, length: int = 0, *, final: bool = True, masked: bool = True
) -> bytes:
    """A frame of zeros."""
    first = opcode | (0x80 if final else 0)
    mask = 0x80 if masked else 0
    if length < 126:
        head = bytes((first, mask | length))
    elif length < 65_536:
        head = bytes((first, mask | 126)) + length.to_bytes(2)
    else:
        head = bytes((first, mask | 127)) + length.to_bytes(8)
    return head + bytes((4 if masked else 0) + length)


frames = st.lists(
    st.builds(
        frame,
        st.sampled_from([TEXT, MORE, PING]),
        st.sampled_from([0, 1, 125, 126, 70_000]),
        final=st.booleans(),
        masked=st.booleans(),
    ),
    max_size=6,
)


def state(incoming: Incoming) -> tuple[bool, int, bool]:
    return incoming.complete, incoming.pieces, incoming.patience == inf


@given(frames, st.lists(st.integers(0, 500_000), max_size=8))
def test_how_bytes_are_cut_changes_nothing(sent: list[bytes], cuts: list[int]) -> None:
    data = b"".join(sent)
    whole, cut = Incoming(), Incoming()
    whole.feed(data)
    edges = [0, *sorted(min(each, len(data)) for each in cuts), len(data)]
    for start, end in pairwise(edges):
        cut.feed(data[start:end])
    assert state(cut) == state(whole)


@given(st.integers(1, 50), st.integers(0, 3))
def test_pieces_are_counted_and_pings_between_them_are_none(
    pieces: int, pings: int
) -> None:
    incoming = Incoming()
    incoming.feed(frame(TEXT, 5, final=False))
    for _ in range(pieces - 1):
        incoming.feed(frame(PING, 3) * pings + frame(MORE, final=False))
    assert (incoming.complete, incoming.pieces) == (False, pieces)
    incoming.feed(frame(MORE, 5))
    assert incoming.complete
    incoming.feed(frame(TEXT))
    assert incoming.pieces == 1


def test_a_message_has_so_many_pieces_and_no_more() -> None:
    incoming = Incoming()
    incoming.feed(frame(TEXT, final=False) + frame(MORE, final=False) * (MAX_PIECES - 1))
    assert not incoming.too_many
    incoming.feed(frame(MORE))
    assert incoming.too_many


@pytest.mark.parametrize(
    "begun", [b"\x81", frame(TEXT, 9)[:-1], frame(PING, 2)[:3], frame(TEXT, final=False)]
)
def test_what_has_begun_is_waited_for_only_so_long(begun: bytes) -> None:
    incoming = Incoming()
    assert incoming.patience == inf
    incoming.feed(begun)
    assert incoming.patience == pytest.approx(PATIENCE + len(begun) / RATE)
    incoming.waited(10)
    incoming.feed(bytes(0))
    assert incoming.patience == pytest.approx(PATIENCE - 10 + len(begun) / RATE)


def test_what_arrives_earns_time_and_a_whole_message_all_of_it() -> None:
    incoming = Incoming()
    incoming.feed(frame(TEXT, 70_000)[:1000])
    incoming.waited(20)
    incoming.feed(bytes(RATE * 5))
    assert incoming.patience == pytest.approx(15, abs=1)
    incoming.feed(bytes(70_000))
    incoming = Incoming()
    incoming.feed(frame(TEXT, 70_000))
    assert (incoming.complete, incoming.patience) == (True, inf)
