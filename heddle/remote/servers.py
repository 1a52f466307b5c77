"""Sessions with tool servers: one a server and run, on the official MCP SDK.

The SDK is optional, and slow to import: it is loaded when a run first uses a server. Each
session lives in a task of its own, which opens the transport, and ends it when the run is
over; a process is ended with its whole group. HTTP goes over heddle's own connections, so
that what holds for requests holds here: proxies, certificates, where flows may go.
"""

import logging
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from heddle import __version__
from heddle.engine.faults import RunFailed
from heddle.engine.tool_servers import Offered, ToolAnswer, ToolServerFault, failed
from heddle.models.complaints import shorten
from heddle.spec import Component, StdioTransport
from plugins_host import Fault

if TYPE_CHECKING:
    from mcp.client import Client

    from heddle.remote.client import RemoteClient

MAX_TOOLS: Final = 1000
"""Tools of one server that are listed; no model chooses among as many."""

OPENING: Final = 30.0
"""Seconds for a server to start and to greet."""

_MAX_SAID: Final = 300
LOG: Final = logging.getLogger("heddle.mcp")


class McpMissing(RunFailed):
    """The SDK that speaks to tool servers is not installed."""


class ServerUnreachable(ToolServerFault):
    """A tool server can't be started or reached, or went away."""


class Session:
    """One session, while it is opened, open, and over."""

    def __init__(self) -> None:
        self.ready = trio.Event()
        self.ending = trio.Event()
        self.client: Client | None = None
        self.error: Exception | None = None
        self.over = False


class Sessions:
    """The sessions of one run. From `open_sessions`."""

    def __init__(self, nursery: trio.Nursery, client: "RemoteClient") -> None:
        self._nursery = nursery
        self._client = client
        # Keyed by identity: the run's plan holds on to its transports.
        self._open: dict[int, Session] = {}

    def end(self) -> None:
        """Have all sessions end."""
        for session in self._open.values():
            session.ending.set()

    async def offered(self, transport: Component, /, *, where: str) -> Sequence[Offered]:
        """All tools of the server.

        Raises:
            ServerUnreachable: It can't be asked.
        """
        session, client = await self._session(transport, where)
        found: list[Offered] = []
        cursor: str | None = None
        with _told(where, transport, session):
            while len(found) < MAX_TOOLS:
                page = await client.list_tools(cursor=cursor)
                found += (
                    Offered(each.name, each.description or "", dict(each.input_schema))
                    for each in page.tools
                )
                cursor = page.next_cursor
                if not cursor:
                    break
        return found[:MAX_TOOLS]

    async def call(
        self,
        transport: Component,
        name: str,
        arguments: Mapping[str, Any],
        /,
        *,
        where: str,
    ) -> ToolAnswer:
        """Call a tool.

        Raises:
            ToolServerFault: It failed, or the server can't be asked.
        """
        session, client = await self._session(transport, where)
        with _told(where, transport, session):
            result = await client.call_tool(name, dict(arguments))
        text = "\n".join(map(_text, result.content))
        if result.is_error:
            raise failed(where, _strike(transport, text))
        structured = result.structured_content
        return ToolAnswer(text, structured if isinstance(structured, dict) else None)

    async def _session(self, transport: Component, where: str) -> "tuple[Session, Client]":
        session = self._open.get(id(transport))
        if session is None or session.over:
            session = self._open[id(transport)] = Session()
            self._nursery.start_soon(self._keep, transport, session)
        await session.ready.wait()
        if session.client is None:
            cause = session.error
            raise ServerUnreachable(
                f"its tool server {transport.name!r} can't be used: "
                f"{_strike(transport, _reason(cause))}",
                where=where,
                fix=_FIXES[isinstance(transport, StdioTransport)],
            ) from cause
        return session, session.client

    async def _keep(self, transport: Component, session: Session) -> None:
        """Hold one session open until the run is over."""
        from mcp.client import Client
        from mcp_types import Implementation

        from heddle.remote.mcp_transports import open_transport

        seconds: float = transport.session_parameters.read_timeout_seconds  # type: ignore[attr-defined]
        try:
            with trio.move_on_after(OPENING) as opening:
                client = Client(
                    open_transport(transport, self._client),
                    read_timeout_seconds=seconds,
                    client_info=Implementation(name="heddle", version=__version__),
                    cache=None,
                )
                async with client:
                    opening.deadline = trio.current_time() + 10**9
                    session.client = client
                    session.ready.set()
                    await session.ending.wait()
            if opening.cancelled_caught:
                session.error = TimeoutError(f"it did not greet within {OPENING:g} s")
        except Exception as error:  # noqa: BLE001  told to whoever uses the session
            session.error = error
            if session.client is not None:
                LOG.warning("%s: %s", transport.name, _strike(transport, _reason(error)))
        finally:
            session.over = True
            session.ready.set()


_FIXES: Final = {
    True: "Check its command, and what it prints.",
    False: "Check its url, and that the server runs.",
}


@asynccontextmanager
async def open_sessions(client: "RemoteClient") -> AsyncIterator[Sessions]:
    """The sessions of one run, all of them over when it is left.

    What ends the run leaves as it is, not in a group.

    Raises:
        McpMissing: The SDK is not installed.
    """
    try:
        if "mcp" in sys.modules:
            _load()
        else:
            # Other runs go on meanwhile.
            await trio.to_thread.run_sync(_load)
    except ImportError as error:
        raise McpMissing(
            "the flow uses tools of an MCP server, and the MCP SDK is not installed",
            fix="Install it with: pip install 'heddle[mcp]'.",
        ) from error
    ended: Exception | None = None
    async with trio.open_nursery() as nursery:
        sessions = Sessions(nursery, client)
        try:
            yield sessions
        except Exception as error:  # noqa: BLE001  raised again below
            ended = error
        sessions.end()
    if ended is not None:
        raise ended


def _load() -> None:
    """Import the SDK, which takes a second."""
    import mcp  # noqa: F401

    import heddle.remote.mcp_transports  # noqa: F401


@contextmanager
def _told(where: str, transport: Component, session: Session) -> Iterator[None]:
    """What the SDK raises becomes a fault; who asks again finds a new session where this
    one is gone."""
    try:
        yield
    except Fault:
        raise
    except Exception as error:
        if _is_closed(error):
            session.over = True
            session.ending.set()
        raise ServerUnreachable(
            f"its tool server {transport.name!r} gave no answer: "
            f"{_strike(transport, _reason(error))}",
            where=where,
        ) from error


def _text(part: Any) -> str:
    """A part of an answer as text; what is none is named."""
    if part.type == "text":
        return str(part.text)
    return f"[{part.type}: not shown]"


def _reason(error: BaseException | None) -> str:
    """The innermost cause in a few words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return "it ended"
    if isinstance(error, FileNotFoundError):
        return "its command is not there"
    return " ".join(str(error).split()) or type(error).__name__


def _strike(transport: Component, text: str) -> str:
    """The text, shortened, without what the document keeps secret of its transport."""
    secrets = getattr(transport, "sensitive_headers", None) or {}
    if not secrets:
        return shorten(text, _MAX_SAID)
    from heddle.remote.client import Strike

    return shorten(Strike(tuple(secrets.values()))(text), _MAX_SAID)


def _is_closed(error: Exception) -> bool:
    """Whether the SDK says that there is no other side any more."""
    from mcp_types import CONNECTION_CLOSED

    return getattr(error, "code", None) == CONNECTION_CLOSED
