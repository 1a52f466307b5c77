"""What policies said, counted for those who are asked together, and told for each."""

import pytest

from heddle.policy_counts import BUCKETS, PolicyCounts
from plugins_host import Half, Seam


def test_who_is_asked_together_is_counted_each() -> None:
    counts = PolicyCounts()
    counts.answered(Seam.NODE, Half.BEFORE, ("Audit", "Gate"), "proceed", 0.0004)
    counts.answered(Seam.NODE, Half.BEFORE, ("Audit", "Gate"), "proceed", 0.002)
    counts.answered(Seam.NODE, Half.BEFORE, ("Gate",), "reject", 60.0)
    counts.answered(Seam.NODE, Half.AFTER, ("Gate",), "pass", 0.002)
    counts.failed(Seam.NODE, Half.BEFORE, "Gate")
    tallies = counts.tallies
    assert list(tallies) == [
        (Seam.NODE, Half.BEFORE, "Audit"),
        (Seam.NODE, Half.BEFORE, "Gate"),
        (Seam.NODE, Half.AFTER, "Gate"),
    ]
    audit, gate, after = tallies.values()
    assert (audit.actions, audit.failures) == ({"proceed": 2}, 0)
    assert audit.seconds == pytest.approx(0.0024)
    assert gate.actions == {"proceed": 2, "reject": 1}
    assert (gate.failures, gate.consultations) == (1, 4)
    assert gate.seconds == pytest.approx(60.0024)
    assert gate.buckets == [1, 0, 1, *[0] * (len(BUCKETS) - 3), 1]
    assert (after.actions, after.buckets[2]) == ({"pass": 1}, 1)


def test_what_was_told_once_does_not_change_with_what_is_counted_later() -> None:
    counts = PolicyCounts()
    counts.answered(Seam.NODE, Half.BEFORE, ("Gate",), "proceed", 0.002)
    [told] = counts.tallies.values()
    counts.answered(Seam.NODE, Half.BEFORE, ("Gate",), "proceed", 0.002)
    assert (told.consultations, told.buckets[2]) == (1, 1)
