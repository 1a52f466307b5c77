"""How a tool is used, by its type: one place, for ToolNodes and for agents.

`tool_user` is asked when a document is compiled, so that what is read of a tool is read
once; the function that it gives is called for each use.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

from heddle.engine.faults import NodeFault
from heddle.engine.http_answer import shape_answer
from heddle.engine.plugin_calls import ToolServices
from heddle.engine.requests.request import HttpAnswer, RequestTemplate
from heddle.engine.retries import Retries, failure_of
from heddle.engine.signatures import Properties, first_declared
from heddle.engine.tool_servers import (
    ToolAnswer,
    ToolServerFault,
    ToolServers,
    shape_tool_answer,
)
from heddle.engine.work import NodeContext, Remote
from heddle.spec import Component, MCPTool, RemoteTool, RetryPolicy, ServerTool

T = TypeVar("T")

UseTool: TypeAlias = Callable[
    [Mapping[str, Any], NodeContext, Any], Awaitable[Mapping[str, Any]]
]
"""Uses a tool: its arguments, for whom, in which workspace; gives its output, or raises the
`Fault` with which it failed."""


class NothingRemote(NodeFault):
    """A run was started without the means to reach anything beyond models."""


def tool_user(tool: Component, outputs: Properties = ()) -> UseTool:
    """How this tool is used; ``outputs`` are those of a node that declares its own."""
    return USERS[type(tool)](tool, outputs)


def _server_tool(tool: Component, outputs: Properties) -> UseTool:
    name = tool.name

    async def use(
        arguments: Mapping[str, Any], context: NodeContext, workspace: Any
    ) -> Mapping[str, Any]:
        return await context.services.tools.run(
            name,
            arguments,
            workspace=workspace,
            run_key=context.run,
            services=ToolServices(context),
        )

    return use


def _remote_tool(tool: Component, outputs: Properties) -> UseTool:
    component = cast("RemoteTool", tool)
    template = RequestTemplate(component)
    declared = first_declared(outputs, component.outputs)

    async def use(
        arguments: Mapping[str, Any], context: NodeContext, workspace: Any
    ) -> Mapping[str, Any]:
        from heddle.long_work import bounded

        answer = await send(template, arguments, context)
        of = template.label
        return await bounded(lambda: shape_answer(declared, answer, of=of))

    return use


def _mcp_tool(tool: Component, outputs: Properties) -> UseTool:
    component = cast("MCPTool", tool)
    declared = first_declared(outputs, component.outputs)
    of = f"MCPTool {component.name!r}"

    async def use(
        arguments: Mapping[str, Any], context: NodeContext, workspace: Any
    ) -> Mapping[str, Any]:
        there = servers(context)

        async def call() -> ToolAnswer:
            transport = component.client_transport
            return await there.call(transport, component.name, arguments, where=of)

        answer = await tried_again(call, component.retry_policy, context)
        return shape_tool_answer(declared, answer, of=of)

    return use


async def tried_again(
    use: Callable[[], Awaitable[T]], policy: RetryPolicy | None, context: NodeContext
) -> T:
    """Use a tool server, and again after any failure, as a document's policy says.

    Raises:
        ToolServerFault: How it failed the last time.
    """
    retries = Retries(policy, whatever=True)
    while True:
        try:
            return await use()
        except ToolServerFault as fault:
            delay = retries.after(failure_of(fault))
            if delay is None:
                raise
            context.warn(retries.announced(f"node {context.name!r}: {fault}", delay))
        # Here, so that a document can be checked without loading trio.
        import trio

        await trio.sleep(delay)


def servers(context: NodeContext) -> ToolServers:
    """The run's sessions with tool servers.

    Raises:
        NothingRemote: It has none.
    """
    found = context.run.servers
    if found is None:
        raise NothingRemote("this run can't use tool servers")
    return found


async def send(
    template: RequestTemplate, given: Mapping[str, Any], context: NodeContext
) -> HttpAnswer:
    """Fill a request in and send it."""
    from heddle.long_work import bounded

    request = await bounded(lambda: template.render(given))
    return await remote(context).send(
        request,
        template.component.retry_policy,
        where=template.label,
        warn=context.warn,
    )


def remote(context: NodeContext) -> Remote:
    """What the run has for reaching services.

    Raises:
        NothingRemote: It has none.
    """
    found = context.services.remote
    if found is None:
        raise NothingRemote("this run can't reach services")
    return found


USERS: Final[Mapping[type[Component], Callable[[Component, Properties], UseTool]]] = {
    ServerTool: _server_tool,
    RemoteTool: _remote_tool,
    MCPTool: _mcp_tool,
}
"""The types of tools that are used; a document with any other is refused."""
