"""The transforms of an agent: what they make of the messages to and from its model.

    pre     the conversation, just before each request; the agent's own copy stays whole
    post    the model's answer, before anybody else sees it

They are applied in the order of the document. One that rejects ends the agent's work: the
node's output says so, and no model is called any more.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from heddle.engine.decisions import Rejected
from heddle.engine.model_calls import send_unseen
from heddle.engine.plugin_calls import PluginServices, served, shown_component
from heddle.engine.summaries import (
    Apply,
    conversation_summarization,
    message_summarization,
)
from heddle.engine.work import NodeContext
from heddle.spec import (
    Agent,
    ConversationSummarizationTransform,
    MessageSummarizationTransform,
    PluginComponent,
)
from plugins_host import APPLY, APPLY_POST, Applied, Message, ModelResponse

PHASES: Final[Mapping[str, tuple[str, ...]]] = {
    "pre": ("pre",),
    "post": ("post",),
    "both": ("pre", "post"),
}
"""When a transform is applied, by what its manifest says."""


class Transforms:
    """The transforms of one agent, compiled with it; shared by concurrent runs."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent.name
        self._pre: list[Apply | _Plugin] = []
        self._post: list[_Plugin] = []
        for each in agent.transforms:
            match each:
                case MessageSummarizationTransform():
                    self._pre.append(message_summarization(each))
                case ConversationSummarizationTransform():
                    self._pre.append(conversation_summarization(each))
                case PluginComponent():
                    step = _Plugin(each)
                    phases = PHASES.get(each.provided.phase, ())
                    self._pre += [step] * ("pre" in phases)
                    self._post += [step] * ("post" in phases)

    @property
    def holds_back(self) -> bool:
        """Whether answers are changed before they may be seen."""
        return bool(self._post)

    def tell(self, context: NodeContext) -> None:
        """Say why the text of this agent does not come in pieces, where it would."""
        if self._post and context.services.stream:
            names = ", ".join(repr(each.name) for each in self._post)
            context.warn_once(
                f"agent {self._agent!r}: its text is not streamed, because it goes through "
                f"{names} first"
            )

    async def before(
        self, context: NodeContext, messages: tuple[Message, ...]
    ) -> tuple[Message, ...]:
        """The messages to send.

        Raises:
            Rejected: None.
        """
        for step in self._pre:
            if isinstance(step, _Plugin):
                applied = await step.apply(context, "pre", messages)
                if applied.action == "modify":
                    assert applied.messages is not None
                    messages = applied.messages
            else:
                messages = await step(context, messages)
        return messages

    async def after(self, context: NodeContext, response: ModelResponse) -> ModelResponse:
        """The answer to go on with.

        Raises:
            Rejected: None.
        """
        for step in self._post:
            message = Message("assistant", response.content, response.tool_calls)
            applied = await step.apply(context, "post", (message,))
            if applied.action == "modify":
                assert applied.messages is not None
                (changed,) = applied.messages
                response = msgspec.structs.replace(
                    response, content=changed.content, tool_calls=changed.tool_calls
                )
        return response


class _Plugin:
    """A transform that a plugin applies."""

    def __init__(self, component: PluginComponent) -> None:
        self.name = component.name
        self._component = component

    async def apply(
        self, context: NodeContext, phase: str, messages: tuple[Message, ...]
    ) -> Applied:
        """What it makes of the messages.

        Raises:
            Rejected: Nothing.
        """
        services = PluginServices(context, self._component, send_unseen)
        with services.working():
            applied = await served(context, self._component).ask(
                APPLY if phase == "pre" else APPLY_POST,
                {
                    "component": shown_component(self._component),
                    "phase": phase,
                    "messages": messages,
                },
                services=services,
            )
        if applied.action == "reject":
            answers = [each for each in applied.messages or () if each.role == "assistant"]
            text = answers[-1].content if answers else None
            raise Rejected(self.name, phase, applied.reason or "", text)
        return applied
