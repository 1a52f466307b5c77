"""What the next run of a chat is told of the turns before it."""

from heddle.cli.chat.turns import Turns
from heddle.events import MessageSaid
from plugins_host import Message

ASKED = Message("user", "Who wrote it?")
ANSWERED = Message("assistant", "Ann did.")


def test_an_answered_turn_is_what_was_said_and_answered() -> None:
    turns = Turns()
    turns.begin("Who wrote it?")
    turns.settle("Ann did.", {"result": "Ann did."})
    assert turns.history() == [ASKED, ANSWERED]
    assert turns.result == {"result": "Ann did."}


def test_a_turn_without_an_answer_leaves_nothing() -> None:
    turns = Turns()
    turns.begin("one")
    turns.begin("two")
    assert turns.history() == []
    assert turns.result is None


def test_what_was_said_on_the_way_is_there_once_and_in_order() -> None:
    turns = Turns()
    turns.begin("begin")
    heard = [
        MessageSaid("who", "agent", "Your name?"),
        MessageSaid("who", "user", "Ann"),
        MessageSaid("bye", "agent", "Bye, Ann."),
    ]
    turns.settle("Bye, Ann.", {}, heard)
    assert [(each.role, each.content) for each in turns.history()] == [
        ("user", "begin"),
        ("assistant", "Your name?"),
        ("user", "Ann"),
        ("assistant", "Bye, Ann."),
    ]


def test_an_empty_answer_is_no_message() -> None:
    turns = Turns()
    turns.begin("Who wrote it?")
    turns.settle("", {})
    assert turns.history() == [ASKED]


def test_taking_back_forgets_the_last_turn_and_no_other() -> None:
    turns = Turns()
    assert turns.take_back() is None
    for said in ("one", "two"):
        turns.begin(said)
        turns.settle(said.upper(), {"result": said})
    assert turns.take_back() == "two"
    assert turns.take_back() == "two"
    assert [each.content for each in turns.history()] == ["one", "ONE"]
    assert turns.result == {"result": "one"}


def test_a_failed_turn_is_taken_back_without_touching_the_one_before() -> None:
    turns = Turns()
    turns.begin("Who wrote it?")
    turns.settle("Ann did.", {})
    turns.begin("And when?")
    assert turns.take_back() == "And when?"
    assert turns.history() == [ASKED, ANSWERED]
