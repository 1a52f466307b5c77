"""A tool server of our own, for tests: over stdio, or over streamable HTTP on a port.

python mcp_server.py          stdio
python mcp_server.py 40123    http://127.0.0.1:40123/mcp
"""

import os
import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer

server = MCPServer("things")


@server.tool()
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


@server.tool()
def boom() -> str:
    """Fail."""
    raise ValueError("it went boom")


@server.tool()
def die() -> str:
    """End the process in the middle of a call."""
    os._exit(3)


@server.tool()
def whoami() -> str:
    """The number of this process."""
    return str(os.getpid())


@server.tool()
async def hang(note: str) -> str:
    """Go on for ever, and write down how that went."""
    with Path(note).open("a", encoding="utf-8") as file:
        try:
            print("began", file=file, flush=True)
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            print("cancelled", file=file, flush=True)
            raise
    return ""


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run(transport="sse", host="127.0.0.1", port=int(sys.argv[1]))
    elif len(sys.argv) > 1:
        server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run(transport="stdio")
