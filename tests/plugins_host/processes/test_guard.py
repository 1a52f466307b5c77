"""Tools end when the process that started them is killed, and no others do."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from plugins_host.processes.guard import Guard

PATIENCE = 30.0
STUBBORN = ("/bin/sh", "-c", "trap '' TERM; echo; while :; do sleep 60 & wait $!; done")

KILLED = """
import os, signal, sys
from plugins_host.processes.guard import Guard

guard = Guard()
for group in sys.argv[1:]:
    guard.begins(int(group))
guard.ended(int(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def ends(process: "subprocess.Popen[bytes]") -> int:
    """Its status, once it has ended."""
    return process.wait(PATIENCE)


@pytest.fixture
def stubborn() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Four that lead a group, have a child, and ignore SIGTERM."""
    started = [
        subprocess.Popen(STUBBORN, stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(4)
    ]
    for each in started:
        assert each.stdout is not None
        each.stdout.readline()
    yield started
    for each in started:
        if each.poll() is None:
            os.killpg(each.pid, signal.SIGKILL)
        each.communicate()


def test_who_is_left_by_a_kill_ends_and_who_had_ended_is_let_be(
    stubborn: list["subprocess.Popen[bytes]"],
) -> None:
    groups = [str(each.pid) for each in stubborn]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *groups], check=False, timeout=PATIENCE
    )
    assert killed.returncode == -signal.SIGKILL
    first, spared, *others = stubborn
    assert [ends(each) for each in (first, *others)] == [-signal.SIGKILL] * 3
    assert spared.poll() is None


def test_a_guard_that_has_nothing_to_guard_ends_nobody(
    stubborn: list["subprocess.Popen[bytes]"],
) -> None:
    guard = Guard()
    for each in stubborn:
        guard.begins(each.pid)
    for each in reversed(stubborn):
        guard.ended(each.pid)
    guard.close()
    # One that does end somebody is as quick as one that would have.
    other = Guard()
    other.begins(stubborn[0].pid)
    other.close()
    assert ends(stubborn[0]) == -signal.SIGKILL
    assert [each.poll() for each in stubborn[1:]] == [None] * 3


def test_a_guard_that_is_gone_is_replaced_by_one_that_knows_as_much(
    stubborn: list["subprocess.Popen[bytes]"],
) -> None:
    guard = Guard()
    first, second, *_ = stubborn
    guard.begins(first.pid)
    # As if it had been killed: nobody reads what it is told. It is there, and waits.
    assert guard._pipe is not None
    waits = os.dup(guard._pipe)
    read, write = os.pipe()
    os.dup2(write, guard._pipe, inheritable=False)
    os.close(write)
    os.close(read)
    guard.begins(second.pid)
    guard.close()
    assert [ends(each) for each in (first, second)] == [-signal.SIGKILL] * 2
    os.close(waits)


def test_a_guard_that_does_not_listen_ends_nobody_and_is_replaced(
    stubborn: list["subprocess.Popen[bytes]"],
) -> None:
    first, second, third, _ = stubborn
    guard = Guard()
    guard.begins(first.pid)
    assert guard._pid is not None
    deaf = guard._pid
    os.kill(deaf, signal.SIGSTOP)
    for _ in range(20_000):
        guard.ended(1 << 30)
        if guard._pid is None:
            break
    assert guard._pid is None
    # It does not get to take its pipe's end for heddle's, when it goes on.
    with suppress(ProcessLookupError):
        os.kill(deaf, signal.SIGCONT)
    # One that does end somebody is as quick as it would have been.
    other = Guard()
    other.begins(second.pid)
    other.close()
    assert ends(second) == -signal.SIGKILL
    assert first.poll() is None
    guard.begins(third.pid)
    guard.close()
    assert [ends(each) for each in (first, third)] == [-signal.SIGKILL] * 2


def test_without_a_shell_tools_are_not_guarded_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", fail)
    guard = Guard()
    guard.begins(1)
    guard.ended(1)
    guard.close()


KILLED_TOO = """
import os, signal, sys
from plugins_host.processes.guard import Guard

guard = Guard()
for group in sys.argv[1:]:
    guard.begins(int(group), ends_itself=True)
guard.ended(int(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_who_ends_by_itself_is_given_time_to_and_who_does_not_is_ended() -> None:
    tidy, spared, stuck = (
        subprocess.Popen(
            ["/bin/sh", "-c", f"trap 'exit 9' TERM; echo; {then}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        for then in ("read line; sleep 0.2; exit 7", "read line", "while :; do :; done")
    )
    everyone = (tidy, spared, stuck)
    for each in everyone:
        assert each.stdout is not None
        each.stdout.readline()
    groups = [str(each.pid) for each in everyone]
    subprocess.run([sys.executable, "-c", KILLED_TOO, *groups], check=False)
    assert tidy.stdin is not None
    tidy.stdin.close()
    assert ends(tidy) == 7
    assert ends(stuck) == -signal.SIGKILL
    assert spared.poll() is None
    for each in everyone:
        each.kill()
        with each:
            pass
