"""The events that only traced runs tell of, as plain lines.

ask: asks model small, 3 messages
ask: model small answered (0.4 s)
team: agent writer begins
"""

from collections.abc import Callable, Iterator
from typing import Final, assert_never

from heddle.cli.text.wording import line, place, seconds
from heddle.events import (
    AgentCompleted,
    AgentStarted,
    InputAsked,
    InputGiven,
    ModelAnswered,
    ModelAsked,
    StateShown,
    SubflowCompleted,
    SubflowStarted,
    Traced,
)

MODELS: Final = "a model"
"""A configuration that says no model's name."""


def traced(event: Traced, value: Callable[[object], str]) -> Iterator[str]:
    """The lines for an event; ``value`` writes what goes in and comes out, or nothing."""
    head = f"  {place(event.node_name, event.node_path)}:"
    match event:
        case ModelAsked(request=request):
            count = len(request.messages)
            messages = "1 message" if count == 1 else f"{count} messages"
            model = line(request.model) or MODELS
            yield f"{head} asks {model}, {messages}{value(request)}"
        case ModelAnswered(error=None):
            took = seconds(event.duration / 1000)
            yield f"{head} {line(event.llm)} answered ({took}){value(event.response)}"
        case ModelAnswered(error=error):
            assert error is not None
            took = seconds(event.duration / 1000)
            yield f"{head} {line(event.llm)} failed: {line(error.message)} ({took})"
        case AgentStarted(agent=agent):
            yield f"{head} {line(agent)} begins{value(event.state)}"
        case AgentCompleted(agent=agent, handed_to=None):
            yield f"{head} {line(agent)} is done{value(event.state)}"
        case AgentCompleted(agent=agent, handed_to=heir):
            yield f"{head} {line(agent)} hands over to {line(str(heir))}"
        case SubflowStarted(flow=flow):
            yield f"{head} flow {line(flow)} begins{value(event.state)}"
        case SubflowCompleted(flow=flow):
            yield f"{head} flow {line(flow)} is done{value(event.state)}"
        case InputAsked() | InputGiven():
            return  # the conversation's messages say the same
        case StateShown(state=state):
            if shown := value(state):
                yield f"{head} goes on with{shown}"
        case _:
            assert_never(event)
