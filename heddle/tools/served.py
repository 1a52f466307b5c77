"""A tool that a plugin serves: asked with ``callTool``, held to the schemas it declares."""

from collections.abc import Callable, Mapping
from typing import Any

import trio
from msgspec import Struct

from heddle.long_work import bounded
from heddle.nesting import MAX_DEPTH, depth
from heddle.spec import EffortExceeded, check
from heddle.tools.faults import ToolAnswerInvalid, ToolFault, ToolTimedOut
from plugins_host import CALL_TOOL, CallServices, PluginFault, Served


class ToolInputRefused(ToolFault):
    """What the tool was given is not of its ``inputSchema``. It was not asked."""


class ToolPluginFailed(ToolFault):
    """The plugin that serves the tool gave no answer, or none of the right form."""


class ServedTool(Struct, frozen=True):
    """One tool of one plugin.

    Attributes:
        served: Who is asked.
        log: Told what the tool said on the side.
        input_schema, output_schema: JSON Schemas of an object; None for any.
    """

    name: str
    served: Served
    log: Callable[[str], None]
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    problem: str = ""
    fix: str = ""

    async def call(
        self,
        input: Mapping[str, Any],  # noqa: A002  the word of the protocol
        *,
        timeout: float,
        services: CallServices | None,
    ) -> dict[str, Any]:
        """Ask for one execution.

        Args:
            input: What it is given.
            timeout: Seconds it may take.
            services: What it may use of the run meanwhile.

        Raises:
            ToolFault: The subclass says what went wrong.
        """
        if wrong := await _misfit(input, self.input_schema):
            raise ToolInputRefused(self.name, f"its input does not fit: {wrong}")
        params = {"tool": self.name, "input": input}
        answer = None
        try:
            with trio.move_on_after(timeout):
                answer = await self.served.ask(CALL_TOOL, params, services=services)
        except PluginFault as fault:
            raise ToolPluginFailed(
                self.name, f"{fault.where}: {fault.what}", fix=fault.fix
            ) from fault
        if answer is None:
            raise ToolTimedOut(self.name, timeout, "")
        if answer.stderr:
            self.log(f"tool {self.name!r}: {answer.stderr}")
        output = answer.output
        if depth(output) > MAX_DEPTH:
            raise ToolAnswerInvalid(
                self.name,
                f"its output is nested deeper than {MAX_DEPTH} levels",
                fix="Answer with less.",
            )
        if wrong := await _misfit(output, self.output_schema):
            raise ToolAnswerInvalid(
                self.name,
                f"its output is not what it declares: {wrong}",
                fix="Correct the tool, or its outputSchema.",
            )
        return output


async def _misfit(value: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str:
    """What of a value does not fit; empty when all of it does."""
    if schema is None:
        return ""
    try:
        found = await bounded(lambda: check(value, schema))
    except EffortExceeded as error:
        return error.what
    return "; ".join(f"{path}: {text}" for path, text in found)
