"""The client: one server, any number of requests, streams and sockets at once.

    async with connect("http://127.0.0.1:4319", token=token) as client:
        result = await client.run(flow, {"name": "Ada"})

        async with client.stream(flow, inputs) as stream:       its end ends the run
            async for entry in stream:
                match entry.event:
                    case TokenDelta(delta=delta):
                        print(delta, end="")

        run = await client.start(flow, inputs, detach=True)     goes on alone
        async for entry in client.follow(run, after=0):         survives cut connections
            ...

Time limits are the caller's: ``with trio.fail_after(30): await client.run(…)``. A cancelled
`run` or `stream` hangs up, and the server ends the run.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from heddle.client.address import read_address
from heddle.client.entries import Flow, RunInfo, RunResult, Validation, request_body
from heddle.client.exchange import Exchange
from heddle.client.faults import AddressInvalid, ProtocolBroken, Refused
from heddle.client.streams import Begin, RunStream

if TYPE_CHECKING:
    from heddle.client.socket import RunSocket

T = TypeVar("T")
Code: TypeAlias = Sequence[Mapping[str, Any]]

DETACHED: Final = "&detach=true"
TRACED: Final = "&trace=true"

_encode: Final = msgspec.json.Encoder().encode


class _Runs(Struct, frozen=True):
    runs: list[RunInfo]


class _Started(Struct, frozen=True):
    run: str


_result: Final = msgspec.json.Decoder(RunResult)
_started: Final = msgspec.json.Decoder(_Started)
_runs: Final = msgspec.json.Decoder(_Runs)
_info: Final = msgspec.json.Decoder(RunInfo)
_validation: Final = msgspec.json.Decoder(Validation)
_object: Final = msgspec.json.Decoder(dict[str, Any])


@asynccontextmanager
async def connect(
    url: str, *, token: str | None = None, ca_file: str | None = None
) -> AsyncIterator["Client"]:
    """A client of one server, until the block is left. Connects with the first request.

    Args:
        url: ``http://host:port``, ``https://host``, or ``unix:/path/of/socket``.
        token: What the server asks for (``--auth-token``).
        ca_file: The authority of the server's certificate, when no system knows it.

    Raises:
        AddressInvalid: ``url`` or ``token`` can't be used.
    """
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        raise AddressInvalid(
            "the token has characters that no header can carry",
            fix="Pass the very token that the server was started with.",
        )
    client = Client(Exchange(read_address(url), token=token, ca_file=ca_file))
    try:
        yield client
    finally:
        client.close()


class Client:
    """Asks one heddle-server; made by `connect`.

    Every method raises `Unreachable` when there is no connection or it breaks, `Refused`
    when the server says no, and `ProtocolBroken` when something else answers.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def close(self) -> None:
        """Close every connection; `connect` does it."""
        self._exchange.close()

    @property
    def open_connections(self) -> int:
        """Connections that are open now, sockets not counted."""
        return self._exchange.open_connections

    async def run(
        self,
        flow: Flow,
        inputs: Mapping[str, Any] | None = None,
        *,
        tools: Code = (),
        plugins: Code = (),
    ) -> RunResult:
        """Run a flow to its end. Cancelled, it ends the run.

        Args:
            flow: A document, its text, or a `ServedFlow`.
            inputs: The starting state.
            tools: Programs that this run brings, where the server takes code.
            plugins: The same for plugins.

        Raises:
            RunFailed: It began and did not complete.
            Refused: It did not begin; a 429 says in ``retry_after`` when to come again.
        """
        body = _encode(request_body(flow, inputs, tuple(tools), tuple(plugins)))
        answer = await self._exchange.ask("POST", "/v1/runs", body, runs=True)
        return self._read(_result, answer.body)

    def stream(
        self,
        flow: Flow,
        inputs: Mapping[str, Any] | None = None,
        *,
        detach: bool = False,
        refill: bool = True,
        trace: bool = False,
        tools: Code = (),
        plugins: Code = (),
    ) -> RunStream:
        """Run a flow and read its events as they come.

        Nothing happens before the stream is entered or iterated over.

        Args:
            flow: A document, its text, or a `ServedFlow`.
            inputs: The starting state.
            detach: The run goes on without this stream, which comes again when its
                connection is cut. Without it, hanging up ends the run.
            refill: Fetch what was missed when this reader fell behind.
            trace: Tell of model calls, agents and flows inside, where the server allows it.
            tools: Programs that this run brings, where the server takes code.
            plugins: The same for plugins.
        """
        body = _encode(request_body(flow, inputs, tuple(tools), tuple(plugins)))
        path = f"/v1/runs?stream=true{DETACHED * detach}{TRACED * trace}"
        return RunStream(
            self._exchange, begin=Begin(path, body), resumes=detach, refill=refill
        )

    async def start(
        self,
        flow: Flow,
        inputs: Mapping[str, Any] | None = None,
        *,
        detach: Literal[True],
        trace: bool = False,
        tools: Code = (),
        plugins: Code = (),
    ) -> str:
        """Start a run that goes on by itself; its id, for `follow`, `get` and `cancel`.

        ``detach=True`` is written out because it means that nobody but you ends it.
        """
        assert detach, "a run that ends with its connection is streamed"
        body = _encode(request_body(flow, inputs, tuple(tools), tuple(plugins)))
        answer = await self._exchange.ask(
            "POST", f"/v1/runs?detach=true{TRACED * trace}", body
        )
        return self._read(_started, answer.body).run

    def follow(self, run: str, *, after: int = 0, refill: bool = True) -> RunStream:
        """Read the events of any run, whoever started it.

        Comes again by itself when its connection is cut, for a minute without progress.

        Args:
            run: Its id.
            after: The number of the last entry that is known already.
            refill: Fetch what was missed when this reader fell behind.
        """
        return RunStream(
            self._exchange, run=quote(run, safe=""), after=after, refill=refill
        )

    async def runs(
        self, *, status: str | None = None, limit: int | None = None
    ) -> list[RunInfo]:
        """The runs in the server's memory, the newest first.

        Args:
            status: Only those that are ``running``, ``completed``, ``failed`` or
                ``cancelled``.
            limit: So many at most.
        """
        query = "&".join(
            f"{name}={quote(str(value), safe='')}"
            for name, value in (("status", status), ("limit", limit))
            if value is not None
        )
        answer = await self._exchange.ask(
            "GET", f"/v1/runs?{query}" if query else "/v1/runs"
        )
        return self._read(_runs, answer.body).runs

    async def get(self, run: str) -> RunInfo:
        """One run: how it stands, and with its end its ``state`` or ``error``.

        Raises:
            Refused: 404, there is no such run, or not any more.
        """
        answer = await self._exchange.ask("GET", f"/v1/runs/{quote(run, safe='')}")
        return self._read(_info, answer.body)

    async def cancel(self, run: str) -> None:
        """Ask a run to end.

        Raises:
            Refused: 404, there is none; 409, it has ended already.
        """
        await self._exchange.ask("DELETE", f"/v1/runs/{quote(run, safe='')}")

    async def validate(self, flow: Flow) -> Validation:
        """Everything that is wrong with a flow, as an answer. Runs nothing."""
        body = _encode(request_body(flow, None, (), ()))
        try:
            answer = (await self._exchange.ask("POST", "/v1/validate", body)).body
        except Refused as refused:
            if refused.status != 400 or refused.answer is None:
                raise
            answer = refused.answer
        return self._read(_validation, answer)

    async def capabilities(self) -> dict[str, Any]:
        """What may be asked of this server, as it says it."""
        answer = await self._exchange.ask("GET", "/v1/capabilities")
        return self._read(_object, answer.body)

    def socket(self, *, refill: bool = True) -> "AbstractAsyncContextManager[RunSocket]":
        """One WebSocket that carries many runs; see `RunSocket`.

        Args:
            refill: Ask by itself for what was missed when a reader fell behind.
        """
        from heddle.client.socket_opening import open_socket

        return open_socket(self._exchange, refill=refill)

    def _read(self, decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
        try:
            return decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolBroken(
                f"the answer can't be read: {error}",
                where=self._exchange.address.shown,
                fix="Check that the address is that of a heddle-server.",
            ) from error
