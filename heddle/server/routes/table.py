"""The routes as a table, and the way of each request through it.

    is it meant for us?  ->  which route?  ->  who are you?  ->  its handler

Whatever a handler raises is told here, so that every answer, refusals too, has the
headers that let a browser's page read it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, cast

from msgspec import Struct

from heddle.server.endings import forget_frames
from heddle.server.failures import failure_response
from heddle.server.http import (
    Answer,
    HeaderPairs,
    Refusal,
    Request,
    Response,
    StreamedResponse,
)
from heddle.server.names import Names
from heddle.server.routes import about, runs
from heddle.server.service import Service
from heddle.server.tokens import authorise
from plugins_host import Fault

Handle = Callable[[Service, Request, str], Awaitable[Answer]]


class Route(Struct, frozen=True):
    """One method on one path. ``{id}`` in a path is handed to the handler.

    ``open`` routes are answered to everybody.
    """

    method: str
    path: str
    handle: Handle
    open: bool = False


async def _stream(service: Service, request: Request, _: str) -> Answer:
    """``GET /v1/stream``: a socket for many runs."""
    from heddle.server.sockets.opening import open_socket

    return open_socket(service, request)


ROUTES: Final = (
    Route("GET", "/", about.index, open=True),
    Route("GET", "/healthz", about.healthy, open=True),
    Route("GET", "/readyz", about.ready, open=True),
    Route("GET", "/openapi.json", about.openapi, open=True),
    Route("GET", "/metrics", about.metrics),
    Route("GET", "/v1/capabilities", about.capabilities),
    Route("POST", "/v1/validate", runs.validate),
    Route("POST", "/v1/runs", runs.start_run),
    Route("GET", "/v1/runs", runs.list_runs),
    Route("GET", "/v1/runs/{id}", runs.show_run),
    Route("DELETE", "/v1/runs/{id}", runs.cancel_run),
    Route("GET", "/v1/runs/{id}/events", runs.follow_run),
    # Who they are may be said in the first message: a browser can't set headers here.
    Route("GET", "/v1/stream", _stream, open=True),
)

BY_PATH: Final[Mapping[str, Mapping[str, Route]]] = {
    path: {
        method: each
        for each in ROUTES
        if each.path == path
        # Every GET can be asked for its head alone.
        for method in (each.method, *(["HEAD"] if each.method == "GET" else []))
    }
    for path in dict.fromkeys(route.path for route in ROUTES)
}

_RUNS: Final = "/v1/runs/"
PREFLIGHT_SECONDS: Final = 600
ALLOWED_HEADERS: Final = "Authorization, Content-Type, Last-Event-ID, X-Request-ID"
SHOWN_HEADERS: Final = f"{runs.RUN_HEADER}, Location, Retry-After, X-Request-ID"


class Front:
    """The handler of all requests.

    Args:
        service: What handlers need.
        names: Those that requests must call the server by; None for any.
    """

    def __init__(self, service: Service, names: Names | None) -> None:
        self._service = service
        self._names = names
        self._origins = service.settings.cors_origins

    async def __call__(self, request: Request) -> Answer:
        """Answer one."""
        service = self._service
        try:
            admitted = request.head.admitted
            if admitted is None:
                admitted = request.head.admitted = self._admit(request)
            route, parameter = cast("_Admitted", admitted)
            row = None
            if service.peers is not None and parameter:
                row = service.peers.elsewhere(parameter)
            if row is None or service.peers is None:
                answer = await route.handle(service, request, parameter)
            else:
                answer = await service.peers.relay(row, request)
        except* Fault as group:
            answer = failure_response(_one(group), service.conceal)
        except* RecursionError as group:
            # What no check of ours bounded is the caller's nesting still.
            forget_frames(group)
            answer = failure_response(
                Refusal(400, "the request is nested too deep"), service.conceal
            )
        return self._with_headers(request, answer)

    def _admit(self, request: Request) -> "_Admitted":
        """Where a request goes, when it may: all that its head decides.

        Raises:
            Refusal: It may not, or goes nowhere.
        """
        if self._names is not None:
            self._names.check(request.headers.get("host"))
        routes, parameter = find(request.path)
        if request.method == "OPTIONS":
            # About the path, whoever would answer for what stands in it.
            return Route("OPTIONS", request.path, _options(routes)), ""
        route = routes.get(request.method)
        if route is None:
            raise _not_allowed(request.method, routes)
        if not route.open:
            authorise(self._service.settings.auth_token, request)
        return route, parameter

    def _with_headers(self, request: Request, answer: Answer) -> Answer:
        """The answer as a page of its origin may read it."""
        headers = request.headers
        more: HeaderPairs = ()
        if self._origins:
            more = (("Vary", "Origin"),)
            # Never an echo of what the client sent, which may be no header's value.
            origin = "*" if "*" in self._origins else headers.get("origin")
            if origin is not None and origin in self._origins:
                more += (
                    ("Access-Control-Allow-Origin", origin),
                    ("Access-Control-Expose-Headers", SHOWN_HEADERS),
                )
        # Who begins a run finds its line in the log by this; all others get back theirs.
        if request.path == "/v1/runs" or "x-request-id" in headers:
            more += (("X-Request-ID", request.id),)
        if not more:
            return answer
        if isinstance(answer, Response):
            return Response(
                answer.status, answer.headers, answer.body, answer.close, answer.own + more
            )
        if isinstance(answer, StreamedResponse):
            return StreamedResponse(
                answer.status,
                answer.headers,
                answer.write,
                answer.head_first,
                answer.own + more,
            )
        return answer


_Admitted: TypeAlias = tuple[Route, str]
"""Where a request goes, and what stands for the parameter of its path."""


def _options(routes: Mapping[str, Route]) -> Handle:
    """Tells what may be done here; a browser, on behalf of a page of which origin."""
    allow = ", ".join((*routes, "OPTIONS")) if routes else "OPTIONS"

    async def options(_: Service, request: Request, __: str) -> Answer:
        headers: HeaderPairs = (("Allow", allow),)
        if request.headers.get("access-control-request-method") is not None:
            headers = (
                ("Access-Control-Allow-Methods", allow),
                ("Access-Control-Allow-Headers", ALLOWED_HEADERS),
                ("Access-Control-Max-Age", str(PREFLIGHT_SECONDS)),
            )
        return Response(204, headers)

    return options


def find(path: str) -> tuple[Mapping[str, Route], str]:
    """The routes of a path by method, and what stands for its parameter.

    Raises:
        Refusal: 404; there is none.
    """
    routes = BY_PATH.get(path)
    if routes is not None and "{" not in path:
        return routes, ""
    if path.startswith(_RUNS):
        identity, slash, rest = path[len(_RUNS) :].partition("/")
        routes = BY_PATH.get(f"{_RUNS}{{id}}{slash}{rest}")
        if routes is not None and identity:
            return routes, identity
    if path == "*":
        return {}, ""
    raise Refusal(
        404, "there is nothing at this path", fix="GET /openapi.json says what is."
    )


def _not_allowed(method: str, routes: Mapping[str, Route]) -> Refusal:
    allow = ", ".join((*routes, "OPTIONS"))
    return Refusal(
        405,
        f"{method[:20]} is not answered here",
        fix=f"Use {allow}.",
        headers=(("Allow", allow),),
    )


def _one(group: BaseExceptionGroup[Fault]) -> Fault:
    """The fault in a group; several at once are told by the first."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Fault)
    return error
