"""Offers the tools of MCP servers to flows: programs that speak stdio, and HTTP URLs.

heddle run flow.json --plugin mcp_proxy.json --discover-tools

Which servers is said in ``servers.json`` beside this file, or in the file that
``$MCP_SERVERS`` names (grant it with ``--plugin-env MCP_SERVERS``):

    {"mcpServers": {"time": {"command": "python3", "args": ["-m", "mcp_server_time"]},
                    "docs": {"url": "http://127.0.0.1:8000/mcp", "prefix": "docs_"}}}

One connection to each serves all runs, and is made anew when it is lost.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from heddle.plugin import Context, serve

try:
    from mcp import Client, MCPError, StdioServerParameters
    from mcp.types import CONNECTION_CLOSED
except ImportError as error:
    raise SystemExit(f"{error}: pip install 'heddle[mcp]'") from error

Answer = dict[str, Any]

# Tools are listed in pages; a server that never stops is left at so many.
MAX_PAGES = 20

# Seconds to connect and shake hands. heddle waits ten for a list of tools.
CONNECT = 8.0


class Server:
    """One MCP server: its connection, and the names of its tools."""

    def __init__(self, name: str, said: dict[str, Any]) -> None:
        self.name = name
        self.prefix: str = said.get("prefix", "")
        self.tools: set[str] = set()
        self._said = said
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def _target(self) -> Any:
        if "url" in self._said:
            return self._said["url"]
        command = self._said["command"]
        return StdioServerParameters(
            command=shutil.which(command) or command,
            args=self._said.get("args", []),
            env={**os.environ, **self._said.get("env", {})},
            cwd=self._said.get("cwd"),
        )

    async def client(self) -> Client:
        """The connection, made if there is none."""
        async with self._lock:
            if self._client is None:
                connected: asyncio.Future[Client] = asyncio.Future()
                # A connection is left by the task that made it, so it has one of its own.
                self._task = asyncio.create_task(self._live(connected))
                try:
                    async with asyncio.timeout(CONNECT):
                        self._client = await asyncio.shield(connected)
                except BaseException as error:
                    self._task.cancel()
                    if isinstance(error, asyncio.CancelledError):
                        raise
                    what = str(error) or f"no answer within {CONNECT:g} s"
                    raise ConnectionError(f"MCP server {self.name!r}: {what}") from error
            return self._client

    async def _live(self, connected: "asyncio.Future[Client]") -> None:
        try:
            async with Client(self._target()) as client:
                connected.set_result(client)
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001  whoever waits is told
            if not connected.done():
                connected.set_exception(error)
        finally:
            self._client = None

    def lost(self) -> None:
        """The connection is of no use; the next call makes another."""
        self._client = None
        if self._task is not None:
            self._task.cancel()

    async def list(self) -> list[dict[str, Any]]:
        """Its tools, as heddle wants them listed."""
        client = await self.client()
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            found += [self._listed(each) for each in page.tools]
            cursor = page.next_cursor
            if not cursor:
                break
        self.tools = {each["name"] for each in found}
        return found

    def _listed(self, tool: Any) -> dict[str, Any]:
        said = {
            "name": self.prefix + tool.name,
            "description": tool.description or "",
            "inputSchema": tool.input_schema,
        }
        if tool.output_schema is not None:
            said["outputSchema"] = tool.output_schema
        return said

    async def call(self, name: str, given: dict[str, Any]) -> Answer:
        """Run one of its tools."""
        client = await self.client()
        try:
            result = await client.call_tool(name.removeprefix(self.prefix), given)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                self.lost()
            raise ConnectionError(f"MCP server {self.name!r}: {error}") from error
        return read(result)


def read(result: Any) -> Answer:
    """What came of a tool. Structured content is the output; text alone is ``text``."""
    texts = [each.text for each in result.content if each.type == "text"]
    if result.is_error:
        raise RuntimeError("\n".join(texts) or "the tool failed")
    if isinstance(result.structured_content, dict):
        return {"output": result.structured_content}
    others = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True)
        for each in result.content
        if each.type != "text"
    ]
    return {"output": {"text": "\n".join(texts), **({"content": others} if others else {})}}


class Proxy:
    """All servers, and which of them has which tool."""

    def __init__(self, servers: dict[str, Any]) -> None:
        self.servers = [Server(name, said) for name, said in servers.items()]

    async def list_tools(self) -> dict[str, Any]:
        """The tools of all. One that is not there does not take the others along."""
        tools: list[dict[str, Any]] = []
        failed: list[BaseException] = []
        listings = (server.list() for server in self.servers)
        for found in await asyncio.gather(*listings, return_exceptions=True):
            if isinstance(found, BaseException):
                failed.append(found)
                print(f"{type(found).__name__}: {found}")
            else:
                tools += found
        if failed and not tools:
            raise failed[0]
        return {"tools": tools}

    async def call(self, name: str, given: dict[str, Any]) -> Answer:
        """Run a tool, wherever it is."""
        for _ in range(2):
            for server in self.servers:
                if name in server.tools:
                    return await server.call(name, given)
            # This process is new, and has not been asked what there is.
            await self.list_tools()
        raise LookupError(f"no MCP server has a tool {name!r}")


class Tools(dict[str, Callable[..., Awaitable[Answer]]]):
    """A function for any name: which there are is known when a server has said so."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self._proxy = proxy

    def __bool__(self) -> bool:
        return True

    def get(self, name: str, _: Any = None) -> Any:
        async def call(given: dict[str, Any], _: Context) -> Answer:
            return await self._proxy.call(name, given)

        return call


def configured() -> dict[str, Any]:
    """The servers in the file."""
    beside = Path(__file__).with_name("servers.json")
    path = Path(os.environ.get("MCP_SERVERS", beside))
    servers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["mcpServers"]
    return servers


if __name__ == "__main__":
    proxy = Proxy(configured())
    serve({}, tools=Tools(proxy), list_tools=proxy.list_tools)
