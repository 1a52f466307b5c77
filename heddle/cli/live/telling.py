"""What happens in a run, said in styled pieces of text: for the live tree and for the chat.

    ✓ look path=src/a.py, depth=2  0.2 s
    ✗ shell command="rm -rf /"  0.0 s  this call was refused: destructive command
    ! middleware 'Gate' of plugin 'gate', toolCall.before: refuses …

`Spans` are (text, style) pairs, the style in words of rich; whoever draws decides how. All
text is fit for a terminal. Pure: no I/O, no clock, and rich only where `as_text` is called.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from heddle.cli.text.wording import fit, json_line, line, seconds
from heddle.events import ToolReturned

if TYPE_CHECKING:
    from rich.text import Text

    from plugins_host import Usage

Spans: TypeAlias = tuple[tuple[str, str], ...]

STYLES: Final[Mapping[str, str]] = {
    "plain": "",
    "dim": "dim",
    "node": "bold",
    "tool": "cyan",
    "good": "green",
    "bad": "red",
    "warning": "yellow",
    "policy": "bold yellow",
    "person": "bold",
}
"""What a piece of text is → how it looks. Colours of the terminal's own palette, so that
they suit light and dark ones."""


class Marks(NamedTuple):
    """The signs before lines."""

    done: str
    failed: str
    warning: str
    stopped: str
    more: str
    between: str


UNICODE: Final = Marks("✓", "✗", "!", "⊘", "…", " · ")
ASCII: Final = Marks("+", "x", "!", "-", "...", ", ")

# Of one argument; enough to tell a path or a command by.
ARGUMENT_SHOWN: Final = 40
# Of all arguments of a call.
ARGUMENTS_SHOWN: Final = 100
# Of why a call failed, on the line that says it did.
REASON_SHOWN: Final = 200

BARE: Final = re.compile(r"[\w./:@%+~^-]+", re.ASCII)
"""Text that reads as one argument without quotes."""
BY_POLICY: Final = re.compile(
    r"middleware '[^']*' of plugin '[^']*', \w+\.\w+(?=: )", re.ASCII
)
"""How warnings about what policies did begin: who, and at which seam."""


def marks_for(encoding: str | None) -> Marks:
    """The marks that a stream of this encoding can take."""
    try:
        "".join(UNICODE).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def arguments(value: Any, *, most: int = ARGUMENTS_SHOWN) -> str:
    """The arguments of a call on one line: ``path=src/a.py, depth=2``; "" for none."""
    if not isinstance(value, Mapping):
        return json_line(value, most=most)
    parts: list[str] = []
    left = most
    for name, each in value.items():
        part = f"{line(str(name), most=ARGUMENT_SHOWN)}={argument(each)}"
        parts.append(part)
        left -= len(part) + 2
        if left < 0:
            break
    return line(", ".join(parts), most=most)


def argument(value: Any) -> str:
    """One of them: text that needs no quotes as it is, anything else as JSON."""
    if isinstance(value, str) and len(value) <= ARGUMENT_SHOWN and BARE.fullmatch(value):
        return value
    if isinstance(value, str):
        value = value[:ARGUMENT_SHOWN]  # a document of 10 MiB is not encoded for its start
    return json_line(value, most=ARGUMENT_SHOWN)


def tool_called(name: str, given: Any, *, most: int = ARGUMENTS_SHOWN) -> Spans:
    """A call: ``look path=src/a.py``."""
    said = arguments(given, most=most)
    called: Spans = ((line(name, most=ARGUMENT_SHOWN), STYLES["tool"]),)
    return (*called, (f" {said}", STYLES["dim"])) if said else called


def tool_returned(
    event: ToolReturned,
    given: Any,
    *,
    most: int = ARGUMENTS_SHOWN,
    reason: int = REASON_SHOWN,
    marks: Marks = UNICODE,
) -> Spans:
    """How a call went, with its arguments, its time, and why it failed."""
    called = tool_called(event.tool_name, given, most=most)
    took = (f"  {seconds(event.duration / 1000)}", STYLES["dim"])
    if event.error is None:
        return ((f"{marks.done} ", STYLES["good"]), *called, took)
    why = line(event.error.message, most=reason)
    failed = STYLES["bad"]
    return ((f"{marks.failed} ", failed), *called, took, (f"  {why}", failed))


def warned(message: str, *, marks: Marks = UNICODE) -> Spans:
    """A warning; who decided it, and at which seam, stands out."""
    by = BY_POLICY.match(message)
    head = by[0] if by else ""
    told: Spans = ((f"{marks.warning} ", STYLES["policy"]),)
    if head:
        told = (*told, (fit(head), STYLES["policy"]))
    return (*told, (indented(message[len(head) :]), STYLES["warning"]))


def indented(text: str) -> str:
    """Text of several lines, those after the first set off from the line marks."""
    return fit(text).replace("\n", "\n    ")


def tokens(usage: "Usage", *, marks: Marks = UNICODE) -> str:
    """``1,204 tokens in · 88 out``."""
    return f"{usage.input_tokens:,} tokens in{marks.between}{usage.output_tokens:,} out"


def counted(number: int, one: str) -> str:
    """``1 tool call``, ``3 tool calls``."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def work_done(
    model_calls: int, usage: "Usage | None", tool_calls: int, *, marks: Marks = UNICODE
) -> Iterator[str]:
    """What a node or a run did, as far as it did anything: ``2 model calls``, …"""
    if model_calls:
        yield counted(model_calls, "model call")
    if usage is not None:
        yield tokens(usage, marks=marks)
    if tool_calls:
        yield counted(tool_calls, "tool call")


def as_text(spans: Iterable[tuple[str, str]]) -> "Text":
    """Spans as rich draws them."""
    from rich.text import Text

    return Text.assemble(*spans)
