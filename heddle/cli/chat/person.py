"""The person at ``heddle run -i``: asked on stderr, answering with lines of stdin.

A tool that is to be confirmed is shown with its arguments. A line that begins with yes is
a yes; anything else is a no, and what it says beyond that is the reason.
"""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from heddle.cli.text.wording import json_line, line, place
from heddle.engine.questions import Confirmation, Decision, Question
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.engine.questions import Person

VALUE_SHOWN: Final = 2000
"""Characters of the arguments that are shown. What is cut is said to be."""

_YES: Final = re.compile(r"y|yes", re.IGNORECASE)
_NO: Final = re.compile(r"(?:no?\b)?[\s,;:.!\u2014\u2013-]*(.*)", re.IGNORECASE | re.DOTALL)


class Unanswered(Fault):
    """A node asked, and there was no further line."""


def read_decision(text: str) -> Decision:
    """What a person wrote, as the decision that it is.

    Nothing but a plain yes is one: ``yes, but …`` wants something else than was asked.
    """
    said = text.strip()
    if _YES.fullmatch(said.rstrip(".!")):
        return Decision(approved=True)
    found = _NO.match(said)
    assert found is not None, "it matches anything"
    return Decision(approved=False, reason=found[1])


def confirmation_text(question: Confirmation) -> str:
    """What is asked, on lines fit for a terminal."""
    who = place(question.node_name, question.node_path)
    if question.agent is not None:
        who = f"{who} ({line(question.agent)})"
    given = json_line(question.arguments)
    if len(given) > VALUE_SHOWN:
        given = f"{given[:VALUE_SHOWN]}… ({len(given) - VALUE_SHOWN} characters more)"
    about = f"\n    {line(question.description)}" if question.description else ""
    return (
        f"? {who} wants to run {line(question.tool_name)} {given}{about}\n"
        "  yes, or no and why"
    )


class PlainPerson:
    """Somebody who is asked line by line.

    Args:
        show: Shows a text, above the line that is read next.
        next_line: What is said next; None at the end of the input.
    """

    def __init__(
        self,
        show: Callable[[str], Awaitable[None]],
        next_line: Callable[[], Awaitable[str | None]],
    ) -> None:
        self._show = show
        self._next_line = next_line

    async def answer(self, question: Question, /) -> str:
        """The next line; the question itself is shown as the event that it is."""
        await self._show("")
        return await self._line(f"{question.node_name!r} was answered")

    async def confirm(self, question: Confirmation, /) -> Decision:
        """Read a decision."""
        await self._show(confirmation_text(question))
        done = f"the tool {question.tool_name!r} was confirmed or refused"
        return read_decision(await self._line(done))

    async def _line(self, done: str) -> str:
        said = await self._next_line()
        if said is None:
            raise Unanswered(
                f"the input ended before {done}",
                fix="Answer each question on a line of its own.",
            )
        return said


if TYPE_CHECKING:
    _: type[Person] = PlainPerson
