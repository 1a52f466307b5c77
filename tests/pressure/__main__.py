"""Run a campaign of disturbances against a server, and say what came of it.

Exit status 1 when something is wrong. What is done, and when, follows from the seed.
"""

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

import trio

from tests.pressure import crowd
from tests.pressure.campaign import campaign
from tests.pressure.plan import CLIENTS, SECONDS, Plan


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.pressure", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--log", metavar="FILE", help="Where the server's log is written.")
    parser.add_argument(
        "--crowd",
        action="store_true",
        help="Have 500 runs at a time in one process instead, on shared policies.",
    )
    given = parser.parse_args()
    sys.stdout.write(f"seed {given.seed}\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        if given.crowd:
            _press(crowd.Plan(given.seed, given.seconds), Path(folder))
            return 0
        plan = Plan(given.seed, given.seconds, given.clients)
        log = None if given.log is None else Path(given.log)
        report = trio.run(campaign, plan, Path(folder), log)
    sys.stdout.write(report.text())
    return int(report.bad)


def _press(plan: crowd.Plan, folder: Path) -> None:
    """A traceback when a run suffered by another."""
    for name, count in sorted(trio.run(crowd.press, plan, folder).items()):
        sys.stdout.write(f"{count:8} {name}\n")


if __name__ == "__main__":
    sys.exit(main())
