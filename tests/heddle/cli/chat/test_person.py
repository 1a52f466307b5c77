"""What a person is shown before a tool runs, and how the answer is read."""

import pytest

from heddle.cli.chat.person import VALUE_SHOWN, confirmation_text, read_decision
from heddle.engine.questions import Confirmation, Decision

YES = Decision(approved=True)


def no(reason: str = "") -> Decision:
    return Decision(approved=False, reason=reason)


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        *((yes, YES) for yes in ("y", "Y", "yes", " Yes. ", "YES!")),
        *((nothing, no()) for nothing in ("", "  ", "n", "N", "no", "No.", "no!")),
        ("no, wrong folder", no("wrong folder")),
        ("No: wrong folder", no("wrong folder")),
        ("n - wrong folder", no("wrong folder")),
        ("wrong folder", no("wrong folder")),
        ("nothing there", no("nothing there")),
        ("yes, but only /tmp", no("yes, but only /tmp")),
        ("yesterday", no("yesterday")),
    ],
)
def test_only_a_plain_yes_is_one_and_all_else_is_a_reason(
    said: str, decision: Decision
) -> None:
    assert read_decision(said) == decision


def test_the_question_shows_who_wants_to_run_what_with_which_arguments() -> None:
    question = Confirmation(
        "wipe", {"path": "/a\x1b[2J"}, "Deletes.\nAll of it.", "clean", None, "1", "bob"
    )
    assert confirmation_text(question) == (
        '? clean (bob) wants to run wipe {"path":"/a\\u001b[2J"}\n'
        "    Deletes.\\nAll of it.\n"
        "  yes, or no and why"
    )


def test_arguments_that_are_cut_are_said_to_be() -> None:
    question = Confirmation("t", {"x": "a" * 3000}, "", "n", ("each", 2, "n"))
    text = confirmation_text(question)
    assert text.startswith("? each[2] / n wants to run t ")
    cut = len('{"x":""}') + 3000 - VALUE_SHOWN
    assert f"… ({cut} characters more)" in text
