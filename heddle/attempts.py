"""What is known of a request that failed, about making it again."""

from typing import Final

from plugins_host import Fault

# What passes: overload, a server that restarts, a request that came at a bad moment.
RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses after which the same request may well succeed a little later."""


class AttemptFailed(Fault):
    """A request to somebody else that came to nothing.

    Args:
        status: The HTTP status, when there was an answer.
        retry_after_ms: How long whoever was asked says to wait.
        retryable: Whether the same request may succeed when it is made again.
        codes: What the answer gives as the code of its error.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        fix: str = "",
        status: int | None = None,
        retry_after_ms: float | None = None,
        retryable: bool = False,
        codes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.retryable = retryable
        self.codes = codes
