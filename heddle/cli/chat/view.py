"""One turn of a chat as it is seen: rows that stay, and a picture of what goes on below.

    Let me look.                                   stays: text of the model, as markdown

    ✗ shell cmd="rm -r x"  0.0 s  this call …      stays: a tool call that has ended
    ! middleware 'Gate' of plugin 'gate', …        stays: what a policy did

    The folder has 120 mod                         drawn again: the row that is written
    ⠹ look path=src  0.4 s                         drawn again: a call that goes on
    ⠹ 3.1 s · Ctrl-C cancels                       drawn again

Pure: events and times in, rows out. What nodes write that do not speak last is shown while
they write, and not left: it is a step on the way and no answer.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias

from rich.segment import Segment

from heddle.cli.chat.loop import Answer
from heddle.cli.live.rows import SPINNERS
from heddle.cli.live.segments import segments, styled, text_rows
from heddle.cli.live.telling import (
    STYLES,
    UNICODE,
    Marks,
    Spans,
    indented,
    tool_called,
    tool_returned,
    warned,
    work_done,
)
from heddle.cli.text.markdown import PLAIN, Row, code_rows
from heddle.cli.text.markdown_lines import Span, wrapped
from heddle.cli.text.streamed import Streamed
from heddle.cli.text.wording import fit, line, place, seconds
from heddle.events import (
    Event,
    FlowCompleted,
    MessageSaid,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    TokenDelta,
    TokensDiscarded,
    ToolCalled,
    ToolReturned,
    Warned,
)
from plugins_host import NodePath

# Of what is drawn again: calls that go on, and characters of what is written aside.
CALLS_SHOWN: Final = 5
ASIDE_KEPT: Final = 400
# A node of a flow with several that took this long is worth a row.
NOTABLE: Final = 0.5

MARGIN: Final = "  "

WHOLE: Final = frozenset({"toolCall.before", "toolCall.after", "node.after"})
"""Where policies are asked when a model has said what it says. After a model call they may
have its text taken back, so that is left open."""

Kind: TypeAlias = Literal["text", "line"]


class TurnView:
    """What is seen of one turn.

    Args:
        began: When it began, in the seconds of some clock; as all times here.
        speakers: The nodes whose text is taken for the answer.
        marks: The signs that the terminal can take.
        shown: Warnings that were told already.
        all_told: Whether somebody else leaves a line for each event (``--verbose``).

    Attributes:
        leaving: Rows that stay, oldest first; whoever draws takes them from here.
    """

    def __init__(
        self,
        began: float,
        speakers: frozenset[str] = frozenset(),
        *,
        marks: Marks = UNICODE,
        shown: Iterable[str] = (),
        all_told: bool = False,
    ) -> None:
        self.leaving: list[Row] = []
        self._began = began
        self._speakers = speakers
        self._marks = marks
        self._shown = frozenset(shown)
        self._all_told = all_told
        self._left: Kind | None = None
        self._text: Streamed | None = None
        self._text_begun = False
        self._speaker: tuple[str, str | None] | None = None
        self._last_text = ""
        self._aside = ""
        self._nodes: dict[NodePath, float] = {}
        self._calls: dict[tuple[NodePath, str], tuple[ToolCalled, float]] = {}
        self._failures: list[NodeFailed] = []
        self._facts: list[str] = []
        self._width = 80

    def fold(self, happened: Iterable[tuple[float, Event | str]], width: int) -> None:
        """Note what happened, each with its time; text is wrapped to ``width`` cells.

        What is a string is a line of somebody else, and left.
        """
        self._width = width
        for now, event in happened:
            if isinstance(event, str):
                look = STYLES[_LOOKS.get(event[:1], "plain")]
                self._leave_line(((fit(event), look),))
                continue
            handler = self._HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event, now)
        if self._text is not None:
            self._leave_text(self._text.take(width))

    # --- how it ends ------------------------------------------------------------------

    def answer(self, answer: Answer, now: float) -> None:
        """It has come to an answer: leave that, unless it stands there."""
        self._end_text()
        if answer.is_json:
            self._leave("text", code_rows(pretty(answer.text)))
        elif answer.text.strip() != self._last_text.strip() or not self._last_text:
            shown = Streamed(answer.text or "*(an empty answer)*")
            self._leave("text", shown.finish(self._width))
        facts = self._marks.between.join((seconds(now - self._began), *self._facts))
        self._leave_line(((facts, STYLES["dim"]),))

    def fail(self, told: str) -> None:
        """It has failed."""
        self._end_text()
        self._leave_line(((indented(told), STYLES["bad"]),))

    def give_up(self) -> None:
        """It was cancelled."""
        self._end_text()
        self._leave_line(((f"{self._marks.stopped} cancelled", STYLES["warning"]),))

    def pause(self) -> None:
        """Somebody is asked something now, below what has been left."""
        self._end_text()

    def tell(self, rows: list[Row]) -> None:
        """Leave rows that are no answer."""
        self._leave("text", rows)

    # --- what is drawn again ----------------------------------------------------------

    def picture(self, *, now: float, height: int, turn: int) -> list[Row]:
        """At most ``height`` rows below those that were left."""
        spinners = SPINNERS[self._marks is UNICODE]
        spinner = spinners[turn % len(spinners)]
        below: list[Spans] = []
        if self._aside.strip():
            room = max(self._width - 4, 1)
            below.append(((line(fit(self._aside[-room:].strip())), STYLES["dim"]),))
        for event, since in list(self._calls.values())[-CALLS_SHOWN:]:
            took = f"  {seconds(now - since)}"
            called = tool_called(event.tool_name, event.tool_args)
            mark = (f"{spinner} ", STYLES["tool"])
            below.append((mark, *_by(event.agent), *called, (took, STYLES["dim"])))
        below.append(self._status(now, spinner))
        rows: list[Row] = []
        if self._text is not None:
            tail = self._text.tail(self._width)
            if tail and not self._text_begun:
                tail = [*self._apart("text"), *tail]
            rows = [*tail, []] if tail or self._left == "text" else []
        elif self._left != "line":
            rows = [[]]
        under = [segments(each) for each in below]
        over = len(rows) + len(under) - height
        return [*rows[max(over, 0) :], *under][-height:] if height > 0 else []

    def _status(self, now: float, spinner: str) -> Spans:
        parts = [seconds(now - self._began)]
        if len(self._speakers) != 1 or len(self._nodes) > 1 or not self._is_speaking():
            names = [line(str(key[-1]), most=24) for key in self._nodes]
            if names:
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                parts.append(f"{names[-1]}{more}")
        parts.append("Ctrl-C cancels")
        told = self._marks.between.join(parts)
        return (f"{spinner} ", STYLES["tool"]), (told, STYLES["dim"])

    def _is_speaking(self) -> bool:
        return any(len(key) == 1 and key[0] in self._speakers for key in self._nodes)

    # --- nodes ------------------------------------------------------------------------

    def _node_started(self, event: NodeStarted, now: float) -> None:
        self._tell_failures()
        self._nodes[_key(event)] = now

    def _node_completed(self, event: NodeCompleted, now: float) -> None:
        self._tell_failures()
        key = _key(event)
        took = now - self._nodes.pop(key, now)
        if len(key) == 1 and key[0] in self._speakers:
            self._end_text()
            return
        self._aside = ""
        if len(key) == 1 and took >= NOTABLE:
            done = (f"{self._marks.done} ", STYLES["good"])
            told = (f"{line(event.node_name)}  {seconds(took)}", STYLES["dim"])
            self._leave_told((done, told))

    def _node_failed(self, event: NodeFailed, now: float) -> None:  # noqa: ARG002
        self._nodes.pop(_key(event), None)
        self._end_text()
        # One that ends the run is told by the error that it ends with.
        self._failures.append(event)

    def _tell_failures(self) -> None:
        failures, self._failures = self._failures, []
        for each in failures:
            head = (f"{self._marks.failed} ", STYLES["bad"])
            where = (place(each.node_name, each.node_path), STYLES["node"])
            self._leave_told(
                (head, where, (f": {indented(each.error.message)}", STYLES["bad"]))
            )

    # --- what is written --------------------------------------------------------------

    def _token_delta(self, event: TokenDelta, now: float) -> None:  # noqa: ARG002
        if event.node_path is not None or event.node_name not in self._speakers:
            self._aside = (self._aside + event.delta)[-ASIDE_KEPT:]
            return
        speaker = event.node_name, event.agent
        if self._text is None or self._speaker != speaker:
            self._end_text()
            if event.agent is not None and self._speaker != speaker:
                named = ((line(event.agent, most=60), STYLES["node"]),)
                self._leave("text", text_rows(named))
            self._text, self._text_begun = Streamed(), False
            self._speaker = speaker
        self._text.feed(event.delta)

    def _tokens_discarded(self, event: TokensDiscarded, now: float) -> None:  # noqa: ARG002
        if event.node_path is not None or event.node_name not in self._speakers:
            self._aside = ""
            return
        text = self._text
        if text is not None and (event.node_name, event.agent) == self._speaker:
            fits = len(text.text) >= event.characters
            stands = text.discard(event.characters)
            if fits and stands:
                return
            kept = text.text
        else:
            kept = self._last_text[: max(len(self._last_text) - event.characters, 0)]
        self._text, self._last_text = None, ""
        told = f"{self._marks.more} taken back; what follows takes its place"
        self._leave_line(((told, STYLES["warning"]),))
        if kept:
            self._text, self._text_begun = Streamed(kept), False

    def _leave_text(self, rows: list[Row]) -> None:
        if rows and not self._text_begun:
            self._leave("text", rows)
            self._text_begun = True
        elif rows:
            if self._left != "text":  # a warning came in between
                self.leaving += self._apart("text")
                self._left = "text"
            self.leaving += rows

    def _end_text(self) -> None:
        """What was written is whole; what comes next is another text."""
        text, self._text = self._text, None
        if text is not None:
            self._text = text
            self._leave_text(text.finish(self._width))
            self._text = None
            self._last_text = text.text

    # --- what is done and said --------------------------------------------------------

    def _tool_called(self, event: ToolCalled, now: float) -> None:
        self._tell_failures()
        self._end_text()
        self._last_text = ""
        self._calls[_key(event), event.tool_call_id] = event, now

    def _tool_returned(self, event: ToolReturned, now: float) -> None:  # noqa: ARG002
        called, _ = self._calls.pop((_key(event), event.tool_call_id), (None, 0.0))
        given = None if called is None else called.tool_args
        mark, *told = tool_returned(event, given or {}, marks=self._marks)
        self._leave_told((mark, *_by(event.agent), *told))

    def _warned(self, event: Warned, now: float) -> None:  # noqa: ARG002
        if event.message in self._shown:
            return
        if event.seam in WHOLE:
            self._end_text()
        self._leave_told(warned(event.message, marks=self._marks))

    def _message_said(self, event: MessageSaid, now: float) -> None:  # noqa: ARG002
        if event.sender == "agent":  # the other one has just typed it
            self._end_text()
            self._last_text = event.message
            self._leave("text", Streamed(event.message).finish(self._width))

    def _completed(self, event: FlowCompleted, now: float) -> None:  # noqa: ARG002
        self._tell_failures()
        self._facts += work_done(event.model_calls, event.usage, 0, marks=self._marks)

    # --- what leaves ------------------------------------------------------------------

    def _leave_told(self, spans: Spans) -> None:
        if not self._all_told:
            self._leave_line(spans)

    def _leave_line(self, spans: Spans) -> None:
        """Rows that are easily told from each other: what is too long goes on set off."""
        room = max(self._width - len(MARGIN), 1)
        first, *more = wrapped([Span(text, styled(s) or PLAIN) for text, s in spans], room)
        self._leave("line", [first, *([Segment(MARGIN), *row] for row in more)])

    def _leave(self, kind: Kind, rows: list[Row]) -> None:
        self.leaving += [*self._apart(kind), *rows]
        self._left = kind

    def _apart(self, kind: Kind) -> list[Row]:
        """The blank row between texts, and between texts and lines."""
        return [] if kind == "line" and self._left == "line" else [[]]

    _HANDLERS: ClassVar[Mapping[type[Any], Callable[..., None]]] = {
        NodeStarted: _node_started,
        NodeCompleted: _node_completed,
        NodeFailed: _node_failed,
        TokenDelta: _token_delta,
        TokensDiscarded: _tokens_discarded,
        ToolCalled: _tool_called,
        ToolReturned: _tool_returned,
        Warned: _warned,
        MessageSaid: _message_said,
        FlowCompleted: _completed,
    }


_LOOKS: Final = {"!": "warning", "x": "bad", " ": "dim"}
"""How a remark begins → what it is."""


def pretty(encoded: str) -> str:
    """JSON on several lines."""
    return json.dumps(json.loads(encoded), indent=2, ensure_ascii=False)


def _key(event: Any) -> NodePath:
    found: NodePath = event.node_path or (event.node_name,)
    return found


def _by(agent: str | None) -> Spans:
    return () if agent is None else ((f"{line(agent, most=40)}: ", STYLES["dim"]),)
