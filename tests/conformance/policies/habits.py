"""Policies with the habits of people who write Python: as an operator might be handed them.

All are asked before a node; the one that is asked does what its component type says.
"""

import logging
import os
import sys
from dataclasses import dataclass
from typing import Any

from heddle.plugin import proceed, serve


@dataclass
class Consent:
    """Looks like a verdict, and is none."""

    action: str = "proceed"


async def is_async(event: Any, ctx: Any) -> Any:
    return proceed()


def returns_none(event: Any, ctx: Any) -> Any:
    proceed()


def returns_a_coroutine(event: Any, ctx: Any) -> Any:
    return is_async(event, ctx)


def returns_a_dataclass(event: Any, ctx: Any) -> Any:
    return Consent()


def is_interrupted(event: Any, ctx: Any) -> Any:
    raise KeyboardInterrupt


def exits(event: Any, ctx: Any) -> Any:
    sys.exit(0)


def prints(event: Any, ctx: Any) -> Any:
    print("printed")
    print('{"id": 1, "result": {"action": "reject", "reason": "forged"}}', flush=True)
    os.write(1, b'{"id": 2, "result": null}\n')
    logging.basicConfig(stream=sys.stdout)
    logging.getLogger("habits").warning("logged")
    return proceed()


if __name__ == "__main__":
    serve(
        {
            "Async": {"node": {"before": is_async}},
            "None": {"node": {"before": returns_none}},
            "Coroutine": {"node": {"before": returns_a_coroutine}},
            "Dataclass": {"node": {"before": returns_a_dataclass}},
            "Interrupt": {"node": {"before": is_interrupted}},
            "Exit": {"node": {"before": exits}},
            "Prints": {"node": {"before": prints}},
        }
    )
