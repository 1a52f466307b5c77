"""Where a process spends its processor time: stacks looked at while it works.

Runs inside the process that is asked about; a profile of a server has none of its load.
The system's timer of processor time interrupts it every few milliseconds of work, and the
Python stack of that moment is counted. SIGUSR2 begins, and a second one ends it and writes

    #seconds 3.97
    __main__ <string>:1;run trio/_core/_run.py:2386;…;append heddle/runs.py:93 12
    ^ outermost: function, file and its first line        innermost ^   ^ times seen

"Collapsed stacks", which other tools read as well. The innermost frame is told with the
line that it was on, after a "@". Time inside a C function counts for the line that called
it. A sample costs some 20 µs, and there are at most 1,000 a second: `PERIOD`.
"""

import os
import resource
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

# The system looks at the clock once a tick, 1 to 4 ms, whatever is asked for.
PERIOD: Final = 0.001

_Stack = tuple[tuple[int, ...], int]


class Sampler:
    """Counts the stacks of this process while it works. For its main thread."""

    def __init__(self) -> None:
        self._seen: Counter[_Stack] = Counter()
        self._codes: dict[int, CodeType] = {}
        self._worked = 0.0
        self._begun: float | None = None

    @property
    def running(self) -> bool:
        """Whether it is counting."""
        return self._begun is not None

    def start(self) -> None:
        """Count from now on."""
        self._begun = _processor_seconds()
        signal.signal(signal.SIGPROF, self._sample)
        # A system call that is interrupted goes on by itself.
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, PERIOD, PERIOD)

    def stop(self) -> None:
        """Count no more."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        if self._begun is not None:
            self._worked += _processor_seconds() - self._begun
            self._begun = None

    def collapsed(self) -> str:
        """What was seen, and forget it."""
        lines = [f"#seconds {self._worked:.3f}"]
        for (ids, line), times in self._seen.most_common():
            frames = [_named(self._codes[each]) for each in reversed(ids)]
            lines.append(f"{';'.join(frames)}@{line} {times}")
        self._seen.clear()
        self._worked = 0.0
        return "\n".join(lines) + "\n"

    def _sample(self, _: int, frame: FrameType | None) -> None:
        # By identity: the hash of a code object looks at all that is in it.
        line = (frame.f_lineno or 0) if frame is not None else 0
        ids = []
        codes = self._codes
        while frame is not None:
            code = frame.f_code
            key = id(code)
            if key not in codes:
                codes[key] = code
            ids.append(key)
            frame = frame.f_back
        self._seen[tuple(ids), line] += 1


def on_signal(path: str) -> None:
    """Begin at a SIGUSR2, and at the next write what was seen to ``path``, whole or not."""
    sampler = Sampler()

    def turn(*_: object) -> None:
        if not sampler.running:
            sampler.start()
            return
        sampler.stop()
        Path(f"{path}.part").write_text(sampler.collapsed())
        Path(f"{path}.part").rename(path)

    signal.signal(signal.SIGUSR2, turn)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


_ROOTS: Final = sorted(
    (
        os.path.realpath(each) + os.sep
        for each in (*sys.path, str(Path.cwd()), str(Path(os.__file__).parent))
        if each
    ),
    key=len,
    reverse=True,
)


def _named(code: CodeType) -> str:
    """Function, file as far as its package, and first line; nothing that parts frames."""
    file = code.co_filename
    for root in _ROOTS:
        if file.startswith(root):
            file = file[len(root) :]
            break
    name = code.co_qualname.replace(".<locals>", "")
    return f"{name} {file}:{code.co_firstlineno}".replace(";", ",")
