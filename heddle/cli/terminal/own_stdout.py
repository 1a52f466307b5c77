"""stdout kept for the result, while modules that run inside heddle print as they please.

A policy in a process of its own has a stdout of its own. One that heddle imports has
heddle's, and a ``print()`` in it would stand in the middle of the JSON.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from heddle.standard_streams import STDERR, STDOUT


@contextmanager
def own_stdout(*, shared: bool) -> Iterator[int]:
    """The descriptor that leads to stdout.

    With ``shared``, whatever else writes to descriptor 1 or to ``sys.stdout`` writes to
    stderr until the context is left.
    """
    if not shared:
        yield STDOUT
        return
    kept = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        yield kept
    finally:
        sys.stdout.flush()
        os.dup2(kept, STDOUT)
        os.close(kept)
