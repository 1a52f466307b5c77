"""A run's events live on a terminal: what is going on now, below what has happened.

    ! flow.json $.nodes[1]: …                       stays
      count: count_words (0.2 s)                    stays
    ⠹ count 3.1 s  count_words 0.4 s                redrawn: a line a running node
      The text has 9 wo                             redrawn: the end of what streams

Drawn into memory and handed to the outlet in one piece, so that a terminal that is
paused holds up nothing; while it is, no new picture is drawn.
"""

import io
import os
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import trio
from rich.console import Console, Group, RenderableType
from rich.live import Live as Region
from rich.spinner import Spinner
from rich.text import Text

from heddle.cli.outlet import Outlet
from heddle.cli.plain import PlainLines
from heddle.cli.wording import fit, line, place, seconds
from heddle.events import (
    Event,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    TokenDelta,
    TokensDiscarded,
    ToolCalled,
    ToolReturned,
)
from plugins_host import NodePath

STDERR: Final = 2
# Pictures a second: a spinner looks alive, and a terminal over a slow line keeps up.
EACH: Final = 0.1
LINES_WAITING: Final = 1024 * 1024
# Of the text that a model is writing: enough to follow, little enough not to jump.
TEXT_LINES: Final = 4
TEXT_KEPT: Final = 4000

# The marks of plain lines → how they look.
STYLES: Final = {">": "bold", "<": "green", "x": "red", "!": "yellow", " ": "dim"}


# Which node: nodes of flows side by side may have one name.
Key: TypeAlias = tuple[str, NodePath | None]


def _key(
    event: NodeStarted
    | NodeCompleted
    | NodeFailed
    | TokenDelta
    | TokensDiscarded
    | ToolCalled
    | ToolReturned,
) -> Key:
    return event.node_name, event.node_path


class RunningNode:
    """A node that is being executed: since when, and what of it is going on."""

    def __init__(self, now: float) -> None:
        self.since = now
        self.tools: dict[str, tuple[str, float]] = {}
        self.text = ""


class Live:
    """Events as a picture on the terminal of stderr."""

    def __init__(
        self, lines: PlainLines, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lines = lines
        self._clock = clock
        self._outlet = Outlet(STDERR, most=LINES_WAITING)
        self.outlets = (self._outlet,)
        self._nodes: dict[Key, RunningNode] = {}
        self._spinners: dict[Key, Spinner] = {}
        self._drawn = io.StringIO()
        self._left_out = 0
        width, height = terminal_size()
        self._console = Console(
            file=self._drawn,
            force_terminal=True,
            width=width,
            height=height,
            highlight=False,
        )
        self._region = Region(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._region.start()

    async def animate(self) -> None:
        """Redraw until cancelled."""
        while True:
            await trio.sleep(EACH)
            if self._outlet.idle:
                self._redraw()

    def see(self, event: Event, /) -> None:
        """Note what changed, and print what stays."""
        self._note(event)
        # That a node runs is in the picture.
        self._print(text for text in self._lines.lines(event) if text[0] != ">")

    def remark(self, text: str, /) -> None:
        """Print it."""
        self._print([text])

    def ended(self, error: Exception | None, /) -> None:  # noqa: ARG002
        """Remove the picture; what was printed stays."""
        self._region.update(Group())
        self._region.stop()
        self._hand_over()

    def _print(self, lines: Iterable[str]) -> None:
        for text in lines:
            # Printing draws the picture again below, so it has to be the latest.
            self._region.update(self._picture(self._console.width))
            self._console.print(Text(text, STYLES.get(text[0], "")), soft_wrap=True)
        self._hand_over()

    def _note(self, event: Event) -> None:
        match event:
            case NodeStarted():
                self._nodes[_key(event)] = RunningNode(self._clock())
            case NodeCompleted() | NodeFailed():
                self._nodes.pop(_key(event), None)
                self._spinners.pop(_key(event), None)
            case TokenDelta(delta=delta) if running := self._nodes.get(_key(event)):
                running.text = (running.text + delta)[-TEXT_KEPT:]
            case TokensDiscarded(characters=count) if running := self._nodes.get(
                _key(event)
            ):
                running.text = running.text[: max(len(running.text) - count, 0)]
            case ToolCalled(tool_name=tool) if running := self._nodes.get(_key(event)):
                running.tools[event.tool_call_id] = (tool, self._clock())
                running.text = ""
            case ToolReturned() if running := self._nodes.get(_key(event)):
                running.tools.pop(event.tool_call_id, None)
            case _:
                pass

    def _redraw(self) -> None:
        width, height = terminal_size()
        self._console.size = (width, height)
        self._region.update(self._picture(width), refresh=True)
        self._hand_over()

    def _picture(self, width: int) -> RenderableType:
        now = self._clock()
        rows: list[RenderableType] = []
        for key, node in self._nodes.items():
            name = place(*key, most=40)
            parts = [f"{name} {seconds(now - node.since)}"]
            parts += [
                f"{line(tool, most=30)} {seconds(now - since)}"
                for tool, since in node.tools.values()
            ]
            spinner = self._spinners.setdefault(key, Spinner("dots"))
            spinner.update(text=Text("  ".join(parts), no_wrap=True, overflow="ellipsis"))
            rows.append(spinner)
            if node.text.strip():
                tail = fit(node.text[-TEXT_LINES * width :]).strip()
                text = Text(tail, "dim")
                wrapped = text.wrap(self._console, max(width - 2, 1))[-TEXT_LINES:]
                rows += [Text("  ") + each for each in wrapped]
        return Group(*rows)

    def _hand_over(self) -> None:
        drawn = self._drawn.getvalue()
        self._drawn.seek(0)
        self._drawn.truncate()
        if drawn and self._left_out:
            drawn = f"… {self._left_out} left out here\n{drawn}"
        if self._outlet.put(drawn.encode(errors="backslashreplace")):
            self._left_out = 0
        else:
            self._left_out += 1


def terminal_size() -> tuple[int, int]:
    """Columns and lines. A terminal that does not know, a serial one, says 0."""
    try:
        width, height = os.get_terminal_size(STDERR)
    except OSError:  # it is gone; the outlet is about to find out
        width = height = 0
    return width or 80, height or 24
