"""Processes are kept on cores while they are measured, and let go again."""

import os
import subprocess
import sys

import pytest

from bench.placement import CAN_CHOOSE, on_cores


@pytest.mark.skipif(not CAN_CHOOSE, reason="there is one core, or nobody is confined")
def test_children_are_on_the_other_core_and_may_end_meanwhile() -> None:
    before = os.sched_getaffinity(0)
    command = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE) as stays,
        subprocess.Popen(command, stdin=subprocess.PIPE) as ends,
    ):
        with on_cores(0, 1):
            assert os.sched_getaffinity(0) == {min(before)}
            assert os.sched_getaffinity(stays.pid) == {sorted(before)[1]}
            ends.communicate(b"\n")
        assert os.sched_getaffinity(0) == before
        assert os.sched_getaffinity(stays.pid) == before
        stays.communicate(b"\n")
