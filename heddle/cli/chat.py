"""``heddle run -i``: a line in, a run of the flow, its answer out; until the input ends.

Each line is a run of its own, given to the flow's first text input; what the run asks
meanwhile is answered by the next line. Answers go to stdout; the prompt, questions,
warnings and errors to stderr. What policies did is shown like in any run.
"""

import os
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from heddle.cli.exits import output_failed, told
from heddle.cli.outlet import write_all
from heddle.cli.own_stdout import STDOUT
from heddle.cli.person import PlainPerson
from heddle.cli.wording import fit
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.cli.readers import Reader
    from heddle.launch import Engine, Prepared

LEAVE: Final = ("/exit", "/quit")
ANYWAY: Final = "message"
"""The name under which a flow that declares no text input finds what was said."""
ANSWERS: Final = ("result", "generated_text")
"""Where a flow that declares no outputs has its text."""


def spoken_input(prepared: "Prepared", given: Mapping[str, Any]) -> str:
    """The input that a line goes to: the first text that is not given already."""
    for each in prepared.plan.graph.inputs:
        if each.schema.get("type") == "string" and each.title not in given:
            return each.title
    return ANYWAY


def answer_text(prepared: "Prepared", state: Mapping[str, Any]) -> str:
    """What of a result is shown: its text, or all of it as JSON."""
    declared = [each.title for each in prepared.plan.graph.outputs]
    names = declared if len(declared) == 1 else [each for each in ANSWERS if each in state]
    for name in names:
        if isinstance(state.get(name), str):
            return str(state[name])
    return msgspec.json.encode(state).decode()


async def chat(
    engine: "Engine",
    prepared: "Prepared",
    given: Mapping[str, Any],
    reader: "Reader",
    stdout: int = STDOUT,
) -> None:
    """Answer line after line.

    Args:
        engine: Runs the flow; its plugins live as long as the chat.
        prepared: The flow.
        given: State that every run starts with, beside what was said.
        reader: Shows what happens.
        stdout: Where answers are written.
    """
    name = spoken_input(prepared, given)
    if isinstance(sys.stdin, TextIOWrapper):
        # A byte that is no text is no reason to end the chat, or to fail a run.
        sys.stdin.reconfigure(errors="replace")

    async def show(text: str) -> None:
        await _all_written(reader)
        if text and sys.stderr is not None:  # also with --quiet: it waits for an answer
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    person = PlainPerson(show, _next_line)
    while True:
        await _all_written(reader)
        said = await _next_line()
        if said is None or said in LEAVE:
            return
        if not said:
            continue
        try:
            state = await engine.run(
                prepared, {**given, name: said}, reader.see, stream=False, person=person
            )
        except Fault as error:
            reader.remark(told(error))
            continue
        await _all_written(reader)
        try:
            write_all(stdout, _as_shown(answer_text(prepared, state), stdout))
        except OSError as error:
            raise output_failed(error) from error


def _as_shown(answer: str, stdout: int) -> bytes:
    """An answer for stdout: markdown as it is meant, on a terminal that can show it."""
    if not os.isatty(stdout) or os.environ.get("TERM", "dumb") == "dumb":
        return f"{fit(answer)}\n".encode()
    from heddle.cli.live import terminal_size
    from heddle.cli.region import painted
    from heddle.cli.streamed import Streamed

    colours = not os.environ.get("NO_COLOR")
    rows = Streamed(answer).finish(terminal_size()[0] - 1)
    lines = (f"{painted(row, colours=colours)[0]}\n" for row in rows)
    return "".join(lines).encode(errors="backslashreplace")


async def _next_line() -> str | None:
    """What is said next; None at the end of the input."""
    if sys.stdin is None:
        return None
    if sys.stdin.isatty() and sys.stderr is not None:
        sys.stderr.write("> ")
        sys.stderr.flush()
    # Nothing can end a read from a terminal but a line; the thread is left behind when
    # the chat is left by a signal, and ends with the process.
    line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return line.strip() if line else None


async def _all_written(reader: "Reader") -> None:
    """Wait until stderr has what was shown, so that it stands above what comes next."""
    for outlet in reader.outlets:
        await outlet.drained()
