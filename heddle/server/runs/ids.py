"""Ids of runs: nobody can guess one.

Whoever knows a run's id may follow and cancel it. The system is asked for randomness for
many ids at once: a call for each would take longer than all else that begins a run.
"""

from base64 import urlsafe_b64encode
from os import register_at_fork, urandom
from typing import Final

ID_BYTES: Final = 16
_AT_ONCE: Final = 64

_ready: Final[list[str]] = []

# Processes that are forked from one must not give out the same ids.
register_at_fork(after_in_child=_ready.clear)


def new_id() -> str:
    """One that was never given out, of letters, digits, ``-`` and ``_``."""
    if not _ready:
        data = urandom(ID_BYTES * _AT_ONCE)
        for at in range(0, len(data), ID_BYTES):
            text = urlsafe_b64encode(data[at : at + ID_BYTES])
            _ready.append(text.rstrip(b"=").decode("ascii"))
    return _ready.pop()
