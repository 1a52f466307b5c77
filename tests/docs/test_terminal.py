"""What the page about a run in the terminal says is so."""

import re
from pathlib import Path
from typing import Final

import pytest

from docs.screenshots.scenes import SCENES, settled, showing
from tests.docs.claims import check, points
from tests.examples import readme

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "terminal.md").read_text(encoding="utf-8")

HELD: Final = {
    "| a terminal |": "test_a_run_is_a_tree_while_it_goes_on_and_a_summary_when_it_is_over",
    "| a file, a pipe,": "test_a_terminal_that_can_do_nothing_gets_plain_lines",
    "`--quiet`": "test_quiet_shows_the_result_alone",
    "`--verbose`": "test_verbose_leaves_everything_above_the_summary",
    "`--json`": "test_json_is_lines_of_json_on_a_terminal_too",
    "`--protocol NAME`": "test_the_protocol_puts_every_event_on_stdout",
    "`--interactive`": "test_frames_and_a_piped_state_are_refused_with_a_chat",
    "The first line is the run": "test_a_run_as_it_is_seen",
    "A node shows how long": "test_a_run_as_it_is_seen",
    "A warning names": "test_a_warning_stays_with_its_node_and_leaves_with_it",
    "more to show than": "test_any_run_fits_any_screen_and_acts_on_none",
    "within 150 ms": (
        "test_it_is_on_the_screen_within_150_ms_of_processor_time_and_before_imports"
    ),
    "drawn less often": "test_a_picture_that_is_slow_is_drawn_less_often",
    "follows the size": "test_a_resized_terminal_is_drawn_anew",
    "Ctrl-Z suspends": (
        "test_ctrl_z_suspends_a_run_and_it_goes_on_below_what_the_shell_wrote"
    ),
    "no mode, no cursor": "test_whatever_ends_a_run_leaves_the_terminal_usable",
    "cannot act on the terminal": "test_nothing_that_is_said_acts_on_a_terminal",
    "Each node with the time": "test_only_the_longest_nodes_are_told_and_the_failed_ones",
    "Each tool with": "test_a_run_as_it_is_told",
    "Each policy with": (
        "test_what_a_policy_did_is_told_in_its_colour_with_its_name_and_seam"
    ),
    "has a summary too": "test_a_run_that_failed_and_one_that_was_stopped_say_so",
    "| 0 |": "test_the_result_is_the_only_thing_on_stdout",
    "| 1 |": "test_a_failure_is_told_below_what_happened",
    "| 2 |": "test_every_error_has_a_status",
    "| 130,": "test_a_signal_ends_the_run_its_tools_and_its_folders",
}
"""Claims of the page, and the tests that hold them."""


def without_times(printed: str) -> str:
    """As `readme.settled`, whichever nodes take their time."""
    return readme.settled(re.sub(r"^< .*\n", "", printed, flags=re.MULTILINE))


def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    found = readme.blocks(PAGE)
    assert len(found) == 4
    for block in found:
        printed = readme.run(block.command, ROOT, tmp_path)
        assert without_times(printed) == without_times(block.printed), block.head


@pytest.mark.parametrize("name", ["live", "summary"])
def test_a_run_looks_as_the_page_shows_it(name: str) -> None:
    shown = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    with showing(SCENES[name]) as screen:
        assert settled(screen.text) == shown[name == "summary"]


def test_every_claim_is_held_by_a_test() -> None:
    claims = points(PAGE, "flag", "stderr", "exit")
    assert len(claims) > 20
    check(claims, HELD)


def test_what_the_page_says_of_time_is_what_is_kept() -> None:
    from heddle.cli.live.reader import EACH, SHARE

    assert "at most ten times a second" in PAGE.replace("\n  ", " ")
    assert EACH == 0.1
    assert "a twentieth of the time that passes" in PAGE.replace("\n  ", " ")
    assert SHARE == 1 / 20
