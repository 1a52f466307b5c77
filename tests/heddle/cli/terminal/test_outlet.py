import errno
import os
import termios
import tty
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from heddle.cli.terminal.outlet import Outlet, write_all


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for end in (read, write):
        with suppress(OSError):  # a test has closed it
            os.close(end)


def capacity(write: int) -> int:
    """Fill a pipe; how many bytes it took."""
    os.set_blocking(write, False)
    count = 0
    try:
        while True:
            count += os.write(write, bytes(4096))
    except BlockingIOError:
        return count
    finally:
        os.set_blocking(write, True)


async def test_what_fits_is_written_on_the_spot(pipe: tuple[int, int]) -> None:
    read, write = pipe
    outlet = Outlet(write, most=100)
    assert outlet.put(b"hello\n")
    assert outlet.idle
    assert os.read(read, 100) == b"hello\n"


async def test_a_reader_that_stalls_holds_nobody_up_and_gets_everything(
    pipe: tuple[int, int],
) -> None:
    read, write = pipe
    filled = capacity(write)
    outlet = Outlet(write, most=1_000_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outlet.run)
        for number in range(1000):
            assert outlet.put(f"line {number}\n".encode())
        await wait_all_tasks_blocked()
        assert not outlet.idle
        got = b""
        expected = "".join(f"line {number}\n" for number in range(1000)).encode()
        while len(got) < filled + len(expected):
            got += await trio.to_thread.run_sync(os.read, read, 65536)
        assert got[filled:] == expected
        await outlet.drained()
        assert outlet.put(b"more")
        assert os.read(read, 100) == b"more"
        nursery.cancel_scope.cancel()


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, slave
    os.close(master)
    os.close(slave)


async def test_what_a_terminal_takes_is_written_on_the_spot(
    terminal: tuple[int, int],
) -> None:
    master, slave = terminal
    outlet = Outlet(slave, most=100)
    assert outlet.put(b"hello")
    assert outlet.idle
    assert os.read(master, 100) == b"hello"
    assert os.get_blocking(slave)  # others write to it as well


async def test_a_terminal_that_is_paused_gets_everything_in_its_order(
    terminal: tuple[int, int],
) -> None:
    master, slave = terminal
    outlet = Outlet(slave, most=1_000_000)
    expected = b"".join(b"line %d\n" % number for number in range(10_000))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outlet.run)
        termios.tcflow(slave, termios.TCOOFF)
        assert outlet.put(expected[:500])
        assert not outlet.idle
        assert outlet.put(expected[500:90_000])
        termios.tcflow(slave, termios.TCOON)
        got = b""
        while len(got) < 90_000:
            got += await trio.to_thread.run_sync(os.read, master, 65536)
        await outlet.drained()
        assert outlet.put(expected[90_000:])
        while len(got) < len(expected):
            got += await trio.to_thread.run_sync(os.read, master, 65536)
        assert got == expected
        nursery.cancel_scope.cancel()
    assert outlet._asked is None


async def test_a_terminal_that_cannot_be_opened_anew_is_written_by_a_thread(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: int) -> str:
        raise PermissionError

    monkeypatch.setattr(os, "ttyname", refuses)
    master, slave = terminal
    outlet = Outlet(slave, most=100)
    assert outlet.put(b"hello")
    assert not outlet.idle
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outlet.run)
        await outlet.drained()
        nursery.cancel_scope.cancel()
    assert os.read(master, 100) == b"hello"


async def test_more_than_may_wait_is_refused(pipe: tuple[int, int]) -> None:
    read, write = pipe
    capacity(write)
    outlet = Outlet(write, most=10)
    assert outlet.put(b"12345")
    assert outlet.put(b"67890")
    assert not outlet.put(b"x")
    # Nobody reads any more, so what waits can be given up with the pipe.
    os.close(read)


async def test_cancellation_leaves_a_stuck_write_behind(pipe: tuple[int, int]) -> None:
    read, write = pipe
    capacity(write)
    outlet = Outlet(write, most=1000)
    outlet.put(b"stuck")
    with trio.move_on_after(0.2) as scope:
        await outlet.run()
    assert scope.cancelled_caught
    os.close(read)


async def test_a_reader_that_is_gone_is_told_once(pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.close(read)
    told: list[None] = []
    outlet = Outlet(write, most=100, broken=lambda: told.append(None))
    assert outlet.put(b"hello")
    assert outlet.put(b"hello again")
    assert told == [None]
    assert isinstance(outlet.error, BrokenPipeError)
    await outlet.drained()


async def test_a_reader_that_leaves_while_we_wait_for_it_is_told(
    pipe: tuple[int, int],
) -> None:
    read, write = pipe
    capacity(write)
    told: list[None] = []
    outlet = Outlet(write, most=100, broken=lambda: told.append(None))
    outlet.put(b"hello")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outlet.run)
        await wait_all_tasks_blocked()
        os.close(read)
        await outlet.drained()
    assert told == [None]


async def test_a_full_disk_is_told() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    told: list[None] = []
    try:
        outlet = Outlet(full, most=100, broken=lambda: told.append(None))
        outlet.put(b"hello")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outlet.run)
            await outlet.drained()
            nursery.cancel_scope.cancel()
    finally:
        os.close(full)
    assert told == [None]
    assert outlet.error is not None
    assert outlet.error.errno == errno.ENOSPC


def test_everything_is_written_to_a_file(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        write_all(file.fileno(), b"x" * 10_000_000)
    assert (tmp_path / "file").stat().st_size == 10_000_000
