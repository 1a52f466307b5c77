"""``heddle run -i``: a message in, a run of the flow, its answer out; until the end.

Each message is a run of its own, given to the flow's first text input. The turns before
it go along for the flow's agents. How a person is shown things and asked is the business
of a `Front`; what has been said, of `Turns`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, assert_never

import msgspec

from heddle.cli.chat.commands import Command, Message, help_text, read
from heddle.cli.chat.turns import Turns
from heddle.cli.exits import WrongUsage
from heddle.cli.terminal.interrupts import Interrupts
from heddle.events import Event, MessageSaid
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.engine.questions import Person
    from heddle.launch import Engine
    from heddle.preparing import Prepared

ANYWAY: Final = "message"
"""The name under which a flow that declares no text input finds what was said."""
ANSWERS: Final = ("result", "generated_text")
"""Where a flow that declares no outputs has its text."""


class Answer(msgspec.Struct, frozen=True):
    """What of a result is shown: its text, or all of it as JSON."""

    text: str
    is_json: bool = False


class Front(Protocol):
    """Who stands between the chat and the person."""

    @property
    def person(self) -> "Person":
        """Whom runs ask."""
        ...

    @property
    def keys(self) -> Mapping[str, str]:
        """What keys do, for `/help`."""
        ...

    async def next_message(self) -> str | None:
        """What is typed next, with no blanks around it; None when the person leaves."""
        ...

    async def tell(self, text: str, /) -> None:
        """Show a text that is no answer."""
        ...

    async def show_state(self, state: Mapping[str, Any], /) -> None:
        """Show a value of some size."""
        ...

    async def refuse(self, error: Fault, /) -> None:
        """Show why something cannot be done, or why a turn failed."""
        ...

    def see(self, event: Event, /) -> None:
        """Show what happens on the way to an answer. Does not block."""
        ...

    def begin(self) -> None:
        """A turn begins."""
        ...

    async def answer(self, answer: Answer, /) -> None:
        """It has come to an answer."""
        ...

    async def give_up(self) -> None:
        """It was cancelled by the person."""
        ...


def spoken_input(prepared: "Prepared", given: Mapping[str, Any]) -> str:
    """The input that a message goes to: the first text that is not given already."""
    for each in prepared.plan.graph.inputs:
        if each.schema.get("type") == "string" and each.title not in given:
            return each.title
    return ANYWAY


def answer_of(prepared: "Prepared", state: Mapping[str, Any]) -> Answer:
    """What of a result is shown."""
    declared = [each.title for each in prepared.plan.graph.outputs]
    names = declared if len(declared) == 1 else [each for each in ANSWERS if each in state]
    for name in names:
        if isinstance(state.get(name), str):
            return Answer(str(state[name]))
    return Answer(msgspec.json.encode(state).decode(), is_json=True)


class Chat:
    """One conversation with a flow.

    Args:
        engine: Runs the flow; its plugins live as long as the chat.
        prepared: The flow.
        given: State that every run starts with, beside what was said.
        front: Shows and asks.
        interrupts: What ends an answer and not the chat.
        stream: Whether models are asked for their text as they write it.
    """

    def __init__(
        self,
        engine: "Engine",
        prepared: "Prepared",
        given: Mapping[str, Any],
        front: Front,
        interrupts: Interrupts,
        *,
        stream: bool,
    ) -> None:
        self._engine = engine
        self._prepared = prepared
        self._given = given
        self._front = front
        self._interrupts = interrupts
        self._stream = stream
        self._turns = Turns()
        self._is_done = True
        self._input = spoken_input(prepared, given)
        self._commands: Mapping[str, Callable[[], Any]] = {
            "/help": self._help,
            "/new": self._begin_anew,
            "/retry": self._retry,
            "/state": self._show_state,
        }

    async def run(self) -> bool:
        """Take turns until the person leaves.

        Returns:
            Whether all that was typed was done: no turn failed, no command was refused.
        """
        while (typed := await self._front.next_message()) is not None:
            if not typed:
                continue
            try:
                meant = read(typed)
            except WrongUsage as refused:
                await self._refuse(refused)
                continue
            match meant:
                case Message(text=said):
                    await self._turn(said)
                case Command(name="/exit"):
                    break
                case Command(name=name):
                    await self._commands[name]()
                case _:
                    assert_never(meant)
        return self._is_done

    async def _refuse(self, error: Fault) -> None:
        self._is_done = False
        await self._front.refuse(error)

    async def _turn(self, said: str) -> None:
        front, turns = self._front, self._turns
        history = turns.history()
        turns.begin(said)
        heard: list[MessageSaid] = []

        def see(event: Event) -> None:
            if isinstance(event, MessageSaid):
                heard.append(event)
            front.see(event)

        front.begin()
        failure: Fault | None = None
        state: dict[str, Any] | None = None
        with self._interrupts.heeding() as running:
            try:
                state = await self._engine.run(
                    self._prepared,
                    {**self._given, self._input: said},
                    see,
                    stream=self._stream,
                    person=front.person,
                    history=history,
                )
            except Fault as error:
                failure = error
        if state is not None:
            answer = answer_of(self._prepared, state)
            turns.settle(answer.text, state, heard)
            await front.answer(answer)
        elif failure is None or running.cancel_called:
            # What failed while it was being cancelled is nobody's business.
            await front.give_up()
        else:
            await self._refuse(failure)

    async def _retry(self) -> None:
        said = self._turns.take_back()
        if said is None:
            await self._front.tell("There is no turn to take back yet.")
        else:
            await self._turn(said)

    async def _begin_anew(self) -> None:
        self._turns = Turns()
        await self._front.tell("A new conversation begins.")

    async def _show_state(self) -> None:
        history = [
            {"role": each.role, "content": each.content} for each in self._turns.history()
        ]
        await self._front.show_state(
            {
                "result": self._turns.result,
                "next": {**self._given, "_chat_history": history},
            }
        )

    async def _help(self) -> None:
        await self._front.tell(help_text(self._front.keys))
