"""What a run asks the person that it talks to, and the answers.

    Question      a message, of an InputMessageNode      answered with a text
    Confirmation  a tool that is about to run            answered with a `Decision`

Who starts runs passes a `Person` in; without one, nodes and tools that need one fail.
A run asks one thing at a time (`heddle.engine.confirming`).
"""

from typing import Any, Protocol

from msgspec import Struct

from plugins_host import NodePath


class Question(Struct, frozen=True, tag_field="kind", tag="message", rename="camel"):
    """What an InputMessageNode asks. ``message`` may be empty."""

    message: str
    node_name: str
    node_path: NodePath | None = None


class Confirmation(
    Struct, frozen=True, tag_field="kind", tag="confirmation", rename="camel"
):
    """Whether a tool may run that the document marks with ``requires_confirmation``.

    ``arguments`` are those that it would run with: defaults are filled in, and policies
    have changed what they change. ``description`` is the tool's, and may be empty.
    ``tool_call_id`` is there when a model asked for the tool, ``agent`` when that was the
    model of one of several agents.
    """

    tool_name: str
    arguments: dict[str, Any]
    description: str
    node_name: str
    node_path: NodePath | None = None
    tool_call_id: str | None = None
    agent: str | None = None


class Decision(Struct, frozen=True, omit_defaults=True):
    """Yes, no, or no with a reason, which the asking model reads."""

    approved: bool
    reason: str = ""


class Person(Protocol):
    """Who a run talks to. What either method raises as a `Fault` fails the asking node."""

    async def answer(self, question: Question, /) -> str:
        """Ask, and wait for the answer."""
        ...

    async def confirm(self, question: Confirmation, /) -> Decision:
        """Ask whether a tool may run, and wait for the answer."""
        ...
