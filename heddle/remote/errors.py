"""What can go wrong between heddle and a service, one class a kind of fault.

No sentence has a value of ``sensitive_headers`` in it.
"""

from heddle.attempts import AttemptFailed


class RemoteError(AttemptFailed):
    """A request that came to nothing."""


class RemoteUnreachable(RemoteError):
    """No connection, or one that broke before the answer was whole."""


class RemoteTimedOut(RemoteError):
    """The answer took too long."""


class RemoteProtocolError(RemoteError):
    """Something answered, but not as HTTP says, or more than is taken."""


class RemoteRefused(RemoteError):
    """The service answered with an error, or a redirect."""
