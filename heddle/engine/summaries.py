"""Agent Spec's own transforms: long messages and long conversations made shorter.

A summary is made by the transform's own model and kept, so that a message that is sent
with every round is summarised once. What is kept is bounded in number, age and size.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from heddle.engine.model_calls import call_model
from heddle.engine.work import NodeContext
from heddle.spec import (
    Component,
    ConversationSummarizationTransform,
    MessageSummarizationTransform,
    Problem,
    render,
)
from plugins_host import Message

# However many entries a document allows: compiled flows are kept, and their summaries
# with them.
MAX_ENTRIES: Final = 10_000
MAX_CHARACTERS: Final = 4 * 1024 * 1024

Apply = Callable[[NodeContext, tuple[Message, ...]], Awaitable[tuple[Message, ...]]]


class Summaries:
    """The newest summaries, by what they are of.

    Args:
        most: How many; None for as many as there may be at all.
        lifetime: Seconds; None for as long as there is room.
        now: Seconds on any clock.
    """

    def __init__(
        self,
        most: int | None,
        lifetime: float | None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = MAX_ENTRIES if most is None else min(most, MAX_ENTRIES)
        self._lifetime = float("inf") if lifetime is None else lifetime
        self._now = now
        self._kept: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        self._characters = 0

    def get(self, text: str) -> str | None:
        """The summary of a text that was put in and is still there."""
        found = self._kept.get(_digest(text))
        if found is None or found[0] <= self._now():
            return None
        return found[1]

    def put(self, text: str, summary: str) -> None:
        """Keep a summary; the oldest make room."""
        key = _digest(text)
        if (known := self._kept.pop(key, None)) is not None:
            self._characters -= len(known[1])
        self._kept[key] = (self._now() + self._lifetime, summary)
        self._characters += len(summary)
        while len(self._kept) > self._most or self._characters > MAX_CHARACTERS:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._characters -= len(dropped)

    def __len__(self) -> int:
        return len(self._kept)


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=20).digest()


class _Summariser:
    """Has a model summarise texts, each once while its summary is kept."""

    def __init__(
        self,
        llm: Component,
        instructions: str,
        template: str,
        summaries: Summaries,
    ) -> None:
        self._llm = llm
        self._instructions = instructions
        self._template = template
        self._summaries = summaries

    async def summary(self, context: NodeContext, text: str) -> str:
        """The template with the summary in it."""
        said = self._summaries.get(text)
        if said is None:
            asked = (Message("system", self._instructions), Message("user", text))
            said = (await call_model(context, self._llm, asked, shown=False)).content
            self._summaries.put(text, said)
        from heddle.long_work import bounded

        filled = said
        return (await bounded(lambda: render(self._template, {"summary": filled})))[0]


def message_summarization(component: MessageSummarizationTransform) -> Apply:
    """Put a summary in the place of each message that is too long; instructions stay."""
    summariser = _Summariser(
        component.llm,
        component.summarization_instructions,
        component.summarized_message_template,
        Summaries(component.max_cache_size, component.max_cache_lifetime),
    )

    async def apply(
        context: NodeContext, messages: tuple[Message, ...]
    ) -> tuple[Message, ...]:
        shorter = []
        for each in messages:
            if each.role != "system" and len(each.content) > component.max_message_size:
                summary = await summariser.summary(context, each.content)
                shorter.append(msgspec.structs.replace(each, content=summary))
            else:
                shorter.append(each)
        return tuple(shorter)

    return apply


UNSAID: Final = 50
"""How many messages a transform allows that does not say how many."""


def measure_problems(
    component: ConversationSummarizationTransform, path: str
) -> Iterator[Problem]:
    """What is wrong with how the transform at ``path`` tells a long conversation."""
    messages, characters = component.max_num_messages, component.max_num_characters
    if messages is None and characters is None:
        what = f"nothing says when a conversation is too long for {component.name!r}"
        yield Problem(path, what, "Give 'max_num_messages' or 'max_num_characters'.")
    elif characters is not None and messages not in (None, UNSAID):
        what = f"{component.name!r} measures a conversation in messages and in characters"
        yield Problem(f"{path}.max_num_characters", what, "Keep one of the two limits.")
    elif (
        characters is None
        and messages is not None
        and messages <= component.min_num_messages
    ):
        what = (
            f"{component.name!r} keeps the last {component.min_num_messages} messages, and "
            f"{messages} are to be too many"
        )
        fix = "Make 'max_num_messages' more than 'min_num_messages'."
        yield Problem(f"{path}.max_num_messages", what, fix)


def conversation_summarization(component: ConversationSummarizationTransform) -> Apply:
    """Put one summary in the place of all but the last messages of a long conversation."""
    summariser = _Summariser(
        component.llm,
        component.summarization_instructions,
        component.summarized_conversation_template,
        Summaries(component.max_cache_size, component.max_cache_lifetime),
    )

    def too_long(messages: Sequence[Message]) -> bool:
        if component.max_num_characters is not None:
            size = sum(len(each.content) for each in messages)
            return size > component.max_num_characters
        most = component.max_num_messages
        return most is not None and len(messages) > most

    async def apply(
        context: NodeContext, messages: tuple[Message, ...]
    ) -> tuple[Message, ...]:
        told = tuple(each for each in messages if each.role == "system")
        said = messages[len(told) :]
        if not too_long(said):
            return messages
        cut = max(len(said) - component.min_num_messages, 0)
        # An answer of a tool stays with the call that it answers.
        while cut > 0 and said[cut].role == "tool":
            cut -= 1
        if cut == 0:
            return messages
        summary = await summariser.summary(context, _as_text(said[:cut]))
        return (*told, Message("user", summary), *said[cut:])

    return apply


def _as_text(messages: Sequence[Message]) -> str:
    """A conversation for a model to read."""
    lines = []
    for each in messages:
        lines.append(f"{each.role}: {each.content}")
        lines += (
            f"{each.role} calls {call.name}({call.arguments})" for call in each.tool_calls
        )
    return "\n".join(lines)
