"""How the program ends: exit statuses as a table over error classes, and their telling.

0    done
1    the run or the document failed, or its output could not be written
2    wrong usage
130  interrupted; 143 and 129 for the other signals that ask to end
"""

from collections.abc import Iterator, Mapping, Sequence
from signal import Signals
from typing import Final

from heddle.cli.text.wording import fit
from heddle.cli.text.wrapping import wrapped
from plugins_host import Fault, sentence


class WrongUsage(Fault):
    """What was typed cannot be meant: an option's value, an option too early.

    ``quoted`` are the lines to show below, of the text that it is about.
    """

    def __init__(
        self, what: str, *, where: str = "", fix: str = "", quoted: Sequence[str] = ()
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.quoted = tuple(quoted)


class DocumentRefused(Exception):
    """Raised from the error of a document; ``lines`` are what a person reads of it."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class Interrupted(Fault):
    """A signal asked the run to end, and it has ended."""

    number: Signals = Signals.SIGINT

    def __init__(self) -> None:
        super().__init__(f"interrupted by {self.number.name}")


class Terminated(Interrupted):
    """The same, by SIGTERM."""

    number = Signals.SIGTERM


class HungUp(Interrupted):
    """The same, because the terminal is gone."""

    number = Signals.SIGHUP


INTERRUPTIONS: Final[Mapping[int, type[Interrupted]]] = {
    each.number: each for each in (Interrupted, Terminated, HungUp)
}

STATUSES: Final[Mapping[type[BaseException], int]] = {
    BaseException: 1,
    Fault: 1,
    WrongUsage: 2,
    KeyboardInterrupt: 128 + Signals.SIGINT,
    **{each: 128 + each.number for each in INTERRUPTIONS.values()},
}


def status_of(error: BaseException) -> int:
    """The exit status for an error: that of its closest class in `STATUSES`."""
    return next(STATUSES[each] for each in type(error).__mro__ if each in STATUSES)


def told(error: BaseException, width: int | None = None) -> str:
    """What a person reads of an error, fit for a terminal of ``width`` columns: one short
    paragraph, and the lines of a text that it is about."""
    match error:
        case Interrupted() | KeyboardInterrupt():
            return "Interrupted."
        case DocumentRefused(lines=lines):
            return "\n".join(lines)
        case WrongUsage(quoted=quoted):
            return "\n".join((*_paragraph(str(error), width), *quoted))
        case Fault():
            return "\n".join(_paragraph(str(error), width))
        case _:
            said = sentence(
                f"heddle itself failed: {type(error).__name__}: {error}",
                fix="This is a bug; run with --debug and report the traceback.",
            )
            return "\n".join(_paragraph(said, width))


def _paragraph(text: str, width: int | None) -> Iterator[str]:
    return wrapped(f"Error: {fit(text)}", width)
