"""What can go wrong between heddle and a service, one class a kind of fault.

No sentence has a value of ``sensitive_headers`` in it.
"""

from plugins_host import Fault


class RemoteError(Fault):
    """A request that came to nothing.

    Args:
        status: The HTTP status, when there was an answer.
        retry_after_ms: How long the service asks to wait.
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
        retry_after_ms: int | None = None,
        retryable: bool = False,
        codes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.retryable = retryable
        self.codes = codes


class RemoteUnreachable(RemoteError):
    """No connection, or one that broke before the answer was whole."""


class RemoteTimedOut(RemoteError):
    """The answer took too long."""


class RemoteProtocolError(RemoteError):
    """Something answered, but not as HTTP says, or more than is taken."""


class RemoteRefused(RemoteError):
    """The service answered with an error, or a redirect."""
