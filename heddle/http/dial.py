"""What can go wrong before there is a connection, in words; and the handshake of TLS."""

import os
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    import ssl


class ConnectFailed(Exception):
    """There is no connection; ``what`` and ``fix`` are for the reader."""

    def __init__(self, what: str, *, fix: str = "", retryable: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix
        self.retryable = retryable


async def secure(
    stream: Any, host: str, authority: str, context: "ssl.SSLContext", *, trust: str
) -> "trio.SSLStream[Any]":
    """TLS over a stream.

    Args:
        stream: Carries it.
        host: Whose certificate is expected.
        authority: How errors name the other side.
        context: Whom to trust.
        trust: What to do about a certificate that is not trusted.

    Raises:
        ConnectFailed: There is no TLS to be had.
    """
    import ssl

    secured = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise ConnectFailed(
                f"the certificate of {host} is not trusted: {cause.verify_message}",
                fix=trust,
            ) from error
        if isinstance(cause, ssl.SSLError):
            raise ConnectFailed(
                f"no TLS with {authority}: {cause.reason or cause}",
                fix="Check the scheme and the port of the url.",
            ) from error
        raise ConnectFailed(
            f"{authority} closed the connection during the TLS handshake",
            retryable=True,
        ) from error
    return secured


def reason_of(error: OSError) -> str:
    """The words of the system. Where several addresses were tried, those for the last."""
    cause: BaseException | None = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    if isinstance(cause, OSError):
        error = cause
    return str(error) if error.errno is None else os.strerror(error.errno)
