"""What goes on in a server beside its requests."""

import os
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import trio
from trio.testing import MockClock

from heddle.installation import NOTHING
from heddle.launch import RunOptions
from heddle.policy_counts import PolicyCounts
from heddle.server.following.sse import HEARTBEAT
from heddle.server.logs import ServerLog
from heddle.server.metrics import processes
from heddle.server.numbers import Numbers, plugin_numbers
from heddle.server.serve import Loaded, open_service
from heddle.server.settings import Settings


async def test_silent_streams_are_woken_now_and_then(autojump_clock: MockClock) -> None:
    beats: list[float] = []

    class Stream:
        """Something to wake."""

        def pulse(self) -> None:
            beats.append(trio.current_time())

    stream: Any = Stream()
    with (
        Path(os.devnull).open("wb") as nowhere,
        closing(ServerLog(json=False, descriptor=nowhere.fileno())) as log,
    ):
        loaded = Loaded(Settings(), RunOptions(), NOTHING)
        async with open_service(loaded, log) as service:
            service.pulse.add(stream)
            await trio.sleep(2.5 * HEARTBEAT)
    assert beats == [HEARTBEAT, 2 * HEARTBEAT]


def test_processes_of_plugins_are_counted() -> None:
    def plugin(started: int, retired: int) -> Any:
        return SimpleNamespace(counts=SimpleNamespace(started=started, retired=retired))

    counts = PolicyCounts()
    counts.installed({"never": plugin(0, 0), "once": plugin(1, 0), "often": plugin(5, 2)})
    restarts, retired = plugin_numbers(counts)
    found = {
        (sample.name, sample.labels["plugin"]): sample.value
        for metric in processes(Numbers(restarts=restarts, retired=retired))
        for sample in metric.samples
    }
    assert found == {
        ("heddle_plugin_restarts_total", "never"): 0,
        ("heddle_plugin_restarts_total", "once"): 0,
        ("heddle_plugin_restarts_total", "often"): 4,
        ("heddle_plugin_retired_total", "never"): 0,
        ("heddle_plugin_retired_total", "once"): 0,
        ("heddle_plugin_retired_total", "often"): 2,
    }
