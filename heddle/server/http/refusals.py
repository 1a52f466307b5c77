"""Requests that are not answered by a handler: what they are told, as a table.

    {"error": {"type": "payload_too_large", "message": "the body is longer than 8388608
     bytes"}}

A `Refusal` may be raised anywhere below a handler; the front turns it into this answer.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from plugins_host import Fault

ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    413: "payload_too_large",
    414: "uri_too_long",
    415: "unsupported_media_type",
    417: "expectation_failed",
    426: "upgrade_required",
    429: "too_many_requests",
    431: "request_header_fields_too_large",
    500: "internal_error",
    501: "not_implemented",
    503: "unavailable",
    504: "timeout",
    505: "http_version_not_supported",
}
"""The ``type`` of an error body, for every status that can carry one."""

_encode = msgspec.json.Encoder().encode


class Refusal(Fault):
    """The request is at fault, and this is the status that says so.

    Args:
        status: A key of `ERROR_TYPES`.
        what: The fact; sent to the client, so nothing of the server's is in it.
        fix: As of any `Fault`.
        headers: Sent with the answer, like ``Allow`` or ``Retry-After``.
    """

    def __init__(
        self,
        status: int,
        what: str,
        *,
        fix: str = "",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(what, fix=fix)
        self.status = status
        self.headers = headers

    @property
    def type(self) -> str:
        """The word for programs."""
        return ERROR_TYPES[self.status]


def error_body(type_: str, message: str) -> bytes:
    """The body of an error, as every route of the server sends it."""
    return _encode({"error": {"type": type_, "message": message}})
