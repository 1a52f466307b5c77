"""A worker leaves connections to its siblings, and takes them on when those are busy."""

import trio
from trio.testing import MockClock

from heddle.server.workers import CONNECTIONS, LEAVING, SERVING, STATE, Board
from heddle.server.workers.share import SLACK, Share


def two() -> tuple[Board, Share]:
    """A worker with one sibling."""
    board = Board(8)
    for row in range(2):
        board.set(row, STATE, SERVING)
    return board, Share(board, 0)


async def test_all_is_taken_soon_when_the_sibling_takes_nothing(
    autojump_clock: MockClock,
) -> None:
    _, share = two()
    begun = trio.current_time()
    taken = waits = 0
    while taken < 1000:
        if share.ahead():
            waits += 1
            await share.give_way()
        else:
            taken += 1
            share.hold(taken)
    assert waits == 10
    assert trio.current_time() - begun < 0.1


async def test_as_much_is_left_to_a_sibling_as_is_taken(autojump_clock: MockClock) -> None:
    board, share = two()

    async def sibling() -> None:
        while True:
            await trio.sleep(0.002)
            board.set(1, CONNECTIONS, board.get(1, CONNECTIONS) + 1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sibling)
        taken = 0
        while taken < 100:
            if share.ahead():
                await share.give_way()
            else:
                taken += 1
                share.hold(taken)
        nursery.cancel_scope.cancel()
    assert board.get(0, CONNECTIONS) == 100
    assert 100 - 2 * SLACK - 1 <= board.get(1, CONNECTIONS) <= 100


def test_a_worker_alone_and_one_among_those_who_leave_never_wait() -> None:
    board, share = two()
    share.hold(100)
    assert share.ahead()
    board.set(1, STATE, LEAVING)
    assert not share.ahead()
