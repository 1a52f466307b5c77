"""The routes about runs: start, validate, list, look at, follow and cancel them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from heddle.launch import ToolsMissing
from heddle.server.endings import Completed, Status, Stop
from heddle.server.failures import failure_response, status_of, told, unknown_run
from heddle.server.following.log import LIMITS, Batch
from heddle.server.following.reader import Item, Lagged, Reader
from heddle.server.following.sse import HEADERS, EventStream
from heddle.server.http import (
    JSON,
    Answer,
    Refusal,
    Request,
    Response,
    StreamedResponse,
    Writer,
)
from heddle.server.runs.handle import CancelOutcome, RunHandle, RunSummary
from heddle.server.service import Service
from heddle.spec import DocumentError, Problem
from plugins_host import Fault, one_of

if TYPE_CHECKING:
    from plugins_host import Encoder

RUN_HEADER: Final = "Heddle-Run"
"""Names the run in a streamed answer, whose body has no place for it."""

_SWITCHES: Final[Mapping[str, bool]] = {
    "true": True,
    "1": True,
    "": True,
    "false": False,
    "0": False,
}
_JSON_TYPE: Final = "application/json"
_encode: Final = msgspec.json.Encoder().encode
_decode_runs: Final = msgspec.json.Decoder(dict[str, list[RunSummary]]).decode


async def start_run(service: Service, request: Request, _: str) -> Answer:
    """``POST /v1/runs``: to its end, as a stream, or on its own."""
    streamed = detached = trace = False
    protocol = None
    if len(request.query):
        streamed = switch(request, "stream")
        detached = switch(request, "detach")
        trace = switch(request, "trace")
        protocol = request.query.get("protocol")
    if trace:
        service.check_trace()
    encoder = None if protocol is None else _encoder(service, protocol)
    if encoder is not None:
        if not streamed:
            raise Refusal(
                400, "a protocol is for a stream", fix="Ask with stream=true as well."
            )
        await encoder.plugin.start()
    if not request.head.is_json:
        check_kind(request)
    body = request.body.read_at_once()
    if body is None:
        body = await request.read()
    asked = service.read_familiar(body) or await service.read(body)
    if not (streamed or detached):
        run = await service.carry_out(
            asked, request=request.id, trace=trace, scope=request.scope
        )
        return _ended(service, run)
    run = await service.start(
        asked, stream=True, detached=detached, request=request.id, trace=trace
    )
    if streamed:
        return await _stream(service, run, encoder)
    headers = (*JSON, ("Location", f"/v1/runs/{run.id}"))
    return Response(202, headers, b'{"run":"%b"}' % run.id.encode())


def _ended(service: Service, run: RunHandle) -> Response:
    """What a run came to, as an answer."""
    ending = run.ending
    if isinstance(ending, Completed):
        return Response(
            200,
            JSON,
            b'{"flow":%b,"state":%b,"run":"%b"}'
            % (_encode(run.flow), ending.state, run.id.encode()),
        )
    assert run.error is not None
    return failure_response(run.error, service.conceal)


def _encoder(service: Service, protocol: str) -> "Encoder | None":
    """What renders events in this protocol; None for heddle's own."""
    if protocol not in service.installed.protocols:
        raise Refusal(
            400,
            f"there is no protocol {protocol[:80]!r}",
            fix=one_of(protocol, service.installed.protocols),
        )
    return service.engines.encoder(protocol)


async def _stream(
    service: Service, run: RunHandle, encoder: "Encoder | None" = None
) -> Answer:
    """A run's events as they come; its failure before any is an answer of its own."""
    # An encoder may be behind by all that is kept, and misses nothing of it.
    reader = Reader(run.log) if encoder is None else Reader(run.log, lag=LIMITS)
    begun = False
    try:
        item = await reader.next()
        if not isinstance(item, (Batch, Lagged)):
            await run.wait_ended()
            return _ended(service, run)
        begun = True
    finally:
        if not begun:
            reader.close()
            if not run.detached:
                run.cancel(Stop.CALLER_LEFT)
    if encoder is not None:
        return _encoded(service, run, encoder, reader, item)
    stream = EventStream(reader, service.pulse, item)

    async def write(writer: Writer) -> None:
        try:
            await stream.write(writer)
        finally:
            if not run.detached:
                run.cancel(Stop.CALLER_LEFT)

    return StreamedResponse(
        200, HEADERS, write, head_first=False, own=((RUN_HEADER, run.id),)
    )


def _encoded(
    service: Service, run: RunHandle, encoder: "Encoder", reader: Reader, item: Item
) -> Answer:
    """The same as an encoder renders it. When that fails the run goes on by itself."""
    from heddle.server.following.encoded import EncodedStream, headers_of

    stream = EncodedStream(
        encoder,
        reader,
        conceal=service.conceal,
        item=item,
        left=lambda: None if run.detached else run.cancel(Stop.CALLER_LEFT),
    )
    headers = (*headers_of(encoder), (RUN_HEADER, run.id))
    return StreamedResponse(200, headers, stream.write, head_first=False)


async def validate(service: Service, request: Request, _: str) -> Answer:
    """``POST /v1/validate``: everything that is wrong with a flow. Runs nothing."""
    body = await body_of(request)
    try:
        asked = await service.read(body)
        service.engines.check(asked)
    except DocumentError as error:
        return _invalid(service, error, _problems(service, error.problems))
    except ToolsMissing as error:
        found = [
            {"path": f"node {node!r}", "what": service.conceal(str(fault)), "fix": ""}
            for node, fault in error.faults
        ]
        return _invalid(service, error, found)
    except Fault as error:
        if status_of(error) != 400:
            raise
        return _invalid(service, error, [])
    prepared = asked.prepared
    warnings = _problems(service, prepared.warnings)
    if asked.brought is not None:
        warnings += [
            {"path": "plugins", "what": service.conceal(each), "fix": ""}
            for each in asked.brought.plugins.warnings
        ]
    return Response(
        200,
        JSON,
        _encode(
            {
                "valid": True,
                "flow": prepared.plan.graph.name,
                "warnings": warnings,
            }
        ),
    )


def _problems(service: Service, problems: tuple[Problem, ...]) -> list[dict[str, str]]:
    return [
        {
            "path": each.path,
            "what": service.conceal(each.what),
            "fix": each.fix,
            **({"file": service.conceal(each.file)} if each.file else {}),
        }
        for each in problems
    ]


def _invalid(service: Service, error: Fault, problems: list[dict[str, str]]) -> Response:
    body = {"valid": False, "error": told(error, service.conceal), "problems": problems}
    return Response(400, JSON, _encode(body))


async def list_runs(service: Service, request: Request, _: str) -> Answer:
    """``GET /v1/runs``: those in memory, the newest first."""
    found = own_runs(service, request)
    if service.peers is None:
        return Response(200, JSON, _encode({"runs": found}))
    heard = await service.peers.ask_all("GET", "/v1/runs", request.query)
    shown: dict[str, Any] = {"runs": merged(found, heard.bodies)[: count(request, "limit")]}
    if heard.silent:
        shown["unansweredWorkers"] = heard.silent
    return Response(200, JSON, _encode(shown))


def merged(own: list[RunSummary], others: Sequence[bytes]) -> list[RunSummary]:
    """The runs of all workers: those going on, the newest first, then those that ended."""
    found = [*own]
    for body in others:
        found += _decode_runs(body)["runs"]
    found.sort(key=lambda run: (run.status is not Status.RUNNING, -run.started_at))
    return found


def own_runs(service: Service, request: Request) -> list[RunSummary]:
    """Those of this process, of which a request wants how many and which."""
    wanted = request.query.get("status")
    if wanted is not None and wanted not in set(Status):
        raise Refusal(
            400, f"there is no status {wanted[:80]!r}", fix=one_of(wanted, list(Status))
        )
    most = count(request, "limit")
    found: list[RunSummary] = []
    for run in service.runs:
        if wanted is not None and run.status != wanted:
            continue
        if most is not None and len(found) >= most:
            break
        found.append(run.summary())
    return found


async def show_run(service: Service, _: Request, identity: str) -> Answer:
    """``GET /v1/runs/{id}``: how it stands, with its result when it has one."""
    run = _known(service, identity)
    shown = msgspec.to_builtins(run.summary())
    ending = run.ending
    if isinstance(ending, Completed):
        shown["state"] = ending.state
    elif ending is not None:
        shown["error"] = ending.error
    return Response(200, JSON, _encode(shown))


async def follow_run(service: Service, request: Request, identity: str) -> Answer:
    """``GET /v1/runs/{id}/events``: a run's events, whoever started it."""
    run = _known(service, identity)
    last = request.headers.get("last-event-id")
    if last is None:
        start = count(request, "from") or 1
    elif last.isascii() and last.isdigit() and len(last) < 20:
        start = int(last) + 1
    else:
        raise Refusal(400, "Last-Event-ID is no number of an event")

    async def write(writer: Writer) -> None:
        # Made here and not before: an answer to HEAD writes nothing and closes nothing.
        await EventStream(Reader(run.log, start), service.pulse).write(writer)

    return StreamedResponse(200, (*HEADERS, (RUN_HEADER, run.id)), write)


async def cancel_run(service: Service, _: Request, identity: str) -> Answer:
    """``DELETE /v1/runs/{id}``: ask a run to end."""
    match service.runs.cancel(identity):
        case CancelOutcome.CANCELLED:
            return Response(202, JSON, b'{"run":%b}' % _encode(identity))
        case CancelOutcome.FINISHED:
            raise Refusal(409, "this run has ended already")
        case CancelOutcome.UNKNOWN:
            raise unknown_run()


def _known(service: Service, identity: str) -> RunHandle:
    run = service.runs.get(identity)
    if run is None:
        raise unknown_run()
    return run


async def body_of(request: Request) -> bytes:
    """The JSON body of a request.

    Raises:
        Refusal: It is announced as something else (415), or cannot be read.
    """
    check_kind(request)
    return await request.read()


def check_kind(request: Request) -> None:
    """See that the body of a request is announced as JSON.

    Raises:
        Refusal: As something else (415).
    """
    kind = request.headers.get("content-type") or ""
    if kind != _JSON_TYPE and kind.partition(";")[0].strip().lower() != _JSON_TYPE:
        given = f"{kind[:80]!r}" if kind else "none"
        # Also what keeps a page of another origin from posting without being asked for.
        raise Refusal(
            415,
            f"the content type is {given}",
            fix="Send JSON as 'Content-Type: application/json'.",
        )
    if request.headers.get("content-encoding") not in (None, "identity"):
        raise Refusal(415, "the body is compressed", fix="Send it as it is.")
    request.head.is_json = True


def switch(request: Request, name: str) -> bool:
    """Whether a parameter of the query is on."""
    value = request.query.get(name)
    if value is None:
        return False
    if value.lower() not in _SWITCHES:
        raise Refusal(
            400,
            f"{name}={value[:80]!r} is neither true nor false",
            fix="Write true or false.",
        )
    return _SWITCHES[value.lower()]


def count(request: Request, name: str) -> int | None:
    """A parameter that is a whole number from 1."""
    value = request.query.get(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value)):
        raise Refusal(400, f"{name}={value[:80]!r} is no whole number from 1")
    return int(value)
