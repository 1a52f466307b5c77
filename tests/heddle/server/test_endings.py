"""What callers are told of an end, and what they are not."""

import gc
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.server.endings import (
    Cancelled,
    Completed,
    Failed,
    Status,
    concealing,
    forget_frames,
)


def test_every_ending_is_told_by_its_status() -> None:
    tags = {each.__struct_config__.tag for each in (Completed, Failed, Cancelled)}
    assert tags == {each.value for each in Status} - {Status.RUNNING.value}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read /srv/app/flows/x.json", "cannot read …/x.json"),
        ("in /srv/app: nothing", "in …: nothing"),
        ("'/srv/app'", "'…'"),
        ("/srv/apple and /srv/app.old and /srv/app-2 stay", None),
        ("http://host/v1/srv stays", None),
    ],
)
def test_folders_are_struck_out_where_they_stand(text: str, shown: str | None) -> None:
    conceal = concealing(["/srv/app", "/srv/app/flows/", "/", ""])
    assert conceal(text) == (text if shown is None else shown)


def test_without_folders_nothing_is_struck_out() -> None:
    assert concealing(["/"])("/etc/passwd") == "/etc/passwd"


@given(st.text(), st.lists(st.text(min_size=2)))
def test_any_folder_and_any_text_will_do(text: str, folders: list[str]) -> None:
    concealing(folders)(text)


def fail_with_a_cause() -> None:
    try:
        hold()
    except KeyError as error:
        raise ExceptionGroup("g", [ValueError(), OSError()]) from error


def fail_while_failing() -> None:
    try:
        hold()
    except KeyError:
        raise ExceptionGroup("g", [ValueError()])  # noqa: B904  what it is about


def fail_together() -> None:
    try:
        hold()
    except KeyError as error:
        raise ExceptionGroup("g", [error]) from None


class Large:
    """What a frame holds."""


HELD: list[weakref.ref[Large]] = []


def hold() -> None:
    large = Large()
    HELD.append(weakref.ref(large))
    raise KeyError


@pytest.mark.parametrize("fail", [fail_with_a_cause, fail_while_failing, fail_together])
def test_an_error_lets_go_of_the_code_that_raised_it(fail: Callable[[], None]) -> None:
    kept: list[BaseException] = []
    try:
        fail()
    except ExceptionGroup as group:
        kept.append(group)
    gc.collect()
    assert HELD[-1]() is not None
    forget_frames(kept[0])
    gc.collect()
    assert HELD[-1]() is None


def test_an_error_that_is_its_own_cause_is_forgotten_too() -> None:
    error = ValueError()
    error.__cause__ = error
    forget_frames(error)
    assert error.__traceback__ is None
