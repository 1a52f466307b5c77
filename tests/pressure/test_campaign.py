"""A short campaign against a server, and that a campaign would see what it looks for.

``make chaos`` does the same for two minutes.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.pressure.campaign import campaign
from tests.pressure.cast import Does, write_cast
from tests.pressure.checks import Holdings, check_log, leftovers
from tests.pressure.disturbances import DISTURBANCES, Done
from tests.pressure.load import Fate, fate_of
from tests.pressure.models import Models
from tests.pressure.plan import LENGTHS, Plan, Step
from tests.pressure.report import Report
from tests.pressure.served import CLOCK
from tests.pressure.stage import Stage, open_stage
from tests.pressure.verdicts import AFTER, Found, judge

SEED = int(os.environ.get("HEDDLE_SEED", "1"))


async def test_a_server_comes_through_a_short_campaign(tmp_path: Path) -> None:
    plan = Plan(SEED, seconds=2.5, clients=4, limit=2.0)
    report = await campaign(plan, tmp_path)
    assert not report.bad, report.text()
    assert {each.step.kind for each in report.done} == set(DISTURBANCES)
    assert report.words["completed"] >= 5
    assert sum(report.logged.values()) >= sum(report.ways.values()) / 2


# What is done follows from the seed.


def test_the_schedule_is_a_function_of_the_seed() -> None:
    assert Plan(7).schedule() == Plan(7).schedule()
    assert Plan(7).schedule() != Plan(8).schedule()


@pytest.mark.parametrize("seconds", [1.0, 3.0, 30.0, 120.0])
def test_every_disturbance_has_its_turn_and_is_over_before_the_end(seconds: float) -> None:
    for seed in range(20):
        steps = Plan(seed, seconds).schedule()
        kinds = Counter(step.kind for step in steps)
        assert set(kinds) == set(LENGTHS) == set(DISTURBANCES)
        assert max(kinds.values()) - min(kinds.values()) <= 1
        assert [step.at for step in steps] == sorted(step.at for step in steps)
        assert all(step.at + step.seconds <= 1.4 * seconds for step in steps)


def test_what_a_client_asks_for_is_a_function_of_the_seed() -> None:
    def asked(seed: int) -> list[Fate]:
        random = Plan(seed).client(3)
        return [fate_of(seed, 3, number, random) for number in range(50)]

    assert asked(7) == asked(7)
    assert asked(7) != asked(8)


# What is looked for is seen.


def fate(**fields: object) -> Fate:
    made = Fate(
        nonce="nonce-1c0-1-z",
        way="buffered",
        flow="straight",
        who="Py",
        does=Does.GOES_ON,
        mode="ok",
        leaves="",
        patience=9.0,
        relayed=False,
        began=100.0,
        ended=101.0,
        run="0.abc",
        odd=[],
    )
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def done(kind: str, began: float, over: float) -> Done:
    return Done(Step(1.0, kind, 0.5, 0.0), began, over)


THREW = "PolicyFailed", "middleware 'Py' of plugin 'py': it failed: nonce-1c0-1-z throws"
OTHER = "PolicyFailed", "middleware 'Py' of plugin 'py': it failed: nonce-2c0-1-z throws"
KILLED = "PolicyFailed", "the process of plugin 'py' was ended by SIGKILL"
DONE_STATE = {"nonce": "nonce-1c0-1-z", "py": "nonce-1c0-1-z", "js": "nonce-1c0-1-z"}


def test_what_a_run_asked_for_is_its_own() -> None:
    threw = fate(ending="failed", error=THREW, endings=1, does=Does.THROWS)
    assert judge(threw, []) == "its policy threw"
    assert judge(fate(ending="completed", endings=1, state=DONE_STATE), []) == "completed"
    killed = fate(ending="failed", error=KILLED, endings=1)
    assert judge(killed, [done("kill a policy", 100.5, 100.5)]) == "its policy was killed"


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({"ending": "completed", "state": DONE_STATE, "marks": {"nonce-2c0-1-z"}}, []),
        ({"ending": "completed", "state": {}}, []),
        ({"ending": "completed", "state": DONE_STATE, "endings": 2}, []),
        ({"ending": "completed", "state": DONE_STATE, "does": Does.THROWS}, []),
        ({"ending": "completed", "state": DONE_STATE, "flow": "tool"}, []),
        ({"ending": "completed", "state": DONE_STATE, "odd": ["no end of it"]}, []),
        ({"ending": "failed", "error": THREW}, []),
        ({"ending": "failed", "error": OTHER, "does": Does.THROWS}, []),
        ({"ending": "failed", "error": KILLED}, [done("kill a policy", 102.0, 102.0)]),
        (
            {"ending": "failed", "error": KILLED},
            [done("kill a policy", 90.0, 99.0 - AFTER)],
        ),
        ({"ending": "cancelled", "error": ("RunCancelled", "it was cancelled")}, []),
        ({"ending": "", "error": ("", "")}, [done("kill a worker", 100.5, 100.5)]),
        ({"ending": "failed", "error": ("KeyError", "'x'")}, []),
    ],
    ids=[
        "foreign data",
        "no policy",
        "two ends",
        "no failure",
        "no tool",
        "odd",
        "unasked",
        "another's failure",
        "too late",
        "too early",
        "uncancelled",
        "no end",
        "unknown",
    ],
)
def test_what_is_not_a_run_s_own_is_seen(
    fields: dict[str, object], steps: list[Done]
) -> None:
    with pytest.raises(AssertionError):
        judge(fate(**fields), steps)


NOTHING = Holdings(({"pipe": 3},), (2, 2), {}, (), 100)


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (Holdings(({"pipe": 30},), (2, 2), {}, (), 100), "open files grew from 3 to 30"),
        (Holdings((), (), {}, (), 100), "0 workers are there instead of 2"),
        (Holdings((), (2, 2), {7: "sleep 30"}, (), 100), "process 7 is left: sleep 30"),
        (Holdings((), (2, 2), {}, ("a/b",), 100), "temporary files are left"),
        (Holdings((), (2, 2), {}, (), 1 << 30), "memory grew"),
        (Holdings((), (3, 2), {}, (), 100), "workers have"),
    ],
)
def test_what_a_server_holds_on_to_is_seen(
    now: Holdings, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.pressure.checks.languages", lambda: ["py", "js"])
    assert not leftovers(NOTHING, NOTHING)
    [found] = leftovers(NOTHING, now)
    assert found.startswith(told)


def test_a_log_that_tells_two_ends_or_none_is_seen(tmp_path: Path) -> None:
    stage = Stage(tmp_path, None, Models())  # type: ignore[arg-type]
    end = {"event": "run", "run": "0.abc", "status": "failed"}
    completed = fate(ending="completed")
    assert check_log(stage, [completed], [])[1] == [
        "run 0.abc (nonce-1c0-1-z) has no end in the log"
    ]
    stage.log += [end, end, {"text": "Traceback"}, {"event": "x", "y": "nonce-1c0-1-z"}]
    counted, found = check_log(stage, [completed], [])
    assert counted == {"failed": 2}
    assert len(found) == 4


def test_a_report_says_how_to_do_the_same_again() -> None:
    words = Counter({"completed": 2, "found": 1})
    found = [Found(fate(), "it has data of another")]
    step = done("kill a policy", 101.0, 101.0)
    report = Report(Plan(7, 30), 100.0, [step], words, words, words, found, ["odd"], [])
    text = report.text()
    assert "kill a policy" in text
    assert "found: 2" in text
    assert "nonce-1c0-1-z" in text
    assert text.endswith("The same again: make chaos SEED=7 SECONDS=30\n")


# A world that can be changed.


async def test_clocks_are_stepped_and_disks_filled_for_the_server_alone(
    tmp_path: Path,
) -> None:
    flags = write_cast(tmp_path, "http://127.0.0.1:9/v1")
    async with open_stage(tmp_path, flags, Models()) as stage:
        stage.set_clock(86_400.0)
        assert (tmp_path / "clock").read_bytes() == CLOCK.pack(86_400.0)
        stage.fill()
        if stage.disk:
            with pytest.raises(OSError, match="No space"):
                (stage.temporary / "more").write_bytes(b"x" * 8192)
            assert not list((tmp_path / "tmp").iterdir())
        stage.empty()
        stage.process.terminate()
        await stage.line("draining")
        stopped = await stage.line("draining")
        listened = await stage.line("listening")
        assert stopped["timestamp"][:10] > listened["timestamp"][:10]
