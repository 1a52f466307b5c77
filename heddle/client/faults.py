"""What can go wrong between a program and a heddle-server, one class a kind.

Unreachable      no connection, or one that broke: check the address and the server
Refused          the server said no: ``status``, ``type``, ``message``, ``retry_after``
  RunFailed      a run did not reach its end
    RunCancelled   because somebody stopped it
ProtocolBroken   what came is not what a heddle-server sends
AddressInvalid   the address itself
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from plugins_host import Fault

QUOTED: Final = 200
"""Characters of a foreign error page that are shown."""


class ClientFault(Fault):
    """Base of everything that the client raises on its own account."""


class AddressInvalid(ClientFault):
    """The address names no server."""


class Unreachable(ClientFault):
    """No connection, or one that broke."""


class ProtocolBroken(ClientFault):
    """What answers does not speak as a heddle-server does."""


class Refused(ClientFault):
    """The server's own no.

    Attributes:
        status: The HTTP status; 0 where there was none.
        type: The kind of error, such as ``TooManyRuns``.
        message: The server's sentence.
        retry_after: Seconds after which it may be tried again; None when it didn't say.
        answer: The body of the answer; None where there was none.
    """

    answer: bytes | None = None

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        type: str = "",  # noqa: A002  as it is called on the wire
        where: str = "",
        fix: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.status = status
        self.type = type
        self.message = message
        self.retry_after = retry_after


class RunFailed(Refused):
    """A run that began did not reach its end; ``run`` is its id where that is known."""

    run: str = ""


class RunCancelled(RunFailed):
    """It was stopped on purpose."""


class ErrorBody(Struct, frozen=True):
    """An error on the wire."""

    type: str = ""
    message: str = ""


class _Refusal(Struct, frozen=True):
    error: ErrorBody


_decode: Final = msgspec.json.Decoder(_Refusal).decode


def refusal(
    status: int, headers: Mapping[bytes, bytes], body: bytes, *, where: str, runs: bool
) -> Refused:
    """An answer that is no success, as a fault.

    Args:
        status: Of the answer.
        headers: Of the answer, their names in lower case.
        body: Of the answer.
        where: Method and URL of the request.
        runs: Whether the request was for a run to its end, whose failure it may be.
    """
    try:
        error = _decode(body).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = " ".join(body.decode("utf-8", "replace").split())[:QUOTED]
        return Refused(
            f"the answer is {status}, and not from a heddle-server: {text!r}",
            status=status,
            where=where,
            fix="Check the address, and what stands between it and the server.",
            retry_after=_seconds(headers.get(b"retry-after")),
        )
    kind = _kind(status, error.type) if runs else Refused
    fault = kind(
        error.message,
        status=status,
        type=error.type,
        where=where,
        retry_after=_seconds(headers.get(b"retry-after")),
    )
    fault.answer = body
    return fault


def ended_badly(run: str, error: ErrorBody, *, status: str = "") -> RunFailed:
    """The end of a run that was followed.

    Args:
        run: Its id.
        error: What is told of it.
        status: How it ended, where that is told apart.
    """
    cancelled = status == "cancelled" or error.type == "RunCancelled"
    fault = (RunCancelled if cancelled else RunFailed)(
        error.message, type=error.type, where=f"run {run}"
    )
    fault.run = run
    return fault


def _kind(status: int, name: str) -> type[Refused]:
    if name == "RunCancelled":
        return RunCancelled
    # 500 and 504 come after the run began; everything else is said before.
    return RunFailed if status in (500, 504) else Refused


def _seconds(header: bytes | None) -> float | None:
    """A Retry-After that is a number; dates are not what heddle sends."""
    text = (header or b"").strip()
    return float(text) if text.isdigit() and len(text) < 10 else None
