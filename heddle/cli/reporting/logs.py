"""Python's logging, told like everything else: a line on stderr, no traceback unasked."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heddle.cli.reporting.plain import warning


class Remarks(logging.Handler):
    """Hands warnings and errors, as lines, to ``remark``."""

    def __init__(self, remark: Callable[[str], None], *, tracebacks: bool) -> None:
        super().__init__(logging.WARNING)
        self._remark = remark
        self._tracebacks = tracebacks

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one of them."""
        text = record.getMessage()
        if record.exc_info and self._tracebacks:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self._remark(warning(text))


@contextmanager
def told_to(remark: Callable[[str], None], *, tracebacks: bool) -> Iterator[None]:
    """Have what is logged told for the length of the block."""
    handler = Remarks(remark, tracebacks=tracebacks)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
