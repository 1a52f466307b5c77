"""How much smaller each benchmark is with ``--quick``: does it work, and roughly how fast.

The words are the benchmark's own constants. Limits are shown but are no verdict: a number
of a second's work on a busy machine promises nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

QUICK: Final[Mapping[str, Mapping[str, Any]]] = {
    "actors": {"CALLS": 320, "ACTORS": 1_000},
    "cli": {"ROUNDS": 3},
    "consultation": {"PAIRS": 3},
    "documents": {"CALLS": 200, "LARGE": (100, 1_000), "ROUNDS": 3},
    "encoder": {"EVENTS": 1_000, "ROUNDS": 2},
    "engine": {"WAITING": 2_000},
    "event_log": {"EVENTS": 1_000, "WAITING": 100},
    "http": {"SECONDS": 0.2, "ROUNDS": 1, "IDLE": 500, "WAITING": 100, "LEAVING": 20},
    "long_bodies": {"ROUNDS": 1},
    "model_client": {"CALLS": 20},
    "plugin_start": {"PAIRS": 3},
    "policies": {"ROUNDS": 4, "WARM": 5},
    "provider": {"PAIRS": 3},
    "server": {"SECONDS": 0.2, "ROUNDS": 1, "WIDE": (10, 100)},
    "server_crowd": {
        "WAITING": 100,
        "CANCELLED": 5,
        "RUNS": 2_000,
        "SAMPLES": 4,
        "EVENTS": 1_000,
        "READERS": 20,
        "FOLLOWED": 1,
    },
    "server_start": {"ROUNDS": 3},
    "subflows": {"ITEMS": 200, "ROUNDS": 3},
    "terminal": {"ROUNDS": 2, "ASKED": 72, "UNASKED": 90, "SCRIPTED": 30, "SECONDS": 1},
    "tools": {"CALLS": 20},
}


@contextmanager
def quick(subject: str, module: ModuleType) -> Iterator[None]:
    """A benchmark with its small sizes, for a while."""
    small = QUICK[subject]
    whole = {name: getattr(module, name) for name in small}
    for name, value in small.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in whole.items():
            setattr(module, name, value)
