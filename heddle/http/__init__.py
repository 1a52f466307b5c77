"""The calling side of HTTP/1.1 on trio: what model calls and the client of servers share.

    connection = Connection(SocketWire(stream), registry)
    await ask(connection, request)            bytes out, up to the head of the answer
    await connection.advance()                until .complete
    SseParser().feed(connection.take())       an event stream, cut into events

No URL, retry or time-out is known here: those are decisions of who calls.

    wires      bytes to and from the other side
    transport  connections that carry one exchange after the other, and pools
    asking     a request sent, up to the head of its answer
    dial       before there is one: what can go wrong, and TLS
    sse        event streams
    bursts     small sends of one turn of the loop, made together
"""

from heddle.http.asking import ask
from heddle.http.dial import ConnectFailed, reason_of, secure
from heddle.http.sse import SseEvent, SseParser
from heddle.http.transport import MAX_BODY, MAX_HEAD, BadHttp, Connection, Pool
from heddle.http.wires import ConnectionBroken, SocketWire, TlsWire, Wire

__all__ = [
    "MAX_BODY",
    "MAX_HEAD",
    "BadHttp",
    "ConnectFailed",
    "Connection",
    "ConnectionBroken",
    "Pool",
    "SocketWire",
    "SseEvent",
    "SseParser",
    "TlsWire",
    "Wire",
    "ask",
    "reason_of",
    "secure",
]
