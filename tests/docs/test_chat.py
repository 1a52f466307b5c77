"""What the page about chats says is so."""

import re
from pathlib import Path
from typing import Final

from heddle.cli.chat import said_before
from heddle.cli.chat.commands import COMMANDS
from heddle.cli.chat.line_editor import KEYS
from tests.docs.claims import check, points
from tests.heddle.cli.conftest import COMMAND, surroundings
from tests.support.screen import Screen

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "chat.md").read_text(encoding="utf-8")

HELD: Final = {
    "first input of type string": "test_a_message_goes_to_the_first_text_that_is_not_given",
    "The answer is the flow's": "test_the_answer_is_the_text_of_a_result",
    "grows as the model": "test_an_answer_grows_as_it_is_written_and_is_there_once",
    "so they can be copied": "test_a_line_of_code_is_as_long_as_it_is",
    "not the last one": "test_nodes_on_the_way_are_seen_while_they_write_and_then_named",
    "A tool call has": "test_tool_calls_and_what_policies_did_are_seen_as_they_happen",
    "taken back is gone": "test_text_that_stays_already_is_said_to_be_taken_back",
    "A message of the flow,": (
        "test_what_the_flow_says_is_shown_and_what_the_person_typed_is_not_again"
    ),
    "A turn that fails": "test_a_failed_answer_is_told_and_the_chat_goes_on",
    "cannot act": "test_what_is_shown_does_nothing_to_the_terminal",
    "failed or was cancelled": "test_a_turn_without_an_answer_leaves_nothing",
    "takes the last turn back before": (
        "test_earlier_turns_go_to_the_agents_and_a_retry_replaces_the_last"
    ),
    "`/help`": "test_commands_are_told_guessed_and_completed",
    "| `/retry`": "test_taking_back_forgets_the_last_turn_and_no_other",
    "`/new`": "test_a_new_conversation_begins_without_the_turns_before",
    "a pipe or a file ends": (
        "test_a_piped_chat_in_which_a_turn_failed_ends_like_a_failed_run"
    ),
    "`/state`": "test_the_state_is_the_last_result_and_what_the_next_turn_begins_with",
    "`/exit`": "test_other_names_stand_for_commands",
    "`//etc`": "test_anything_else_is_a_message",
    "behind a slash": "test_a_typo_gets_a_guess_and_anything_else_the_choices",
    "| Enter": "test_an_answer_grows_as_it_is_written_and_is_there_once",
    "| Alt-Enter": "test_a_message_has_several_lines_when_they_are_typed_or_pasted",
    "| Up, Down": "test_what_was_sent_is_at_hand_in_the_next_session",
    "| Ctrl-R": "test_what_was_sent_is_at_hand_in_the_next_session",
    "| Tab": "test_commands_are_told_guessed_and_completed",
    "| Ctrl-C": ("test_what_is_written_is_seen_before_it_is_whole_and_ctrl_c_cancels_it"),
    "| Ctrl-Z": "test_ctrl_z_suspends_and_fg_comes_back_to_what_is_typed",
    "suspends an answer": ("test_ctrl_z_suspends_an_answer_too_and_it_goes_on_below"),
    "than 16 KiB, and": (
        "test_no_more_is_read_at_once_than_takes_a_moment_and_nothing_is_lost"
    ),
    "| Ctrl-D": "test_what_was_sent_is_at_hand_in_the_next_session",
    "A paste": "test_a_message_has_several_lines_when_they_are_typed_or_pasted",
    "is typed while": (
        "test_what_is_written_is_seen_before_it_is_whole_and_ctrl_c_cancels_it"
    ),
    "once more": "test_the_first_interrupt_cancels_and_the_second_is_for_the_program",
    "What a flow asks": "test_questions_of_the_flow_are_answered_here",
    "`yes` is": "test_only_a_plain_yes_is_one_and_all_else_is_a_reason",
    "at a question": "test_questions_of_the_flow_are_answered_here",
    "Nobody else may": "test_nobody_else_may_read_it",
    "more than 16 KiB": "test_a_very_long_message_is_not_kept",
    "cannot be written": "test_a_history_that_cannot_be_kept_is_told_once",
    "`HEDDLE_HISTORY=0`": "test_where_it_is_follows_the_base_directories_and_a_switch",
    "is a file or a pipe": "test_each_line_is_a_run_and_its_answer_a_line",
    "`NO_COLOR=1`": "test_no_colour_takes_colours_and_nothing_else",
    "without UTF-8": "test_a_chat_of_a_terminal_without_utf_8_is_in_ascii",
    "in plain lines": ("test_ctrl_c_cancels_an_answer_of_a_dumb_terminal_and_not_the_chat"),
    "The window": "test_a_resized_terminal_is_drawn_anew",
    "The terminal is as": "test_whatever_ends_a_chat_leaves_the_terminal_usable",
}
"""Claims of the page, and the tests that hold them."""


def test_a_chat_looks_as_the_page_shows_it(tmp_path: Path) -> None:
    command = re.search(r"```console\n\$ heddle (.*?)\n```", PAGE, re.DOTALL)
    shown = re.search(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    assert command is not None
    assert shown is not None
    arguments = command[1].replace("\\\n>", "").split()
    environment = surroundings(tmp_path, {"XDG_STATE_HOME": str(tmp_path)})
    with Screen([*COMMAND, *arguments], cwd=ROOT, env=environment) as screen:
        screen.wait_for("› Type a message")
        screen.type("please tidy up\r")
        screen.wait(lambda s: s.text.endswith("\n\n›"))
        assert re.sub(r"\d+\.\d s", "0.0 s", screen.text) == shown[1]


def test_every_claim_is_held_by_a_test() -> None:
    claims = points(PAGE, "type", "key", "where")
    assert len(claims) > 30
    check(claims, HELD)


def test_the_page_has_every_key_and_command() -> None:
    _, commands, rest = PAGE.partition("## Commands")
    commands, _, keys = rest.partition("## Keys")
    keys, _, _ = keys.partition("## Questions")
    assert set(re.findall(r"^\| `(/\w+)`", commands, re.MULTILINE)) == set(COMMANDS)
    assert re.findall(r"^\| (\S.*?) \| [a-z]", keys, re.MULTILINE)[1:] == list(KEYS)


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert said_before.MOST == 256 * 1024
    assert said_before.LONGEST == 16 * 1024
    assert said_before.NAME in PAGE
    assert f"{said_before.SWITCH}=0" in PAGE
