"""Consultations in a row: carried on by who reads the answers, and weighed by who asks."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from plugins_host.consulting.chain import Chain
from plugins_host.consulting.links import Asking, Link
from plugins_host.consulting.outcomes import (
    MiddlewareFailure,
    Passed,
    Replaced,
    Succeeded,
)
from plugins_host.consulting.rows import NOT_ASKED, Open
from plugins_host.consulting.walk import Walk
from plugins_host.frames import Request
from plugins_host.payload import Payload
from plugins_host.plugin_faults import PluginGone, PluginOverdue
from plugins_host.processes.process import PluginProcess
from plugins_host.reverse import CallServices
from plugins_host.seams import Half, NodeSubject, Seam
from plugins_host.testing import RecordedServices, Stage, plugin_pair

SEAMS = {Seam.NODE: tuple(Half)}
PASS = {"action": "pass"}


class Counted:
    """What is counted of answers."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, ...]] = []

    def answered(
        self,
        seam: Seam,
        half: Half,
        components: tuple[str, ...],
        action: str,
        seconds: float,
    ) -> None:
        assert seconds >= 0
        self.answers.append((f"{seam}.{half}", *components, action))

    def failed(self, seam: Seam, half: Half, component: str) -> None:
        self.answers.append((f"{seam}.{half}", component, "failed"))


class Steps(trio.abc.Instrument):
    """How often a task is given a turn."""

    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = None
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self.task


class Asked:
    """A row of questions about results, each named after its number."""

    def __init__(
        self,
        *plugins: PluginProcess,
        names: Sequence[str] = ("Audit",),
        many: int = 3,
        services: Sequence[CallServices | None] = (None,) * 9,
        fails_at: int = 0,
    ) -> None:
        self.watch = Counted()
        links = [
            Link(name, plugin.name, b"{}", SEAMS, plugin)
            for plugin in plugins
            for name in names
        ]
        self.chain = Chain(links, watch=self.watch)
        self.made = 0
        self.result: Open | BaseException | None = None
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.steps = Steps()
        self._many = many
        self._services = services
        self._fails_at = fails_at

    def _value(self, number: int) -> object:
        return number

    def questions(self) -> Iterator[Walk]:
        for number in range(1, self._many + 1):
            if number == self._fails_at:
                raise ZeroDivisionError("a bug")
            self.made = number
            asking = Asking(self._services[number - 1], print, patience=10)
            outcome = Succeeded(Payload.of({"n": self._value(number)}))
            node = NodeSubject(f"n{number}", "StartNode")
            yield self.chain.about_after(Seam.NODE, node, outcome, asking)

    async def ask(self) -> None:
        self.steps.task = trio.lowlevel.current_task()
        with self.scope:
            try:
                self.result = await self.chain.in_a_row(self.questions())
            except Exception as error:
                self.result = error
        self.over.set()


def node(request: Request) -> str:
    name: str = msgspec.json.decode(request.params)["subject"]["nodeName"]
    return name


def consents(stage: Stage, request: Request) -> None:
    """As our runtimes do, which encode no blanks."""
    if request.method == "consult":
        names = [
            each["componentType"] for each in msgspec.json.decode(request.params)["ask"]
        ]
        verdicts = [{"componentType": name, "verdict": PASS} for name in names]
        stage.answers(request, {"verdicts": verdicts})
    else:
        stage.answers(request, PASS)


@pytest.mark.parametrize("names", [("Audit",), ("Audit", "Budget")])
async def test_a_row_of_consents_is_asked_without_waking_who_waits(
    names: tuple[str, ...],
) -> None:
    async with (
        plugin_pair(features=["consult"]) as (plugin, troupe),
        trio.open_nursery() as nursery,
    ):
        await plugin.start()
        asked = Asked(plugin, names=names)
        trio.lowlevel.add_instrument(asked.steps)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        for number in (1, 2, 3):
            request = await stage.asked("after" if len(names) == 1 else "consult")
            assert node(request) == f"n{number}"
            assert asked.made == number
            consents(stage, request)
        await asked.over.wait()
        trio.lowlevel.remove_instrument(asked.steps)
    assert asked.result is None
    assert asked.steps.count == 1  # behind its first question: when it hears of the end
    assert asked.watch.answers == [("node.after", *names, "pass")] * 3


async def test_what_is_no_consent_ends_the_row_and_is_weighed() -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = Asked(plugin)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        consents(stage, await stage.asked("after"))
        stage.answers(await stage.asked("after"), {"action": "replace", "value": {"n": 0}})
        await asked.over.wait()
        opened = asked.result
        assert isinstance(opened, Open)
        assert asked.made == 2
        outcome = await asked.chain.settle_after(opened)
        assert isinstance(outcome, Replaced)
        assert outcome.value.value == {"n": 0}
    assert [said for *_, said in asked.watch.answers] == ["pass", "replace"]
    assert len(stage.requests) == 3  # `init` is one


async def test_consent_in_other_words_is_weighed_and_lets_it_be() -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = Asked(plugin, many=1)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        stage.answers(await stage.asked("after"), {**PASS, "why": "it is fine"})
        await asked.over.wait()
        assert isinstance(asked.result, Open)
        assert isinstance(await asked.chain.settle_after(asked.result), Passed)


@pytest.mark.parametrize(
    ("features", "names", "plugins"),
    [([], ("Audit", "Budget"), 1), (["consult"], ("Audit",), 2)],
    ids=["one frame for each", "two plugins"],
)
async def test_what_takes_more_than_one_frame_is_left_to_who_asks(
    features: list[str], names: tuple[str, ...], plugins: int
) -> None:
    async with plugin_pair(features=features) as (plugin, troupe):
        await plugin.start()
        async with plugin_pair(features=features) as (other, _):
            asked = Asked(*[plugin, other][:plugins], names=names)
            await asked.ask()
        assert isinstance(asked.result, Open)
        assert asked.result.answer is NOT_ASKED
        assert len(troupe.stages[0].requests) == 1


async def test_the_question_that_is_open_is_cancelled_with_the_row() -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = Asked(plugin)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        consents(stage, await stage.asked("after"))
        second = await stage.asked("after")
        asked.scope.cancel()
        cancel = await stage.asked("cancel")
        assert msgspec.json.decode(cancel.params) == {"call": second.id}
        await asked.over.wait()
        stage.answers(second, PASS)  # too late for anybody
        stage.answers(cancel, {})
        await wait_all_tasks_blocked()
        assert asked.made == 2
        assert plugin.counts.late == 1


async def test_a_row_that_is_cancelled_by_what_it_does_goes_no_further() -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()

        class Cancels(Asked):
            def questions(self) -> Iterator[Walk]:
                for walk in super().questions():
                    if self.made == 2:
                        self.scope.cancel()
                    yield walk

        asked = Cancels(plugin)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        consents(stage, await stage.asked("after"))
        await asked.over.wait()
        assert asked.scope.cancelled_caught
        second, cancel = await stage.asked("after"), await stage.asked("cancel")
        assert msgspec.json.decode(cancel.params) == {"call": second.id}


async def test_each_question_has_a_time_of_its_own(autojump_clock: MockClock) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = Asked(plugin)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        for _ in range(2):
            request = await stage.asked("after")
            await trio.sleep(9)
            consents(stage, request)
        await stage.asked("after")
        await asked.over.wait()
        assert trio.current_time() == 9 + 9 + 10
        opened = asked.result
        assert isinstance(opened, Open)
        assert isinstance(opened.answer, PluginOverdue)
        with pytest.raises(MiddlewareFailure, match="did not answer 'after' within 10 s"):
            await asked.chain.settle_after(opened)
        assert [said for *_, said in asked.watch.answers] == ["pass", "pass", "failed"]


async def test_what_is_asked_inside_a_question_is_served_and_the_row_goes_on() -> None:
    first, second = RecordedServices({"look": dict}), RecordedServices({"look": dict})
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = Asked(plugin, services=[first, second, None])
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        consents(stage, await stage.asked("after"))
        request = await stage.asked("after")
        reverse = stage.asks("runTool", request, name="look", input={"a": 1})
        assert await stage.told(reverse) == {"a": 1}
        consents(stage, request)
        consents(stage, await stage.asked("after"))
        await asked.over.wait()
    assert asked.result is None
    assert first.events == []
    assert second.events == [("runTool", "look", {"a": 1})]


async def test_a_question_that_was_not_read_is_asked_the_next_process() -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = Asked(plugin)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        consents(stage, await stage.asked("after"))
        await wait_all_tasks_blocked()
        stage.exits(1)
        fresh = await troupe.on_stage(2)
        for number in (2, 3):
            request = await fresh.asked("after")
            assert node(request) == f"n{number}"
            consents(fresh, request)
        await asked.over.wait()
    assert asked.result is None
    assert len(asked.watch.answers) == 3


async def test_a_process_that_ends_with_a_question_leaves_it_open() -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = Asked(plugin)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        consents(stage, await stage.asked("after"))
        await stage.asked("after")
        stage.exits(1)
        await asked.over.wait()
        assert isinstance(asked.result, Open)
        assert isinstance(asked.result.answer, PluginGone)


async def test_a_row_goes_from_one_plugin_to_another() -> None:
    async with (
        plugin_pair() as (one, ones),
        plugin_pair() as (other, others),
        trio.open_nursery() as nursery,
    ):
        await one.start()
        await other.start()
        chain = Chain(
            [
                Link("A", "one", b"{}", {Seam.NODE: (Half.BEFORE,)}, one),
                Link("B", "other", b"{}", {Seam.NODE: (Half.AFTER,)}, other),
            ]
        )
        subject, asking = NodeSubject("n", "StartNode"), Asking(None, print)

        def questions() -> Iterator[Walk]:
            for _ in range(2):
                yield chain.about_before(Seam.NODE, subject, Payload.of({}), asking)
                outcome = Succeeded(Payload.of({}))
                yield chain.about_after(Seam.NODE, subject, outcome, asking)

        over = trio.Event()

        async def ask() -> None:
            assert await chain.in_a_row(questions()) is None
            over.set()

        nursery.start_soon(ask)
        for _ in range(2):
            stage = ones.stages[0]
            stage.answers(await stage.asked("before"), {"action": "proceed"})
            stage = others.stages[0]
            stage.answers(await stage.asked("after"), PASS)
        await over.wait()


@pytest.mark.parametrize("number", [1, 2])
async def test_what_can_not_be_put_into_a_question_is_told_of_the_one_that_asks(
    number: int,
) -> None:
    class Odd(Asked):
        def _value(self, at: int) -> object:
            return object() if at == number else at

    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = Odd(plugin)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        if number == 2:
            consents(stage, await stage.asked("after"))
        await asked.over.wait()
        assert isinstance(asked.result, Open)
        assert isinstance(asked.result.answer, TypeError)


@pytest.mark.parametrize("number", [1, 2])
async def test_what_makes_the_questions_fails_in_the_task_that_asks(number: int) -> None:
    async with plugin_pair() as (plugin, troupe), trio.open_nursery() as nursery:
        await plugin.start()
        asked = Asked(plugin, fails_at=number)
        nursery.start_soon(asked.ask)
        stage = await troupe.on_stage()
        if number == 2:
            consents(stage, await stage.asked("after"))
        await asked.over.wait()
        assert isinstance(asked.result, ZeroDivisionError)
        # Whoever reads the answers is none the worse for it.
        again: Any = Asked(plugin, many=1)
        nursery.start_soon(again.ask)
        consents(stage, await stage.asked("after"))
        await again.over.wait()
        assert again.result is None
