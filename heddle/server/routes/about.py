"""The routes about the server itself: what it can, whether it lives, what it counts."""

from typing import Final

import msgspec

from heddle import __version__
from heddle.events import EVENT_CONTRACT
from heddle.server.http import JSON, Answer, Request, Response
from heddle.server.service import Service
from heddle.server.status.page import page, wants_page
from heddle.server.submitted.code.reading import interpreters

_encode: Final = msgspec.json.Encoder().encode
METRICS: Final = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)
SCRAPE_PATIENCE: Final = 2.0
"""Seconds for other workers; Prometheus itself waits for 10."""

_OK: Final = Response(200, JSON, b'{"status":"ok"}')
_DRAINING: Final = Response(503, JSON, b'{"status":"draining"}')


async def index(service: Service, request: Request, _: str) -> Answer:
    """``GET /``: that this is heddle, and where to look further; to a browser, a page."""
    if wants_page(request):
        return page()
    shown = {
        "name": "heddle",
        "version": __version__,
        "status": "draining" if service.draining.is_set() else "ok",
        "openapi": "/openapi.json",
    }
    return Response(200, (*JSON, ("Vary", "Accept")), _encode(shown))


async def healthy(_: Service, __: Request, ___: str) -> Answer:
    """``GET /healthz``: the process answers, draining too."""
    return _OK


async def ready(service: Service, _: Request, __: str) -> Answer:
    """``GET /readyz``: whether new runs are taken."""
    return _DRAINING if service.draining.is_set() else _OK


async def capabilities(service: Service, _: Request, __: str) -> Answer:
    """``GET /v1/capabilities``: what callers may ask of this server."""
    runs = service.runs
    settings = service.settings
    shown = {
        "version": __version__,
        "allowRequestCode": settings.allow_request_code,
        "allowTrace": settings.allow_trace,
        "interpreters": interpreters() if settings.allow_request_code else [],
        "acceptsFlowPath": settings.flows_root is not None,
        "protocols": service.installed.protocols,
        "formats": service.installed.formats.names,
        "middleware": service.installed.middleware,
        "components": service.installed.offered,
        "eventContract": EVENT_CONTRACT,
        "runsInFlight": service.active,
        "runSaturation": service.active / runs.max_concurrent,
        **service.facts,
        "tools": service.engines.tool_names(),
    }
    return Response(200, JSON, _encode(shown))


async def metrics(service: Service, _: Request, __: str) -> Answer:
    """``GET /metrics``: in Prometheus' text format."""
    from heddle.server.metrics import exposition
    from heddle.server.numbers import decode, numbers_of, publish

    peers = service.peers
    if peers is None:
        return Response(200, METRICS, exposition(service, {None: numbers_of(service)}))
    # One that is stuck must not make the scrape fail, for others then went unseen.
    heard = await peers.ask_all("GET", "/-/numbers", patience=SCRAPE_PATIENCE)
    publish(service)
    answered = {peers.row, *(msgspec.json.decode(each, type=int) for each in heard.bodies)}
    shown = {row: decode(each) for row, each in peers.ledger.read().items()}
    return Response(200, METRICS, exposition(service, shown, answered))


async def openapi(_: Service, __: Request, ___: str) -> Answer:
    """``GET /openapi.json``: all of this, for programs."""
    from heddle.server.routes.openapi import document

    return Response(200, JSON, document())
