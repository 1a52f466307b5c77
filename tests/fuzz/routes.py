"""Requests to the server's routes: what callers ask for, from first line to body."""

import json
import re
from typing import Any

import h11
import msgspec
import trio
from msgspec.structs import replace
from trio.testing import memory_stream_pair

from heddle.server.http import Server
from heddle.server.routes.table import Front
from heddle.server.serve import open_service
from tests.fuzz.sockets import LOADED, PATIENCE, RUN, Quiet
from tests.fuzz.target import Target

CHECKED = b"POST /v1/validate"
"""Where callers may bring code here: it is looked at, and nothing is run."""


async def ask(line: bytes, headers: list[bytes], body: bytes) -> bytes:
    """Ask once, and read the answer to its end."""
    code = line == CHECKED
    settings = replace(LOADED.settings, allow_request_code=code, allow_trace=True)
    quiet = Quiet()
    ours, theirs = memory_stream_pair()
    raw = b"\r\n".join(
        [
            line + b" HTTP/1.1",
            *(b"Host: localhost", b"Connection: close"),
            *(b"Content-Length: %d" % len(body), *headers),
            b"\r\n" + body,
        ]
    )
    answered = b""
    with trio.fail_after(PATIENCE):
        async with open_service(replace(LOADED, settings=settings), quiet) as service:
            server = Server(Front(service, None), report=quiet)
            async with trio.open_nursery() as nursery:
                await nursery.start(server.run)
                nursery.start_soon(server.serve_stream, theirs)
                await ours.send_all(raw)
                try:
                    while data := bytes(await ours.receive_some()):
                        answered += data
                except trio.BrokenResourceError:
                    pass
                await ours.aclose()
                # Runs that go on without their caller come to their end.
                await service.runs.wait_empty()
                nursery.cancel_scope.cancel()
    if quiet.crashes:
        raise quiet.crashes[0]
    return answered


def read(data: bytes) -> None:
    """Any request is answered, and what is refused says why in the one shape there is."""
    head, _, body = data.partition(b"\n\n")
    line, *headers = head.split(b"\n")
    method = re.match(rb"[A-Z]+ (?=/)", line)
    if method is None or not line.isascii() or any(b":" not in each for each in headers):
        return
    answered = trio.run(ask, line, headers, body)
    status, found, content = _parsed(answered, method[0].strip())
    if status >= 400 and method[0] != b"HEAD ":
        told = msgspec.json.decode(content)
        assert set(told) == {"error"} or {"valid", "error"} <= set(told), told
        assert set(told["error"]) == {"type", "message"}
    if b"application/json" in found.get(b"content-type", b"") and method[0] != b"HEAD ":
        msgspec.json.decode(content)


def _parsed(answered: bytes, method: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """The answer as h11 reads it, which is strict."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    parser.send(h11.EndOfMessage())
    parser.receive_data(answered)
    parser.receive_data(b"")
    body, got = b"", None
    while not isinstance(event := parser.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Response):
            got = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        else:
            assert isinstance(event, h11.InformationalResponse), event
    assert got is not None
    return got.status_code, dict(got.headers), body


def _post(path: str, body: Any, *headers: str) -> bytes:
    text = json.dumps(body, separators=(",", ":"))
    head = "\n".join([f"POST {path}", "Content-Type: application/json", *headers])
    return f"{head}\n\n{text}".encode()


ASKED = {"flow": RUN["flow"], "inputs": {"x": "y"}}
MANIFEST = {
    "name": "p",
    "version": "1.0.0",
    "components": [{"kind": "node", "componentType": "Shout", "schema": {}}],
}
CODE = {
    **ASKED,
    "tools": [{"name": "t", "source": "print(1)", "interpreter": "python3"}],
    "plugins": [{"name": "p", "manifest": MANIFEST, "source": "x", "language": "py"}],
}

ROUTES = Target(
    read,
    seeds=(
        _post("/v1/runs", ASKED),
        _post("/v1/runs?stream=true&trace=true", ASKED),
        _post("/v1/runs?detach=true", {**ASKED, "format": "json"}, "X-Request-ID: a"),
        # As the constant says, without a header behind it.
        CHECKED + b"\nContent-Type: application/json\n\n" + json.dumps(CODE).encode(),
        _post("/v1/validate", {"flow": "component_type: Flow\nname: f", "format": "yaml"}),
        b"GET /v1/runs?status=running&limit=3\n\n",
        b"GET /v1/runs/r/events?after=3\nLast-Event-ID: 7\n\n",
        b"DELETE /v1/runs/r\n\n",
        b"OPTIONS /v1/runs\nOrigin: http://x\nAccess-Control-Request-Method: POST\n\n",
        b"GET /metrics\nAccept: text/plain\n\n",
        b"GET /v1/stream\nUpgrade: websocket\nSec-WebSocket-Key: x\n\n",
        b"HEAD /openapi.json\n\n",
    ),
    words=(
        *(
            b"?stream=true",
            b"&detach=1",
            b"&protocol=x",
            b"&after=-1",
            b"?limit=99999999999",
        ),
        *(
            b'"flow":',
            b'"flowPath":"../x"',
            b'"inputs":',
            b'"tools":',
            b'"plugins":',
            b"null",
        ),
        *(
            b'"timeout":1',
            b'"format":"toml"',
            b"\\ud800",
            b"1e999",
            b"[[[[[[[[",
            b"%2e%2e/",
        ),
        *(b"Last-Event-ID: ", b"Authorization: Bearer ", b"Expect: 100-continue", b"\xff"),
    ),
    longest=3000,
)
