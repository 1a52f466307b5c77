"""Tasks that carry out one run after the other."""

from collections.abc import Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from heddle.server.own_scope import OwnScope
from heddle.server.runs.tasks import MOST_RESTING, RunTasks


class Job:
    """Something to do, and what it may be cancelled by."""

    def __init__(self, scope: OwnScope) -> None:
        self.scope = scope
        self.go_on = trio.Event()
        self.task: trio.lowlevel.Task | None = None
        self.cancelled = False


async def carry_out(job: Job) -> None:
    job.task = trio.lowlevel.current_task()
    try:
        await job.go_on.wait()
    except trio.Cancelled:
        job.cancelled = True
        if not job.scope.cancel_called:
            raise


def starting(tasks: RunTasks[Job]) -> Callable[[], Job]:
    def start() -> Job:
        made: list[Job] = []

        def make(scope: OwnScope) -> Job:
            made.append(Job(scope))
            return made[0]

        tasks.start(make)
        return made[0]

    return start


async def test_a_task_carries_out_one_after_the_other_in_one_scope() -> None:
    async with trio.open_nursery() as nursery:
        start = starting(RunTasks(nursery, carry_out))
        jobs = []
        for _ in range(3):
            jobs.append(start())
            jobs[-1].go_on.set()
            await wait_all_tasks_blocked()
        assert len({job.task for job in jobs}) == len({id(job.scope) for job in jobs}) == 1
        nursery.cancel_scope.cancel()


async def test_those_at_once_have_tasks_of_their_own_and_few_of_them_stay() -> None:
    async with trio.open_nursery() as nursery:
        tasks = RunTasks(nursery, carry_out)
        jobs = [starting(tasks)() for _ in range(2 * MOST_RESTING)]
        await wait_all_tasks_blocked()
        assert len({job.task for job in jobs}) == len({id(job.scope) for job in jobs})
        assert tasks.resting == 0
        for job in jobs:
            job.go_on.set()
        await wait_all_tasks_blocked()
        assert tasks.resting == len(nursery.child_tasks) == MOST_RESTING
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancelled_run_takes_no_other_with_it(*, begun: bool) -> None:
    async with trio.open_nursery() as nursery:
        start = starting(RunTasks(nursery, carry_out))
        first, beside = start(), start()
        if begun:
            await wait_all_tasks_blocked()
        first.scope.cancel()
        await wait_all_tasks_blocked()
        assert (first.cancelled, beside.cancelled) == (True, False)

        second = start()
        await wait_all_tasks_blocked()
        assert second.task is first.task
        assert second.scope is not first.scope
        assert not second.cancelled
        second.scope.cancel()
        beside.go_on.set()
        await wait_all_tasks_blocked()
        assert (second.cancelled, beside.cancelled) == (True, False)

        # One that rests in its scope, cancelled before the run that woke it has begun.
        third = start()
        assert third.scope is beside.scope or third.task is None
        third.scope.cancel()
        await wait_all_tasks_blocked()
        assert third.cancelled
        nursery.cancel_scope.cancel()


async def test_all_end_with_their_nursery() -> None:
    async with trio.open_nursery() as nursery:
        tasks = RunTasks(nursery, carry_out)
        start = starting(tasks)
        resting, busy = start(), start()
        resting.go_on.set()
        await wait_all_tasks_blocked()
        assert tasks.resting == 1
        nursery.cancel_scope.cancel()
    assert busy.cancelled
    assert not resting.cancelled
    assert tasks.resting == 0
