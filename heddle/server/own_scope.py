"""A cancel scope that knows by itself whether it was cancelled.

Trio's looks at the clock to tell, for it may have a deadline. This one has none, and is
asked after each of many things that are done inside it.
"""

from types import TracebackType
from typing import Self

import trio


class OwnScope:
    """As `trio.CancelScope`, without a deadline.

    Attributes:
        cancel_called: Whether it was cancelled.
    """

    __slots__ = ("_scope", "cancel_called")

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self.cancel_called = False

    @property
    def cancelled_caught(self) -> bool:
        """Whether the cancellation ended the block."""
        return self._scope.cancelled_caught

    def cancel(self) -> None:
        """Cancel what is inside it, now or once it is entered."""
        self.cancel_called = True
        self._scope.cancel()

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return bool(self._scope.__exit__(kind, error, traceback))
