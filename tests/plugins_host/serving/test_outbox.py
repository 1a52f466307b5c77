"""The outbox of a plugin process: frames together, and none held up by a slow turn."""

import os
import select
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest

from plugins_host.serving.outbox import Outbox

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    source, target = os.pipe()
    yield source, target
    for end in (source, target):
        with suppress(OSError):
            os.close(end)


def arrives(source: int, seconds: float = 30) -> bool:
    return bool(select.select([source], [], [], seconds)[0])


def test_what_was_put_goes_out_in_one_write(pipe: Pipe) -> None:
    source, target = pipe
    outbox = Outbox(target)

    outbox.put(b"one")
    outbox.put(b"two")
    assert not arrives(source, 0)
    outbox.flush()

    assert os.read(source, 100) == b"one\ntwo\n"


def test_nothing_is_written_when_there_is_nothing(pipe: Pipe) -> None:
    source, target = pipe

    Outbox(target).flush()

    assert not arrives(source, 0)


def test_more_than_a_pipe_holds_goes_out_whole(pipe: Pipe) -> None:
    source, target = pipe
    outbox = Outbox(target)
    frames = [bytes([65 + n]) * 100_000 for n in range(5)]
    for frame in frames:
        outbox.put(frame)

    read: list[bytes] = []

    def read_all() -> None:
        while sum(map(len, read)) < 500_005:
            read.append(os.read(source, 1 << 16))

    reader = Thread(target=read_all)
    reader.start()
    outbox.flush()
    reader.join(30)

    assert b"".join(read) == b"".join(frame + b"\n" for frame in frames)


def test_what_waits_in_a_slow_turn_goes_out_by_itself(pipe: Pipe) -> None:
    source, target = pipe
    outbox = Outbox(target)

    for number in range(20):
        outbox.put(b"%d" % number)
        outbox.look_after()
        # The turn takes its time: nobody flushes.
        assert arrives(source)
        assert os.read(source, 100) == b"%d\n" % number


def test_there_is_nothing_to_look_after_when_nothing_waits(pipe: Pipe) -> None:
    source, target = pipe
    outbox = Outbox(target)

    outbox.look_after()
    outbox.put(b"later")
    assert not arrives(source, 0.1)
    outbox.flush()

    assert os.read(source, 100) == b"later\n"


def test_frames_are_neither_lost_nor_doubled_nor_reordered(pipe: Pipe) -> None:
    source, target = pipe
    outbox = Outbox(target)
    read = b""

    for number in range(3_000):
        outbox.put(b"%d" % number)
        outbox.look_after()
        if number % 7 == 0:
            outbox.flush()
        while arrives(source, 0):
            read += os.read(source, 1 << 16)
    outbox.flush()
    while arrives(source, 0.05):
        read += os.read(source, 1 << 16)

    assert read == b"".join(b"%d\n" % number for number in range(3_000))


def test_that_nobody_reads_any_more_is_known(pipe: Pipe) -> None:
    source, target = pipe
    outbox = Outbox(target)
    os.close(source)

    outbox.put(b"anybody?")
    outbox.flush()

    assert outbox.gone
