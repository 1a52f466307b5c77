"""The transports of the MCP SDK: processes, and HTTP over heddle's own connections.

Imports the SDK: only `heddle.remote.servers` imports this, when a server is used.
"""

import logging
import math
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import httpx2
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from heddle.engine.retries import Failure, Retries
from heddle.http import BadHttp, ConnectFailed, Connection, ConnectionBroken, Pool
from heddle.models.complaints import error_codes, retry_after_ms
from heddle.models.endpoint import TlsFiles, origin_of
from heddle.spec import (
    Component,
    RemoteTransport,
    SSEmTLSTransport,
    SSETransport,
    StdioTransport,
    StreamableHTTPmTLSTransport,
)
from heddle.tools.group import ProcessGroup
from plugins_host.processes.guard import Guard

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from heddle.remote.client import RemoteClient


MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message of a process: as much as of an answer over HTTP."""

_MAX_LINE: Final = 2000
# Seconds that a server has to go, once its input is closed and once more when it is told.
# A run that is cancelled waits for it.
_TO_GO: Final = 0.4
# And until what was killed is gone, which takes the kernel a moment.
_TO_DIE: Final = 2.0
_LOOK: Final = 0.005
_LOG: Final = logging.getLogger("heddle.mcp")


def open_transport(transport: Component, client: "RemoteClient") -> Any:
    """The SDK's transport for this one; a context that gives two streams."""
    if isinstance(transport, StdioTransport):
        return _process(transport, client.guard)
    assert isinstance(transport, RemoteTransport), "others are refused with the document"
    return _http(transport, client)


@asynccontextmanager
async def _process(
    transport: StdioTransport, guard: Guard
) -> "AsyncGenerator[TransportStreams, None]":
    """A server as a process, with little of heddle's environment, in a group of its own.

    Its stderr goes to the log. In the end it has a moment to go by itself; then the group
    is ended, so that nothing it has started stays.
    """
    await trio.to_thread.run_sync(guard.prepare)
    process = await trio.lowlevel.open_process(
        [transport.command, *transport.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=get_default_environment() | (transport.env or {}),
        cwd=transport.cwd,
        start_new_session=True,
    )
    # No schedule point up to the block that ends it.
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    guard.begins(process.pid, ends_itself=True)
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read, process.stdout, to_session)
        nursery.start_soon(_write, process.stdin, from_session, to_session)
        nursery.start_soon(_log_lines, process.stderr, transport.name)
        try:
            yield incoming, outgoing
        finally:
            with trio.CancelScope(shield=True):
                incoming.close()
                outgoing.close()
                await _end(process)
                guard.ended(process.pid)
            nursery.cancel_scope.cancel()


async def _read(
    stdout: trio.abc.ReceiveStream,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    """Hand messages over, one a line; when nobody takes them, read on: a server whose
    output is stuck does not end by itself."""
    pieces: list[bytes] = []
    size = 0
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async with to_session:
            async for data in stdout:
                *lines, rest = bytes(data).split(b"\n")
                for line in lines:
                    whole = b"".join((*pieces, line))
                    pieces, size = [], 0
                    if whole.strip():
                        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                            await to_session.send(_message(whole))
                size += len(rest)
                if size > MAX_MESSAGE:
                    break
                pieces.append(rest)


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(
    stdin: trio.abc.SendStream,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    try:
        async with stdin, from_session:
            async for each in from_session:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send_all(line.encode() + b"\n")
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        # Tell the session that there is no other side, instead of letting it wait.
        to_session.close()


async def _end(process: trio.Process) -> None:
    """Bounded, whatever the server does."""
    group = ProcessGroup(process.pid)
    assert process.stdin is not None
    await process.stdin.aclose()
    for number in (None, signal.SIGTERM):
        if number is not None:
            group.signal(number)
        with trio.move_on_after(_TO_GO):
            await process.wait()
            break
    group.signal(signal.SIGKILL)
    with trio.move_on_after(_TO_DIE):
        await process.wait()
        while group.lives():  # noqa: ASYNC110  the kernel tells nobody
            await trio.sleep(_LOOK)
        group.collect_orphans()


@asynccontextmanager
async def _http(
    transport: RemoteTransport, client: "RemoteClient"
) -> "AsyncGenerator[TransportStreams, None]":
    files = TlsFiles()
    if isinstance(transport, (SSEmTLSTransport, StreamableHTTPmTLSTransport)):
        files = TlsFiles(transport.ca_file, transport.cert_file, transport.key_file)
    headers = {**(transport.headers or {}), **(transport.sensitive_headers or {})}

    def ours(**options: Any) -> httpx2.AsyncClient:
        options["headers"] = {**headers, **(options.get("headers") or {})}
        return httpx2.AsyncClient(
            transport=OwnConnections(client, files, transport),
            trust_env=False,
            **options,
        )

    if isinstance(transport, (SSETransport, SSEmTLSTransport)):
        async with sse_client(
            transport.url, httpx_client_factory=cast("Any", ours)
        ) as streams:
            yield streams
        return
    async with (
        ours() as http,
        streamable_http_client(transport.url, http_client=http) as streams,
    ):
        yield streams


class OwnConnections(httpx2.AsyncBaseTransport):
    """Requests of the SDK over heddle's connections, and again as the document says."""

    def __init__(
        self, client: "RemoteClient", files: TlsFiles, transport: RemoteTransport
    ) -> None:
        self._client = client
        self._files = files
        self._name = transport.name
        self._policy = transport.retry_policy

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it; the body of the answer is read by whoever asked."""
        await request.aread()
        policy = self._policy
        if policy is None:
            return await self._send(request)
        retries = Retries(policy)
        seconds = policy.request_timeout or math.inf
        while True:
            outcome: httpx2.Response | httpx2.TransportError
            try:
                with trio.fail_after(seconds):
                    outcome = response = await self._send(request)
                    if response.status_code < 400:
                        return response
                    # The connection goes back; what the error says may decide.
                    await response.aread()
                failure, what = _answered(response), f"answered {response.status_code}"
            except httpx2.TransportError as broken:
                failure, what, outcome = _broken(broken), str(broken), broken
            except trio.TooSlowError:
                what = f"timed out after {seconds:g} s"
                outcome = httpx2.ReadTimeout(what, request=request)
                failure = Failure(retryable=True)
            delay = retries.after(failure)
            if delay is None:
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome
            _LOG.warning("%s: %s", self._name, retries.announced(what, delay))
            await trio.sleep(delay)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send it once."""
        body = request.content
        url = request.url
        try:
            origin = origin_of(url.scheme, url.host, url.port)
        except ValueError as error:
            raise httpx2.ConnectError(f"no URL to ask: {error}", request=request) from error
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in request.headers.raw
            if name.lower() not in _WRITTEN_BY_US
        ]
        try:
            connection, pool = await self._client.begin(
                request.method,
                origin,
                url.raw_path.decode("ascii"),
                headers,
                body,
                self._files,
            )
        except ConnectFailed as error:
            raise httpx2.ConnectError(error.what, request=request) from error
        except (ConnectionBroken, BadHttp) as error:
            raise httpx2.ReadError(str(error), request=request) from error
        return httpx2.Response(
            connection.status,
            headers=list(connection.headers.items()),
            stream=_Body(connection, pool),
            request=request,
        )


def _answered(response: httpx2.Response) -> Failure:
    headers = {name.lower(): value for name, value in response.headers.raw}
    wait = retry_after_ms(headers, now=time.time())
    codes = error_codes(response.content)
    return Failure(response.status_code, retry_after_ms=wait, codes=codes)


def _broken(error: httpx2.TransportError) -> Failure:
    cause = error.__cause__
    if isinstance(cause, ConnectFailed):
        # Not for a certificate that is not trusted.
        return Failure(retryable=cause.retryable)
    return Failure(retryable=isinstance(cause, ConnectionBroken))


_WRITTEN_BY_US: Final = frozenset(
    (b"host", b"content-length", b"connection", b"transfer-encoding", b"accept-encoding")
)


class _Body(httpx2.AsyncByteStream):
    """The body of an answer as it arrives."""

    def __init__(self, connection: Connection, pool: Pool) -> None:
        self._connection = connection
        self._pool = pool
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        from heddle.remote.client import MAX_ANSWER

        connection = self._connection
        kind = connection.headers.get(b"content-type", b"")
        streamed = kind.startswith(b"text/event-stream")
        try:
            while True:
                if piece := connection.take():
                    yield piece
                if connection.complete:
                    return
                if not streamed and connection.size > MAX_ANSWER:
                    raise BadHttp(f"the answer exceeds {MAX_ANSWER // 2**20} MiB")
                await connection.advance()
        except (ConnectionBroken, BadHttp) as error:
            raise httpx2.ReadError(str(error)) from error

    async def aclose(self) -> None:
        """The connection is kept when all was read, else closed."""
        if not self._closed:
            self._closed = True
            self._pool.give_back(self._connection)


async def _log_lines(stderr: trio.abc.ReceiveStream, name: str) -> None:
    """Send what a server prints to the log, line by line, until it ends."""
    rest = b""
    async for data in stderr:
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[:_MAX_LINE]
        for line in lines:
            _LOG.warning("%s: %s", name, line[:_MAX_LINE].decode("utf-8", "replace"))
