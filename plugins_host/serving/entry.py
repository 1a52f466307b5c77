"""``serve``: a program becomes a plugin, and its stdin and stdout the protocol's."""

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from plugins_host.authoring.handlers import Handlers
from plugins_host.serving.complaints import complain
from plugins_host.serving.server import Server

# The module that is being imported into heddle, where a call of ``serve`` would take
# heddle's own stdin and stdout.
_importing: list[str] = []


@contextmanager
def importing(source: str) -> Iterator[None]:
    """While a plugin is imported into heddle, ``serve`` refuses."""
    _importing.append(source)
    try:
        yield
    finally:
        _importing.pop()


def serve(
    handlers: Handlers,
    *,
    tools: Mapping[str, Callable[..., Any]] | None = None,
    list_tools: Callable[[], Any] | None = None,
    shutdown: Callable[[], Any] | None = None,
) -> None:
    """Answer heddle's questions with ``handlers`` until heddle ends this process.

    stdout belongs to the protocol, so what is printed goes to stderr from here on, in this
    process and in those that it starts; stdin is empty for everybody else.

    Args:
        handlers: By component type, then by seam and half, or by name for other kinds:
            ``{"RetryPolicy": {"nodeError": {"after": function}}}``. Functions are plain or
            async and take ``(event, ctx)``. A class with methods ``after_node_error`` does
            as well. Plain functions are called one after the other; while an async one
            waits, the next question is answered.
        tools: Functions ``(input, ctx) -> {"output": …}`` by the name of the tool.
        list_tools: Returns ``{"tools": […]}``, for a manifest that says discoverTools.
        shutdown: Called when heddle ends the plugin. It has a second.
    """
    if _importing:
        raise RuntimeError(
            "serve() was called while heddle imported the module; guard it with "
            "if __name__ == '__main__':"
        )
    if os.isatty(0):
        complain(
            "this is a heddle plugin, and waits for questions on stdin; run it with "
            "heddle run --plugin, or try it with heddle plugin check"
        )
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    server = Server(
        handlers,
        tools=tools or {},
        list_tools=list_tools,
        shutdown=shutdown,
        source=source,
        target=target,
    )
    try:
        server.run()
    except KeyboardInterrupt:
        # Ctrl-C on a terminal reaches the whole group; heddle is ending this process too.
        sys.exit(130)
