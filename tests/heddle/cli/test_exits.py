import pytest
import trio

from heddle.cli.entry import only
from heddle.cli.exits import (
    STATUSES,
    HungUp,
    Interrupted,
    Terminated,
    WrongUsage,
    status_of,
    told,
)
from heddle.standard_streams import OutputFailed
from plugins_host import Fault


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Fault("x"), 1),
        (OutputFailed("x"), 1),
        (WrongUsage("x"), 2),
        (Interrupted(), 130),
        (KeyboardInterrupt(), 130),
        (Terminated(), 143),
        (HungUp(), 129),
        (ZeroDivisionError(), 1),
        (trio.TrioInternalError(), 1),
    ],
)
def test_every_error_has_a_status(error: BaseException, status: int) -> None:
    assert status_of(error) == status


def test_a_kind_of_its_own_has_the_status_of_what_it_is_a_kind_of() -> None:
    class Mine(WrongUsage):
        pass

    assert status_of(Mine("x")) == STATUSES[WrongUsage]


def test_a_fault_is_told_in_its_own_words_fit_for_a_terminal() -> None:
    fault = Fault("no \x1b[31mred", where="flow.json", fix="Paint it.")
    assert told(fault) == "Error: flow.json: no \\x1b[31mred. Paint it."


def test_a_bug_is_told_as_one() -> None:
    assert told(ValueError("x")) == (
        "Error: heddle itself failed: ValueError: x. "
        "This is a bug; run with --debug and report the traceback."
    )


def test_an_interruption_is_told_in_a_word() -> None:
    assert told(Terminated()) == told(KeyboardInterrupt()) == "Interrupted."


def test_a_group_of_one_is_its_exception() -> None:
    fault = Fault("x")
    assert only(BaseExceptionGroup("", [ExceptionGroup("", [fault])])) is fault
    two = ExceptionGroup("", [fault, fault])
    assert only(two) is two
