"""A worker whose parent is gone ends, also one that is stuck where it hears nothing.

    the parent dies  ->  the worker reads the end of its control socket, and cleans up
                     ->  the system sends it SIGUSR1, and kills it `PATIENCE` later

The second way needs nothing of the worker: a handler in Python would wait for the loop to
come round, and it may be deep in an extension that does not give it back.
"""

import os
import signal
import sys
from typing import Final

_SIGNAL: Final = signal.SIGUSR1
_SET_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of prctl(2)

PATIENCE: Final = int(_SIGNAL)
"""Seconds to clean up in. The C library calls a handler with the number of its signal, and
here the handler is ``alarm``: so many seconds later SIGALRM ends the process."""


def end_with(parent: int) -> None:
    """Have this process ended soon after its ``parent`` is; nothing where not on Linux."""
    if sys.platform != "linux":  # pragma: no cover
        return
    import ctypes

    library = ctypes.CDLL(None)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    library.signal(_SIGNAL, ctypes.cast(library.alarm, ctypes.c_void_p))
    library.prctl(_SET_DEATH_SIGNAL, int(_SIGNAL), 0, 0, 0)
    # It may have died before the system was asked, and then nothing will be sent.
    if os.getppid() != parent:
        signal.alarm(PATIENCE)
