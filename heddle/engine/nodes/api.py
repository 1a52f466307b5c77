"""ApiNode: one HTTP request, and the outputs that are in its answer."""

from typing import Final, cast

from heddle.engine.graph import Graph, GraphNode
from heddle.engine.http_answer import shape_answer
from heddle.engine.requests.request import RequestTemplate
from heddle.engine.state import State
from heddle.engine.tool_use import send
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.spec import ApiNode
from plugins_host import Fault


def api(node: GraphNode, graph: Graph) -> Waiting:
    """Send the request, filled in from the state; an answer other than 2xx is an error."""
    template = RequestTemplate(cast("ApiNode", node.component))
    outputs = node.shape.outputs

    async def execute(given: State, context: NodeContext) -> Result:
        from heddle.long_work import bounded

        try:
            answer = await send(template, given, context)
        except Fault as error:
            # Whoever tells why a node failed names the node.
            error.where = _without(template.label, error.where)
            raise
        return Result(await bounded(lambda: shape_answer(outputs, answer, of=REQUEST)))

    return Waiting(execute)


REQUEST: Final = "the request"


def _without(label: str, where: str) -> str:
    """``ApiNode 'ask' (GET http://a)`` as ``GET http://a``."""
    if not where.startswith(label):
        return where
    return where.removeprefix(label).removeprefix(" (").removesuffix(")")
