"""Run benchmarks: ``python -m bench [subject ...]``; all of them without a name.

JSON lines on stdout, a table for people on stderr. Exit status 1 when a limit is missed.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterable

import msgspec

import bench
from bench.harness import Answer, machine, write


def subjects() -> list[str]:
    """Every subject that there is a ``bench_<subject>`` module for."""
    names = (module.name for module in pkgutil.iter_modules(bench.__path__))
    return sorted(
        name.removeprefix("bench_") for name in names if name.startswith("bench_")
    )


def table(answers: Iterable[Answer]) -> str:
    """The answers as aligned lines."""
    lines = []
    for answer in answers:
        measured = f"{answer.value:12.4g} {answer.unit}"
        ratio = "" if answer.ratio is None else f"{answer.ratio:8.2f} x floor"
        sign = "<=" if answer.better == "lower" else ">="
        limit = "" if answer.limit is None else f"{sign} {answer.limit:g}"
        verdict = {True: "met", False: "MISSED", None: ""}[answer.met]
        lines.append(f"{answer.name:44}{measured:24}{ratio:18}{limit:10}{verdict}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run what is named and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("subject", nargs="*", choices=[*subjects(), []], default=[])
    chosen = parser.parse_args(arguments).subject or subjects()
    sys.stdout.write(msgspec.json.encode({"machine": machine()}).decode() + "\n")
    every: list[Answer] = []
    fine = True
    for subject in chosen:
        answers = list(importlib.import_module(f"bench.bench_{subject}").run())
        fine = write(answers) and fine
        every += answers
    sys.stderr.write(table(every) + "\n")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
