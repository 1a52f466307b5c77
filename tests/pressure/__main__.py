"""Disturb hundreds of runs for a while, and say what came of them."""

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

import trio

from tests.pressure.crowd import Plan, press


def main() -> None:
    """Exit status 1 and a traceback when a run suffered by another."""
    parser = argparse.ArgumentParser(prog="python -m tests.pressure", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--at-once", type=int, default=500)
    given = parser.parse_args()
    sys.stdout.write(f"seed {given.seed}\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(given.seed, given.seconds, given.at_once)
        tally = trio.run(press, plan, Path(folder))
    for name, count in sorted(tally.items()):
        sys.stdout.write(f"{count:8} {name}\n")


if __name__ == "__main__":
    main()
