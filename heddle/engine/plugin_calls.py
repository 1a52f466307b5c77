"""Plugins at work for a node: their models, and what they may use of the run meanwhile.

    services = PluginServices(context, component, send, workspace)   reverse calls
    response = await answer(context, llm, request, on_text, send)    any LLM configuration

`send` is how a plugin's own model calls are made: as the calls of the node that it works
for, past the policies, or, for a policy, without asking any.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from heddle.attempts import RETRYABLE_STATUSES, AttemptFailed
from heddle.engine.faults import NodeFault, RunFailed
from heddle.engine.work import NodeContext
from heddle.events import PluginEmitted, PluginLogged
from heddle.spec import Component, PluginComponent
from plugins_host import ModelRequest, ModelResponse

MAX_TOOL_DEPTH: Final = 8
"""Tools inside one another: a tool that runs itself ends before its run does."""

if TYPE_CHECKING:
    import trio

    from plugins_host import PluginFailed, Served

LLM_CONFIG: Final = "llm_config"
"""The field under which a component has a model of its own."""


OnText = Callable[[str], None] | None
Send = Callable[[NodeContext, Component, ModelRequest], Awaitable[ModelResponse]]


class ProviderFailed(NodeFault, AttemptFailed):
    """A provider of a plugin gave no answer. ``status`` and the others as it told them."""


class PluginNotOpen(NodeFault):
    """The document was read with a plugin that this run does not have."""


def served(context: NodeContext, component: PluginComponent) -> "Served":
    """Who does the work of a component.

    Raises:
        PluginNotOpen: Nobody.
    """
    found = context.services.components.get(component.type_name)
    if found is None:
        raise PluginNotOpen(
            f"there is nobody to ask for {component.type_name!r}",
            fix=f"Load plugin {component.provided.plugin!r}, which provides it.",
        )
    return found


def shown_component(component: PluginComponent) -> msgspec.Raw:
    """A component as its plugin is shown it.

    Encoded when it is asked for: what many components refer to is in each of them.
    """
    return msgspec.Raw(msgspec.json.encode(component.written))


def answer(
    context: NodeContext,
    llm: Component,
    request: ModelRequest,
    on_text: OnText,
    send: Send,
) -> Awaitable[ModelResponse]:
    """One answer, of a model that heddle reaches itself or of a provider.

    Args:
        context: The execution on whose behalf it is.
        llm: The LLM configuration.
        request: What is sent.
        on_text: Takes the text as it comes.
        send: How calls of the provider's own model are made.

    Raises:
        Fault: There is no answer.
    """
    context.count_model_call()
    if not isinstance(llm, PluginComponent):
        return context.services.models.chat(llm, request, on_text=on_text)
    return _provided(context, llm, request, on_text, send)


async def _provided(
    context: NodeContext,
    llm: PluginComponent,
    request: ModelRequest,
    on_text: OnText,
    send: Send,
) -> ModelResponse:
    """The answer of a provider."""
    # Here, so that a document can be checked without loading what asks plugins.
    from plugins_host import PluginFailed, PluginFault, PluginGone, PluginOverdue, chat

    provider = served(context, llm)
    where = f"llm_config {llm.name!r}, plugin {provider.plugin!r}"
    services = PluginServices(context, llm, send)
    try:
        with services.working():
            return await chat(
                provider,
                shown_component(llm),
                request,
                stream=on_text is not None and llm.provided.stream,
                on_text=on_text,
                services=services,
            )
        raise AssertionError("what ends its work is raised")  # pragma: no cover
    except PluginOverdue as fault:
        what = f"the provider timed out: {fault.what}"
        raise ProviderFailed(what, where=where, fix=fault.fix, retryable=True) from fault
    except PluginFailed as fault:
        raise _told(fault, where) from fault
    except PluginFault as fault:
        again = isinstance(fault, PluginGone)
        said = fault.what if fault.where == f"plugin {provider.plugin!r}" else str(fault)
        raise ProviderFailed(said, where=where, retryable=again) from fault


def _told(fault: "PluginFailed", where: str) -> ProviderFailed:
    what = fault.message
    if fault.status is not None and str(fault.status) not in what:
        what = f"{fault.status}: {what}"
    passing = fault.status in RETRYABLE_STATUSES
    retryable = passing if fault.retryable is None else fault.retryable
    return ProviderFailed(
        f"the provider failed with {fault.name}: {what}",
        where=where,
        status=fault.status,
        retry_after_ms=fault.retry_after_ms,
        retryable=retryable,
    )


class RunServices:
    """What any plugin may use of the run that it works for: its tools and its events.

    Args:
        context: The execution that it works for.
        workspace: The node's own, for tools; None to give each its own.
    """

    __slots__ = ("_context", "_workspace")

    def __init__(self, context: NodeContext, workspace: Any = None) -> None:
        self._context = context
        self._workspace = workspace

    async def run_tool(self, name: str, given: dict[str, Any], /) -> object:
        """Run a tool of the run. It is no call of a model, so no seam is asked."""
        return await self._run_tool(name, given, 1)

    async def _run_tool(self, name: str, given: dict[str, Any], depth: int) -> object:
        context, tools = self._context, self._context.services.tools
        services = ToolServices(context, depth)
        if self._workspace is not None:
            return await tools.run(
                name,
                given,
                workspace=self._workspace,
                run_key=context.run,
                services=services,
            )
        async with tools.workspace() as workspace:
            return await tools.run(
                name, given, workspace=workspace, run_key=context.run, services=services
            )

    def emit_event(self, component_type: str, name: str, data: Any, /) -> None:
        """Publish an event of the run under the plugin's name for it."""
        context = self._context
        event = f"plugin:{component_type}:{name}"
        path = UNSET if context.path is None else context.path
        context.report(PluginEmitted(event, context.name, context.type, data, path))

    def log(self, _component_type: str, level: str, message: str, /) -> None:
        """Publish a log line of the run."""
        context = self._context
        context.report(
            PluginLogged(context.name, context.type, level, message, context.path)
        )


class ToolServices(RunServices):
    """What a tool that a plugin serves may use: other tools and events, and no model.

    Args:
        context: The execution that it works for.
        depth: How many tools it runs inside.
    """

    __slots__ = ("_depth",)

    def __init__(self, context: NodeContext, depth: int = 0) -> None:
        super().__init__(context)
        self._depth = depth

    async def run_tool(self, name: str, given: dict[str, Any], /) -> object:
        """Run another tool of the run, unless too many run inside one another."""
        if self._depth >= MAX_TOOL_DEPTH:
            raise NodeFault(
                f"{MAX_TOOL_DEPTH} tools run inside one another",
                fix="See that a tool does not run itself.",
            )
        return await self._run_tool(name, given, self._depth + 1)

    async def call_model(self, _: str, __: ModelRequest, /) -> ModelResponse:
        """Refused: a tool is no component, and so has no ``llm_config``."""
        raise NodeFault(
            "a tool has no 'llm_config' of its own",
            fix="Write a node, which a document can give one.",
        )


class PluginServices(RunServices):
    """What a component of the document may use of the run while it works for a node.

    Args:
        context: The execution that it works for.
        component: Whose ``llm_config`` its model calls are for.
        send: How they are made.
        workspace: The node's own, for tools; None to give each its own.
    """

    __slots__ = ("_component", "_ended", "_scope", "_send")

    def __init__(
        self,
        context: NodeContext,
        component: PluginComponent,
        send: Send,
        workspace: Any = None,
    ) -> None:
        super().__init__(context, workspace)
        self._component = component
        self._send = send
        self._ended: RunFailed | None = None
        self._scope: trio.CancelScope | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """While the component is at work. What ends the run ends its work at once.

        A plugin that caught the refusal of its model call could go on as if no policy
        had ended the run.

        Raises:
            RunFailed: A policy ended the run inside of it.
        """
        # Here, so that a document can be checked without loading trio.
        import trio

        with trio.CancelScope() as self._scope:
            try:
                yield
            except Exception:
                if self._ended is None:
                    raise
        if self._ended is not None:
            raise self._ended

    async def call_model(
        self, component_type: str, request: ModelRequest, /
    ) -> ModelResponse:
        """Ask the model of the component's own ``llm_config``."""
        context, component = self._context, self._component
        llm = component.fields.get(LLM_CONFIG)
        if not isinstance(llm, Component):
            raise NodeFault(
                f"{component.name!r} ({component_type}) has no 'llm_config' of its own",
                fix="Give the component one in the document.",
            )
        try:
            return await self._send(context, llm, whole_request(context, llm, request))
        except RunFailed as end:
            self._ended = self._ended or end
            if self._scope is not None:
                self._scope.cancel()
            raise


def model_name(llm: Component) -> str:
    """What the model of an LLM configuration is called; "" when it does not say."""
    if isinstance(llm, PluginComponent):
        name = llm.fields.get("model_id", "")
        return name if isinstance(name, str) else ""
    found: str = getattr(llm, "model_id", "")
    return found


def whole_request(
    context: NodeContext, llm: Component, request: ModelRequest
) -> ModelRequest:
    """A plugin's request with the model and, where it says nothing, its defaults."""
    defaults = {
        name: value
        for name, value in context.services.models.defaults(llm).items()
        if getattr(request, name) in (None, {})
    }
    return msgspec.structs.replace(request, model=model_name(llm), **defaults)
