"""``python -m bench --compare BASE``: sets a revision up, and prints how it compares."""

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import bench
from bench import compare_report as report
from bench.commands import INTERRUPTED, ended_as_interrupted
from bench.compare import How, Problem, compare
from bench.worktrees import CompareError, checked_out, working_tree

HERE: Final = Path(bench.__file__).parents[1]


def main(base: str, subjects: Sequence[str], how: How, repository: Path = HERE) -> int:
    """Compare the working tree with a revision, and print as it comes.

    Returns:
        0 when all was compared; 1 when something could not be; 130 after a Ctrl-C.
    """
    whole = True
    try:
        with ended_as_interrupted():
            ours = working_tree(repository)
            _tell("setting up the base …\n")
            with checked_out(repository, base) as theirs:
                _say(report.header_line(theirs, ours, how))
                _tell(report.header(theirs, ours, how))
                results = compare(theirs, ours, subjects, how, say=_tell)
                for subject, those in groupby(results, lambda one: one.subject):
                    told = list(those)
                    for result in told:
                        _say(report.line(result))
                        whole = whole and not isinstance(result, Problem)
                    _tell(report.section(subject, told))
    except CompareError as error:
        _tell(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        _tell("interrupted; what was set up is gone again\n")
        return INTERRUPTED
    return 0 if whole else 1


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _tell(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
