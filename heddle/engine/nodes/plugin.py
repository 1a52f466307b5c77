"""A node of a plugin: its plugin executes it, with the state in and an output out."""

from collections.abc import Mapping
from typing import Any, cast

from heddle.engine.conventions import NEXT
from heddle.engine.faults import OutputMismatch
from heddle.engine.graph import RESERVED, Graph, GraphNode
from heddle.engine.model_calls import send_unseen
from heddle.engine.plugin_calls import PluginServices, served, shown_component
from heddle.engine.state import State, declared_outputs
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.spec import PluginComponent
from plugins_host import one_of


class BranchUnknown(OutputMismatch):
    """A plugin's node chose a branch that it does not have, or none where it has to."""


def plugin(node: GraphNode, graph: Graph) -> Waiting:
    """Have the plugin execute it; what comes back is held to what the node declares."""
    component = cast("PluginComponent", node.component)

    async def execute(given: State, context: NodeContext) -> Result:
        # Here, so that a document can be checked without loading what asks plugins.
        from heddle.long_work import bounded
        from plugins_host import EXECUTE

        step = served(context, component)
        state = {key: value for key, value in given.items() if not key.startswith(RESERVED)}
        tools = context.services.tools
        async with tools.workspace() as workspace:
            params: dict[str, Any] = {
                "node": shown_component(component),
                "input": state,
            }
            if step.confined:
                params["workspaceUnavailable"] = "confined"
            else:
                params["workspace"] = await tools.folder(workspace)
            services = PluginServices(context, component, send_unseen, workspace)
            with services.working():
                done = await step.ask(EXECUTE, params, services=services)
        of = f"plugin {step.plugin!r}, node {node.name!r} ({component.type_name})"
        output = await bounded(lambda: _outputs(node, done.output, of=of))
        return Result(output, _branch(node, done.branch, of=of))

    return Waiting(execute)


def _outputs(node: GraphNode, found: Mapping[str, Any], *, of: str) -> State:
    """What it gave, when that is what it declares.

    Raises:
        OutputMismatch: There is more or less, or something of another type.
    """
    declared = node.shape.outputs
    names = [each.title for each in declared]
    for key in found:
        if key.startswith(RESERVED):
            raise OutputMismatch(
                f"{of} gave {key!r}, and names that begin with {RESERVED!r} are reserved",
                fix="Give it another name.",
            )
        if declared and key not in names:
            raise OutputMismatch(
                f"{of} gave {key!r}, which its outputs do not declare",
                fix=one_of(key, names),
            )
    return declared_outputs(declared, found, of=of) if declared else dict(found)


def _branch(node: GraphNode, chosen: str | None, *, of: str) -> str | None:
    """The branch to leave by; None for the edge without one.

    Raises:
        BranchUnknown: It is none of the node's.
    """
    branches = node.shape.branches or frozenset()
    if chosen in branches:
        return chosen
    if chosen is not None and chosen != NEXT:
        raise BranchUnknown(
            f"{of} chose the branch {chosen!r}, which it does not declare",
            fix=one_of(chosen, sorted(branches)),
        )
    if branches and node.onward is None:
        raise BranchUnknown(
            f"{of} chose no branch",
            fix=f"Answer with 'branch', one of: {', '.join(sorted(branches))}.",
        )
    return None
