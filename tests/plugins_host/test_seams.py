"""The seam table: closed, total, and the same for all of its readers."""
# ruff: noqa: E501  a table of sentences reads best with one a line

from itertools import product
from pathlib import Path

import pytest

from plugins_host.seams import (
    ACTIONS,
    HANDSHAKE_HALVES,
    HANDSHAKE_SEAMS,
    SEAMS,
    Action,
    Half,
    Seam,
    Shown,
    SubscriptionError,
    admitted,
    read_subscription,
    render_markdown,
)

HALVES = [(seam, half) for seam, row in SEAMS.items() for half in row.halves]


def test_every_seam_has_a_row_and_every_row_a_half() -> None:
    assert set(SEAMS) == set(Seam)
    assert all(row.halves for row in SEAMS.values())
    assert len(HALVES) == 9


def test_every_verdict_is_described_and_admitted_somewhere() -> None:
    assert set(ACTIONS) == set(Action)
    assert {action for seam, half in HALVES for action in admitted(seam, half)} == set(
        Action
    )


def test_only_node_error_lacks_a_half() -> None:
    missing = [pair for pair in product(Seam, Half) if not admitted(*pair)]
    assert missing == [(Seam.NODE_ERROR, Half.BEFORE)]


@pytest.mark.parametrize(("seam", "half"), HALVES)
def test_each_half_can_let_things_be_in_its_own_word(seam: Seam, half: Half) -> None:
    consent, other = {
        Half.BEFORE: (Action.PROCEED, Action.PASS),
        Half.AFTER: (Action.PASS, Action.PROCEED),
    }[half]
    assert consent in admitted(seam, half)
    assert other not in admitted(seam, half)


def test_a_retry_is_admitted_where_nothing_has_changed_yet_and_nowhere_else() -> None:
    assert {pair for pair in HALVES if Action.RETRY in admitted(*pair)} == {
        (Seam.NODE_ERROR, Half.AFTER),
        (Seam.MODEL_CALL, Half.AFTER),
    }


@pytest.mark.parametrize(("seam", "half"), HALVES)
def test_a_before_half_is_shown_the_input_and_an_after_half_the_outcome(
    seam: Seam, half: Half
) -> None:
    shows = SEAMS[seam].halves[half].shows
    assert (Shown.INPUT if half is Half.BEFORE else Shown.OUTCOME) in shows


def test_the_handshake_tells_the_table() -> None:
    assert set(HANDSHAKE_SEAMS) == set(HANDSHAKE_HALVES) == {str(seam) for seam in Seam}
    for seam, half in HALVES:
        assert HANDSHAKE_HALVES[seam][half] == admitted(seam, half)
        assert set(HANDSHAKE_SEAMS[seam]) >= set(admitted(seam, half))
    assert HANDSHAKE_SEAMS["agentRound"] == ("proceed", "reject", "pass", "fail")


def test_the_page_is_printed_from_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "seams.md"
    assert page.read_text(encoding="utf-8") == render_markdown()


@pytest.mark.parametrize(("seam", "half"), HALVES)
def test_every_half_can_be_subscribed_to(seam: Seam, half: Half) -> None:
    assert read_subscription({seam.value: [half.value]}, where="p") == {
        seam: frozenset({half})
    }


EVERY = "nodeError, node, toolCall, modelCall, agentRound"
REFUSED = [
    ({"toolcall": ["before"]}, "p: 'toolcall' is not a seam. Did you mean 'toolCall'?"),
    ({"toolResult": ["after"]}, f"p: 'toolResult' is not a seam. Choose from: {EVERY}."),
    (
        {"nodeError": ["before"]},
        "p.nodeError[0]: nodeError has no half 'before'. Choose from: after.",
    ),
    ({"node": ["befor"]}, "p.node[0]: node has no half 'befor'. Did you mean 'before'?"),
    ({"node": ["before", 7]}, "p.node[1]: node has no half 7. Choose from: before, after."),
    (
        {"node": []},
        "p.node: the subscription to node names no half. Name at least one of: before, after.",
    ),
    (
        {"node": "before"},
        "p.node: 'before' is not an array of halves. Write an array of: before, after.",
    ),
    ({}, f"p: this middleware subscribes to no seam. Name at least one of: {EVERY}."),
    (
        ["node"],
        'p: [\'node\'] is not an object of seams. Write it like {"toolCall": ["before"]}.',
    ),
    (None, 'p: None is not an object of seams. Write it like {"toolCall": ["before"]}.'),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "sentence"), REFUSED)
def test_a_subscription_to_what_does_not_exist_is_refused(
    raw: object, sentence: str
) -> None:
    with pytest.raises(SubscriptionError) as caught:
        read_subscription(raw, where="p")
    assert str(caught.value) == sentence


def test_an_endless_value_is_quoted_short() -> None:
    with pytest.raises(SubscriptionError) as caught:
        read_subscription("x" * 10_000, where="p")
    assert len(str(caught.value)) < 200
