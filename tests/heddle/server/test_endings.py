"""What callers are told of an end, and what they are not."""

import gc
import weakref

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


def test_an_error_lets_go_of_the_code_that_raised_it() -> None:
    class Large:
        pass

    def fail() -> None:
        large = Large()
        held.append(weakref.ref(large))
        try:
            raise KeyError
        except KeyError as error:
            raise ExceptionGroup("g", [ValueError(), OSError()]) from error

    held: list[weakref.ref[Large]] = []
    kept: list[BaseException] = []
    try:
        fail()
    except ExceptionGroup as group:
        kept.append(group)
    kept[0].__context__ = kept[0]  # a circle ends too
    forget_frames(kept[0])
    gc.collect()
    assert held[0]() is None
