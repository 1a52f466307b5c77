"""The model client: one a process, for any number of calls at once.

A call encodes its request, takes a connection to the endpoint's origin, and reads the
answer as it comes: whole, or as a stream whose pieces of text are handed on. It makes
one attempt. Whether there is another is decided above, where policies are asked.
"""

import os
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import Final, Self

import msgspec
import trio

from heddle.http import ConnectFailed, Connection, Pool
from heddle.models.call import Call, OnText, Route, Timeouts
from heddle.models.connect import Connector, Permit
from heddle.models.dialects import DIALECTS, request_head
from heddle.models.endpoint import Endpoint, HttpEndpoint, ScriptedEndpoint
from heddle.models.errors import RequestInvalid
from heddle.models.proxies import Proxies, Proxy, read_proxies
from heddle.models.scripted import play
from heddle.watch import Watch
from plugins_host import ModelRequest, ModelResponse

# Idle connections of one origin: with a thousand runs at once, each of which asks now and
# then, fewer would be opened anew all the time. More are a burst that is over.
_MAX_IDLE: Final = 1024
# Servers close idle connections after 5 seconds (uvicorn, Node), 60 or more (proxies).
# A connection that was closed is noticed before it is used, so this bounds only how long
# an unused one is kept open.
_IDLE_PATIENCE: Final = 30.0
# Endpoints whose request head is kept. A server sees one for each document and key.
_MAX_ROUTES: Final = 1024


class ModelClient:
    """Calls models. Use it as an async context manager, or `aclose` it.

    Args:
        timeouts: How long a call may wait.
        environ: Where the proxy variables are read from; the process's by default.
        max_calls: Calls that run at once; further ones wait their turn, first come first
            served. By default what the limit of open files has room for.
        permit: Where it may connect to; see `Connector`.
    """

    def __init__(
        self,
        *,
        timeouts: Timeouts | None = None,
        environ: Mapping[str, str] | None = None,
        max_calls: int | None = None,
        permit: Permit | None = None,
    ) -> None:
        self.timeouts = timeouts or Timeouts()
        self._environ = os.environ if environ is None else environ
        self._proxies: Proxies | None = None
        self._connector = Connector(permit)
        self._pools: dict[object, Pool] = {}
        self._routes: dict[HttpEndpoint, Route] = {}
        self.slots = trio.Semaphore(room_for_calls() if max_calls is None else max_calls)
        self._closed = False
        self.watch = Watch()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def open_connections(self) -> int:
        """Connections that are open now, in use or idle."""
        return len(self._connector.connections)

    async def aclose(self) -> None:
        """Close every connection. Calls that are still open fail."""
        self._closed = True
        for pool in self._pools.values():
            pool.retire()
        self._connector.close()
        self.watch.close()
        await trio.lowlevel.checkpoint()

    def chat(
        self,
        endpoint: Endpoint,
        request: ModelRequest,
        *,
        on_text: OnText | None = None,
    ) -> Awaitable[ModelResponse]:
        """Ask a model once.

        Args:
            endpoint: From `endpoint_for`.
            request: What is asked; `request_defaults` has what the LLM config decides.
            on_text: With it the answer is streamed, and each piece of its text is handed
                over as it arrives. It must not block; what it raises ends the call.

        Raises:
            ModelError: There is no answer; the subclass says why.
        """
        if isinstance(endpoint, ScriptedEndpoint):
            return play(endpoint.script, request, where=endpoint.label, on_text=on_text)
        dialect = DIALECTS[endpoint.api_type]
        if dialect.target is not None:
            target = dialect.target(endpoint.target, request.model, on_text is not None)
            endpoint = msgspec.structs.replace(endpoint, target=target)
        route = self._routes.get(endpoint) or self._route(endpoint)
        try:
            body = dialect.encode(request, on_text is not None, endpoint.limit_name)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise RequestInvalid(
                f"the request cannot be written as JSON: {error}", where=route.label
            ) from error
        message = b"%b%d\r\n\r\n%b" % (route.head, len(body), body)
        return Call(self, endpoint, route, message, on_text).answer(dialect)

    def _route(self, endpoint: HttpEndpoint) -> Route:
        """The way to ``endpoint``, found once."""
        if self._proxies is None:
            self._proxies = read_proxies(self._environ)
        proxy = self._proxies.proxy_for(endpoint.origin)
        if len(self._routes) >= _MAX_ROUTES:
            # Begin anew: rare, and cheaper than keeping them in order of use.
            for old in self._pools.values():
                old.retire()
            self._pools.clear()
            self._routes.clear()
        key = (endpoint.origin, endpoint.tls, proxy)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(most=_MAX_IDLE, patience=_IDLE_PATIENCE)
        label = endpoint.label
        if proxy is not None:
            label = f"{label} through the proxy {proxy.origin}"
        route = Route(request_head(endpoint, proxy), pool, proxy, label)
        self._routes[endpoint] = route
        return route

    async def connect(self, endpoint: HttpEndpoint, proxy: Proxy | None) -> Connection:
        """A new connection.

        Raises:
            ConnectFailed: There is none.
        """
        if self._closed:
            raise ConnectFailed("the client is closed")
        # A new connection is rare, and a good moment to let go of old ones elsewhere.
        oldest_allowed = trio.current_time() - _IDLE_PATIENCE
        for pool in self._pools.values():
            pool.expire(oldest_allowed)
        return await self._connector.open(endpoint, proxy)


def room_for_calls() -> int:
    """Calls at once, so that three quarters of the open files may be connections."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return 1024
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1_000_000
    return max(8, soft * 3 // 4)
