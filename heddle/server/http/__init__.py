"""HTTP/1.1 for any handler: requests in, answers out; knows nothing of flows.

    async def handler(request: Request) -> Answer:
        return Response(200, JSON, await request.read())

    server = Server(handler, bind("127.0.0.1", 4319))
    await server.run()

What is not exported here is nobody else's business.

    listen           sockets to listen on
    server           accepts, bounds how many there are, ends in an orderly way
    connection       one client's: requests in, answers out
    wire             bytes to and from it; `hangups`: it goes away; `deadlines`: it is slow
    head             the head of a request; `target`: what it is for; `fields`: its headers
    body             read when it is asked for; `chunks`: one in chunks
    messages         what a handler is given and answers
    answers          the bytes of an answer; `response_writer`: of a streamed one
    refusals         what is answered without a handler
    upgraded         a connection that speaks another protocol
    limits           what one client may cost
"""

from heddle.server.http.answers import HandlerMisuse
from heddle.server.http.connection import Report
from heddle.server.http.fields import Fields, Headers
from heddle.server.http.limits import Limits
from heddle.server.http.listen import (
    CannotListen,
    Listener,
    bind,
    bind_path,
    tls_context,
)
from heddle.server.http.messages import (
    JSON,
    Answer,
    Handler,
    HeaderPairs,
    Request,
    Response,
    StreamedResponse,
    Upgrade,
    Writer,
)
from heddle.server.http.refusals import ERROR_TYPES, Refusal, error_body
from heddle.server.http.server import Server
from heddle.server.http.upgraded import UpgradedStream
from heddle.server.http.wire import Gone

__all__ = [
    "ERROR_TYPES",
    "JSON",
    "Answer",
    "CannotListen",
    "Fields",
    "Gone",
    "Handler",
    "HandlerMisuse",
    "HeaderPairs",
    "Headers",
    "Limits",
    "Listener",
    "Refusal",
    "Report",
    "Request",
    "Response",
    "Server",
    "StreamedResponse",
    "Upgrade",
    "UpgradedStream",
    "Writer",
    "bind",
    "bind_path",
    "error_body",
    "tls_context",
]
