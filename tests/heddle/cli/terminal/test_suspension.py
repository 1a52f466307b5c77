"""Who has Ctrl-Z ignored, or no shell, is not stopped by it."""

import signal
import subprocess
import sys
import threading

from heddle.cli.terminal.suspension import Suspension


def test_a_signal_that_is_ignored_stays_so() -> None:
    told: list[str] = []
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        suspension = Suspension(lambda: told.append("left"), lambda: told.append("back"))
        with suspension.heeding():
            assert signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN
            suspension.suspend()
        assert signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTSTP, before)
    assert told == []


ORPHAN = """
import signal, threading
from heddle.cli.terminal.suspension import Suspension
with Suspension(lambda: print("left"), lambda: print("back")).heeding() as _:
    pass
suspension = Suspension(lambda: print("left"), lambda: print("back"))
with suspension.heeding():
    thread = threading.Thread(target=suspension.suspend)
    thread.start()
    thread.join()
assert signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
print("ended")
"""


def test_a_process_that_nobody_could_have_go_on_goes_on_by_itself() -> None:
    """The kernel does not stop the only process group of a session."""
    command = [sys.executable, "-c", ORPHAN]
    done = subprocess.run(
        command, capture_output=True, start_new_session=True, timeout=30, check=True
    )
    assert done.stdout.split() == [b"left", b"back", b"ended"]


LONG = """
import threading
from heddle.cli.terminal.suspension import Suspension

def leave():
    thread.join(1.2)
    print("waits" if thread.is_alive() else "goes on")

suspension = Suspension(leave, lambda: None)
with suspension.heeding():
    thread = threading.Thread(target=suspension.suspend)
    thread.start()
    thread.join()
"""


def test_whoever_read_the_key_waits_for_as_long_as_the_process_is_stopped() -> None:
    command = [sys.executable, "-c", LONG]
    done = subprocess.run(
        command, capture_output=True, start_new_session=True, timeout=30, check=True
    )
    assert done.stdout.split() == [b"waits"]


def test_nothing_is_stopped_where_no_signal_is_heeded() -> None:
    suspension = Suspension(lambda: None, lambda: None)
    thread = threading.Thread(target=suspension.suspend)
    thread.start()
    thread.join()
