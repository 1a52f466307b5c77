"""Which names a server insists on, and when."""

import pytest
from msgspec import Struct

from heddle.server import http
from heddle.server.http import Refusal
from heddle.server.names import names_of
from heddle.server.settings import Settings


class Bound(Struct):
    """Where a server listens."""

    host: str
    address: str


LOCAL = Bound("Box.Example.", "http://127.0.1.1:4319")
SIX = Bound("::1", "https://[::1]:4319")
ANYWHERE = Bound("0.0.0.0", "http://0.0.0.0:4319")
PATH = Bound("", "unix:/run/127.0.0.1")


@pytest.mark.parametrize(
    ("bound", "settings", "insists"),
    [
        ([LOCAL], Settings(), True),
        ([SIX], Settings(cors_origins=frozenset({"https://app.example"})), True),
        ([LOCAL, SIX], Settings(), True),
        ([LOCAL, ANYWHERE], Settings(), False),
        ([ANYWHERE], Settings(), False),
        ([PATH], Settings(), False),
        ([LOCAL], Settings(auth_token="t"), False),
        ([LOCAL], Settings(cors_origins=frozenset({"*"})), False),
    ],
)
def test_a_server_for_this_machine_alone_insists_on_its_names(
    bound: list[Bound], settings: Settings, *, insists: bool
) -> None:
    assert (names_of(settings, bound) is not None) is insists


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("box.example", True),
        ("BOX.example.:4319", True),
        ("app.example:8080", True),
        ("other.example", False),
        ("app.example.other", False),
        ("http", False),
    ],
)
def test_it_goes_by_the_name_it_was_bound_to_and_those_of_its_pages(
    host: str, *, known: bool
) -> None:
    pages = frozenset({"https://App.example:443", "null", "http://["})
    names = names_of(Settings(cors_origins=pages), [LOCAL])
    assert names is not None
    if known:
        names.check(host)
    else:
        with pytest.raises(Refusal):
            names.check(host)


def test_a_listener_knows_what_was_asked_for() -> None:
    listeners = http.bind("localhost", 0)
    for listener in listeners:
        listener.close()
    assert {each.host for each in listeners} == {"localhost"}
