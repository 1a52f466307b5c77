"""Run benchmarks: ``python -m bench [subject ...]``; all of them without a name.

JSON lines on stdout, a table for people on stderr. Exit status 1 when a limit is missed;
with --quick limits are shown and are no verdict. With --compare it is 1 when something
could not be compared.
"""

import argparse
import contextlib
import sys
from pathlib import Path

from bench.harness import Answer, machine
from bench.report import line, section, summary
from bench.sizes import quick
from bench.subjects import about, module_of, subjects


def main(arguments: list[str]) -> int:
    """Do what is asked; the exit status."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.rounds and asked.compare is None:
        parser.error("--rounds goes with --compare")
    chosen = asked.subject or subjects()
    if asked.list:
        for subject in chosen:
            told = about(subject)
            sys.stdout.write(f"{subject:14} {told.title}\n{'':14} {told.question}\n")
        return 0
    if asked.profile:
        # Here, so that measuring one thing does not load what serves another.
        from bench import profiles

        for told_line in profiles.write(asked.profile):
            _say(told_line)
        return 0
    if asked.compare is not None:
        from bench import comparing
        from bench.compare import How

        how = How(asked.rounds or How().rounds, asked.quick)
        return comparing.main(asked.compare, chosen, how)
    return measure(chosen, small=asked.quick)


def measure(chosen: list[str], *, small: bool) -> int:
    """Measure, and print as it comes; 1 when a limit was missed."""
    _say(line({"machine": machine()}))
    every: list[Answer] = []
    for subject in chosen:
        module = module_of(subject)
        told = about(subject)
        _say(line(told))
        answers: list[Answer] = []
        with quick(subject, module) if small else contextlib.nullcontext():
            for answer in module.run():
                _say(line(answer))
                answers.append(answer)
        sys.stderr.write(section(told, answers))
        every += answers
    sys.stderr.write(summary(every))
    return 0 if small or all(answer.met is not False for answer in every) else 1


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "subject", nargs="*", choices=[*subjects(), []], default=[], metavar="subject"
    )
    parser.add_argument(
        "--list", action="store_true", help="what there is; measures nothing"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, for a first look"
    )
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FOLDER",
        help="flame graphs of the server under load into this folder; measures nothing",
    )
    parser.add_argument(
        "--compare",
        metavar="BASE",
        help="this tree beside another revision: rounds of both that take turns",
    )
    parser.add_argument(
        "--rounds",
        type=_rounds,
        metavar="N",
        help="with --compare: how often each is run in both (5)",
    )
    return parser


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < 1:
        raise ValueError(text)
    return rounds


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
