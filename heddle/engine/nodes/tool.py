"""ToolNode: the input state goes into a tool, its output into the state."""

from collections.abc import Mapping
from typing import Any, cast

from heddle.engine.confirming import WITH_A_PERSON, Unconfirmed, hindrance
from heddle.engine.faults import OutputMismatch
from heddle.engine.graph import RESERVED, Graph, GraphNode
from heddle.engine.signatures import Properties
from heddle.engine.state import State, declared_outputs, output_value
from heddle.engine.tool_use import tool_user
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.spec import Tool, ToolNode


def tool(node: GraphNode, graph: Graph) -> Waiting:
    """Run the tool with its declared inputs; with the state when it declares none.

    One that wants a person's confirmation fails the node when it is not given: what a tool
    would have put out can't be made up.
    """
    component = cast("ToolNode", node.component)
    used = component.tool
    name = used.name
    asks_first = isinstance(used, Tool) and used.requires_confirmation
    inputs = [each.title for each in node.shape.inputs]
    use = tool_user(used, node.shape.outputs)

    async def run_tool(
        arguments: Mapping[str, Any], context: NodeContext, call: str | None = None
    ) -> Mapping[str, Any]:
        if asks_first:
            await _confirm(cast("Tool", used), arguments, context, call)
        async with context.services.tools.workspace() as workspace:
            return await use(arguments, context, workspace)

    async def execute(given: State, context: NodeContext) -> Result:
        if inputs:
            arguments = {key: given[key] for key in inputs if key in given}
        else:
            arguments = {key: given[key] for key in given if not key.startswith(RESERVED)}
        trace = context.run.trace
        if trace is None:
            found = await run_tool(arguments, context)
        else:
            with trace.using(context, name, arguments) as traced:
                found = await run_tool(arguments, context, traced.identity)
                traced.output = found
        from heddle.long_work import bounded

        of = f"tool {name!r}"
        return Result(await bounded(lambda: shape_output(node.shape.outputs, found, of=of)))

    return Waiting(execute)


async def _confirm(
    tool: Tool, arguments: Mapping[str, Any], context: NodeContext, call: str | None
) -> None:
    fault = await hindrance(context, tool, arguments, call=call)
    if isinstance(fault, Unconfirmed):
        raise Unconfirmed(fault.what, fix=WITH_A_PERSON)
    if fault is not None:
        raise fault


def shape_output(declared: Properties, found: Mapping[str, Any], *, of: str) -> State:
    """A tool's JSON object as the outputs it declares.

    None declared: the object itself, less the names that are heddle's own. Several: by
    title. One: what the tool returned is that output, bare or under its title.

    Raises:
        OutputMismatch: An output is missing without a default, or is of another type.
    """
    if not declared:
        return {key: found[key] for key in found if not key.startswith(RESERVED)}
    if len(declared) != 1:
        return declared_outputs(declared, found, of=of)
    only = declared[0]
    kind = only.schema.get("type")
    titled = only.title in found and (len(found) == 1 or kind != "object")
    if titled or (not found and only.has_default):
        return declared_outputs(declared, found, of=of)
    if kind in ("object", None) and (found or kind == "object"):
        return {only.title: output_value(only, dict(found), of=of)}
    raise OutputMismatch(
        f"{of} gave no {only.title!r}, which the outputs declare",
        fix=f"It gave: {', '.join(map(repr, found)) or 'nothing'}.",
    )
