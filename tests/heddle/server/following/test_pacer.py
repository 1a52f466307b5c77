"""One task that calls others back later."""

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from heddle.server.following.pacer import Pacer


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.sampled_from([0.0, 0.3, 3.0])),
        max_size=10,
    )
)
def test_every_call_is_made_at_its_time(asked: list[tuple[float, float]]) -> None:
    made: list[tuple[int, float]] = []
    wanted: list[tuple[int, float]] = []

    async def main() -> None:
        pacer = Pacer()

        def call(number: int) -> None:
            made.append((number, trio.current_time()))

        async def ask() -> None:
            for number, (pause, delay) in enumerate(asked):
                await trio.sleep(pause)
                when = trio.current_time() + delay
                wanted.append((number, when))
                pacer.at(when, lambda number=number: call(number))

        async with trio.open_nursery() as nursery:
            await ask() if len(asked) % 2 else None  # before it runs, or while it does
            nursery.start_soon(pacer.run)
            if not len(asked) % 2:
                await ask()
            await trio.sleep(10)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert sorted(number for number, _ in made) == list(range(len(asked)))
    if len(asked) % 2:
        return
    assert sorted(made) == sorted(wanted)
    assert [when for _, when in made] == sorted(when for _, when in made)


async def test_a_call_may_ask_for_another(autojump_clock: MockClock) -> None:
    pacer = Pacer()
    times: list[float] = []

    def again() -> None:
        times.append(trio.current_time())
        if len(times) < 4:
            pacer.at(trio.current_time() + 1, again)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pacer.run)
        await wait_all_tasks_blocked()
        pacer.at(1, again)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert times == [1, 2, 3, 4]
