"""Run benchmarks: ``python -m bench [name ...]``; all of them without a name.

JSON lines on stdout, a table for people on stderr. Exit status 1 when a limit is missed,
2 when a benchmark failed or tells what `bench.numbers` does not; with --quick limits are
shown and are no verdict. With --compare it is 1 when something could not be compared, with
--url when the server does not withstand the load.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.alone import Failed, answers_of
from bench.commands import INTERRUPTED, ended_as_interrupted
from bench.harness import Answer, machine
from bench.numbers import NUMBERS, undeclared
from bench.report import line, section, summary
from bench.subjects import about, subjects

# What is only for one way of running: the flag, and what it goes with.
_GOES_WITH = {
    "rounds": "compare",
    "token": "url",
    "allow_remote": "url",
    "model_host": "url",
}


def main(arguments: list[str]) -> int:
    """Do what is asked; the exit status.

    What measures one thing does not load what serves another: hence the imports inside.
    """
    parser = _parser()
    asked = parser.parse_args(arguments)
    for flag, other in _GOES_WITH.items():
        if getattr(asked, flag) and getattr(asked, other) is None:
            parser.error(f"--{flag.replace('_', '-')} goes with --{other}")
    if asked.url is not None:
        from bench import driving

        return driving.main(
            asked.url,
            _chosen(parser, asked.name, driving.NAMES),
            token=asked.token or os.environ.get("HEDDLE_AUTH_TOKEN", ""),
            remote=asked.allow_remote,
            host=asked.model_host or "127.0.0.1",
            quick=asked.quick,
        )
    if asked.profile:
        from bench import profiles

        known = [*profiles.NAMES, *subjects()]
        names = _chosen(parser, asked.name, known) if asked.name else profiles.NAMES
        for told_line in profiles.write(asked.profile, names, small=asked.quick):
            _say(told_line)
        return 0
    chosen = _chosen(parser, asked.name, subjects())
    if asked.list:
        for subject in chosen:
            told = about(subject)
            sys.stdout.write(f"{subject:14} {told.title}\n{'':14} {told.question}\n")
            for number in NUMBERS[subject]:
                sys.stdout.write(f"{'':16} {number.name}: {number.says}\n")
        return 0
    if asked.compare is not None:
        from bench import comparing
        from bench.compare import How

        how = How(asked.rounds or How().rounds, asked.quick)
        return comparing.main(asked.compare, chosen, how)
    try:
        with ended_as_interrupted():
            return measure(chosen, small=asked.quick)
    except KeyboardInterrupt:
        return INTERRUPTED


def measure(chosen: Sequence[str], *, small: bool) -> int:
    """Measure, each in a process of its own, and print as it comes.

    Returns:
        0; 1 when a limit was missed; 2 when a benchmark failed, or tells what `NUMBERS`
        does not.
    """
    _say(line({"machine": machine()}))
    every: list[Answer] = []
    failed: list[Failed] = []
    otherwise: list[str] = []
    for subject in chosen:
        told = about(subject)
        _say(line(told))
        answers: list[Answer] = []
        for answer in answers_of(subject, small=small):
            _say(line(answer))
            if isinstance(answer, Failed):
                failed.append(answer)
            else:
                answers.append(answer)
        sys.stderr.write(section(told, answers))
        every += answers
        otherwise += undeclared(subject, answers)
    sys.stderr.write(summary(every))
    for one in failed:
        sys.stderr.write(f"{one.failed} failed: {one.reason}\n")
    for problem in otherwise:
        sys.stderr.write(f"{problem}\n")
    if failed or otherwise:
        return 2
    return 0 if small or all(answer.met is not False for answer in every) else 1


def _chosen(
    parser: argparse.ArgumentParser, names: Sequence[str], known: Sequence[str]
) -> Sequence[str]:
    """Those that are named, or all."""
    for name in names:
        if name not in known:
            parser.error(f"there is no {name!r}; choose from: {', '.join(known)}")
    return names or known


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="*", default=[], help="what to measure")
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
        help="flame graphs into this folder, of the server under load or of what is named",
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
    parser.add_argument(
        "--url",
        help="put the server at this URL under load, whichever implementation it is",
    )
    parser.add_argument(
        "--token",
        help="with --url: what it wants to be shown ($HEDDLE_AUTH_TOKEN)",
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="with --url: the server may be on another machine",
    )
    parser.add_argument(
        "--model-host",
        metavar="ADDRESS",
        help="with --url: where the server reaches this machine, for its model (127.0.0.1)",
    )
    return parser


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < 1:
        raise ValueError(text)
    return rounds


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads has seen enough, as `head` does. Nothing is said at the exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    raise SystemExit(status)
