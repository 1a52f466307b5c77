"""For tests of actors and of what talks to them.

A scripted actor, a runner for one actor that lets its crash fail the test, and a look at
supervisors' reports and at the tasks of the program:

    probe = Probe({Read: 7})
    async with no_tasks_left(), running(probe) as ref:
        assert await ref.call(Read()) == 7
        assert probe.received == [Read()]
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio
from trio.testing import wait_all_tasks_blocked

from actors.actor import Actor
from actors.endings import Patience
from actors.mailbox import MAILBOX_SIZE
from actors.ref import Ref
from actors.restarts import Restart
from actors.supervisor import ChildExited, Supervisor

M = TypeVar("M")


class Probe(Actor[Any]):
    """An actor made of test code: records what it is sent and answers from a table.

    Args:
        answers: By type of message: the answer, a function of the message that makes it,
            or an exception to crash with. What is not in it is answered with None.

    Attributes:
        received: The messages that it began to handle.
        gate: Wait here with a message in hand while it is not set; it is set at first.
    """

    def __init__(self, answers: Mapping[type, object] | None = None) -> None:
        self.received: list[Any] = []
        self.gate = trio.Event()
        self.gate.set()
        self._answers = {} if answers is None else answers

    async def receive(self, message: Any) -> object:
        """Record, wait at the gate, answer."""
        self.received.append(message)
        await self.gate.wait()
        answer = self._answers.get(type(message))
        if callable(answer):
            answer = answer(message)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def hold(self) -> None:
        """Keep the next message in hand, and the others waiting, until `release`."""
        self.gate = trio.Event()

    def release(self) -> None:
        """Go on with the message in hand."""
        self.gate.set()


class Exits:
    """A supervisor's report that tests can read, and wait for."""

    def __init__(self) -> None:
        self.seen: list[ChildExited] = []
        self._more = trio.Event()

    def __call__(self, event: ChildExited) -> None:
        self.seen.append(event)
        self._more.set()
        self._more = trio.Event()

    async def wait_for(self, count: int) -> list[ChildExited]:
        """The first ``count`` exits, once there are as many."""
        while len(self.seen) < count:
            await self._more.wait()
        return self.seen[:count]


@asynccontextmanager
async def running(
    actor: Actor[M], *, name: str = "tested 1", capacity: int = MAILBOX_SIZE
) -> AsyncIterator[Ref[M]]:
    """Run one actor while the block is open, then let it finish what it was sent.

    Raises:
        Exception: What the actor crashed with, when the block itself was left in peace.
    """

    def nobody(_: ChildExited) -> None:
        """The crash is raised here; it needs no report."""

    async with Supervisor("test", patience=Patience(60, 60), report=nobody) as supervisor:
        ref = supervisor.start(
            lambda: actor, name=name, restart=Restart.TEMPORARY, capacity=capacity
        )
        yield ref
    if ref.ended is not None and ref.ended.error is not None:
        raise ref.ended.error


def tasks() -> list[trio.lowlevel.Task]:
    """Every task of the running program but trio's own."""

    def below(nurseries: list[trio.Nursery]) -> Iterator[trio.lowlevel.Task]:
        for nursery in nurseries:
            for task in nursery.child_tasks:
                yield task
                yield from below(list(task.child_nurseries))

    # Trio's root task has the main task and the system's tasks in separate nurseries.
    root = trio.lowlevel.current_root_task()
    task = trio.lowlevel.current_task()
    while (above := task.parent_nursery) is not None and above.parent_task is not root:
        task = above.parent_task
    return [task, *below(list(task.child_nurseries))]


@asynccontextmanager
async def no_tasks_left() -> AsyncIterator[None]:
    """Check that the block leaves no task behind that was not there before it.

    Raises:
        AssertionError: Names the tasks that are left.
    """
    before = set(tasks())
    yield
    await wait_all_tasks_blocked()
    left = [task.name for task in tasks() if task not in before]
    assert not left, f"tasks are left behind: {', '.join(left)}"
