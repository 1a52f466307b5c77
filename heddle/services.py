"""What runs use of the outside, joined to the engine: one set a process, for all runs.

The engine states what it needs as protocols (`heddle.engine.work`); here the model
client and the tools are fitted to them. Nothing is loaded or opened before it is used,
for a flow without a model must not pay for one.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from heddle.spec import Component
from plugins_host import CallServices, ModelRequest, ModelResponse

if TYPE_CHECKING:
    from heddle.models import Endpoint, ModelClient
    from heddle.remote import RemoteService
    from heddle.tools import Mount, Tools

MAX_ENDPOINTS: Final = 1024
"""LLM configurations whose endpoint is kept; more are worked out again, in microseconds."""


class ModelService:
    """Model calls for LLM configurations, over one client that opens when first used.

    Args:
        environ: Where ``$NAME`` in a document is looked up, at the first call.
        permit: Where it may connect to, by name and address; None for everywhere. With
            it the proxies of the process are not used, for they would look names up again.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        permit: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._environ = environ
        self._permit = permit
        self._client: ModelClient | None = None
        # Keyed by identity: a plan's configurations live as long as the plan, and an
        # entry holds on to its configuration, so that an address can't be used twice.
        self._endpoints: OrderedDict[int, tuple[Component, Endpoint]] = OrderedDict()

    def defaults(self, llm: Component) -> Mapping[str, Any]:
        """The generation parameters that the configuration sets."""
        from heddle.models import request_defaults

        return request_defaults(llm)

    def chat(
        self,
        llm: Component,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None] | None,
    ) -> Awaitable[ModelResponse]:
        """One answer; raises a `ModelError` that says what the provider said."""
        if self._client is None:
            from heddle.models import ModelClient

            self._client = ModelClient(
                permit=self._permit, environ=None if self._permit is None else {}
            )
        return self._client.chat(self._endpoint(llm), request, on_text=on_text)

    def _endpoint(self, llm: Component) -> "Endpoint":
        kept = self._endpoints.get(id(llm))
        if kept is not None:
            return kept[1]
        from heddle.models import endpoint_for

        endpoint = endpoint_for(llm, self._environ)
        self._endpoints[id(llm)] = (llm, endpoint)
        if len(self._endpoints) > MAX_ENDPOINTS:
            self._endpoints.popitem(last=False)
        return endpoint

    async def aclose(self) -> None:
        """Close the connections that are kept alive."""
        if self._client is not None:
            await self._client.aclose()


class ToolService:
    """Tools as the engine asks for them.

    Args:
        tools: By name; None for none.
        within: The folder that workspaces are made in; None for the system's temporary one.
        mounts: Files that workspaces have in them.
    """

    def __init__(
        self,
        tools: "Tools | None",
        *,
        within: str | None = None,
        mounts: "Sequence[Mount]" = (),
    ) -> None:
        self._tools = tools
        self._within = within
        self._mounts = mounts

    def workspace(self) -> AbstractAsyncContextManager[Any]:
        """A fresh folder for one execution of a node."""
        from heddle.tools import open_workspace

        return open_workspace(self._within, self._mounts)

    async def folder(self, workspace: Any, /) -> str:
        """The path of a workspace, which is there from now on."""
        import trio

        path: str = await trio.to_thread.run_sync(workspace.folder)
        return path

    async def run(
        self,
        name: str,
        arguments: Mapping[str, Any],
        /,
        *,
        workspace: Any,
        run_key: object,
        services: CallServices | None = None,
    ) -> Mapping[str, Any]:
        """The tool's output; raises a `ToolFault` that says why not."""
        from heddle.tools import Tools

        tools = Tools() if self._tools is None else self._tools
        return await tools.run(
            name, arguments, workspace=workspace, run_key=run_key, services=services
        )


@asynccontextmanager
async def open_remote(
    environ: Mapping[str, str], patience: float
) -> AsyncIterator["RemoteService"]:
    """Requests of any number of runs; connections are closed on leaving.

    ``patience`` is how long, in seconds, a request may take that names no time of its own.
    """
    from heddle.remote import RemoteService

    remote = RemoteService(environ, patience=patience)
    try:
        yield remote
    finally:
        await remote.aclose()


@asynccontextmanager
async def open_models(environ: Mapping[str, str]) -> AsyncIterator[ModelService]:
    """Model calls for any number of runs; connections are closed on leaving."""
    models = ModelService(environ)
    try:
        yield models
    finally:
        await models.aclose()
