"""One benchmark in a process of its own, and the asking of one.

    python -m bench.alone SUBJECT [--quick]

tells its answers as JSON lines, and a last one when it could not go on:

    {"failed": "engine", "reason": "AssertionError: …"}

What other benchmarks have left of memory, threads and caches is not in its numbers: memory
that a process has had already costs it nothing the second time.
"""

import argparse
import contextlib
import sys
import traceback
from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from msgspec import Struct

from bench.commands import INTERRUPTED, ended_as_interrupted, running
from bench.harness import Answer
from bench.report import line
from bench.sizes import quick
from bench.subjects import module_of


class Failed(Struct, frozen=True):
    """A benchmark that could not go on, and why; the traceback is on its stderr."""

    failed: str
    reason: str


_Told: TypeAlias = dict[str, msgspec.Raw]


def answers_of(subject: str, *, small: bool) -> Iterator[Answer | Failed]:
    """What a benchmark tells, as it comes.

    Args:
        subject: Which.
        small: Whether with small sizes.
    """
    flags = ("--quick",) if small else ()
    failed = False
    with running([sys.executable, "-m", "bench.alone", subject, *flags]) as child:
        assert child.stdout is not None
        for said in child.stdout:
            failed = "failed" in msgspec.json.decode(said, type=_Told)
            yield msgspec.json.decode(said, type=Failed if failed else Answer)
    if child.returncode and not failed:
        yield Failed(subject, f"its process has ended with status {child.returncode}")


def main(arguments: list[str]) -> int:
    """Run it; 0 also when it failed, as that is told, and 130 after a Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m bench.alone")
    parser.add_argument("subject")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args(arguments)
    module = module_of(asked.subject)
    try:
        with (
            ended_as_interrupted(),
            quick(asked.subject, module) if asked.quick else contextlib.nullcontext(),
        ):
            for answer in module.run():
                _say(line(answer))
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  whatever it is, the others go on
        traceback.print_exc()
        reason = " ".join(traceback.format_exception_only(error)[-1].split())
        _say(msgspec.json.encode(Failed(asked.subject, reason)).decode() + "\n")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
