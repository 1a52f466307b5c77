"""A client of heddle-server for Python programs on trio: HTTP, SSE and WebSocket.

    from heddle.client import connect

    async with connect("http://127.0.0.1:4319") as client:
        result = await client.run(flow, {"name": "Ada"})
        print(result.state)

`heddle.client.client` has the whole of it on one page. Nothing of the engine is loaded.

    address          where a server is
    exchange         requests to it: answers whole or as they come
    streams          the events of one run over SSE
    socket           one WebSocket: `socket_opening`, `socket_messages`, `socket_run`
    entries          what a program is told, as types
    faults           what can go wrong, one class each
"""

from heddle.client.client import Client, connect
from heddle.client.entries import (
    AnyEvent,
    Entry,
    Flow,
    Missed,
    Problem,
    RunInfo,
    RunResult,
    ServedFlow,
    UnknownEvent,
    Validation,
)
from heddle.client.faults import (
    AddressInvalid,
    ClientFault,
    ErrorBody,
    ProtocolBroken,
    Refused,
    RunCancelled,
    RunFailed,
    Unreachable,
)
from heddle.client.streams import RunStream

__all__ = [
    "AddressInvalid",
    "AnyEvent",
    "Client",
    "ClientFault",
    "Entry",
    "ErrorBody",
    "Flow",
    "Missed",
    "Problem",
    "ProtocolBroken",
    "Refused",
    "RunCancelled",
    "RunFailed",
    "RunInfo",
    "RunResult",
    "RunStream",
    "ServedFlow",
    "UnknownEvent",
    "Unreachable",
    "Validation",
    "connect",
]
