"""An error response to words and a `ModelError`: status, headers and body in, no I/O.

429, Retry-After: 7, {"error": {"message": "slow down"}}
    ->  ModelRateLimited: answered 429 Too Many Requests: slow down
        status 429, retry_after_ms 7000, retryable
"""

import html
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from heddle.attempts import RETRYABLE_STATUSES
from heddle.models.errors import (
    MESSAGE_LIMIT,
    ModelRateLimited,
    ModelRefused,
    ModelServerError,
)

_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_LOOKS_LIKE_HTML: Final = re.compile(
    r"\s*(<!doctype\s+html|<html|<head|<body)", re.IGNORECASE
)

# Codes with which a provider says 429 and means: not before you pay.
_NO_USE_IN_WAITING: Final = ("insufficient_quota", "billing_hard_limit_reached")

_FIXES: Final[Mapping[int, str]] = {
    400: "",
    401: "Check the api_key of the LLM config.",
    403: "Check the api_key of the LLM config, and what it may use.",
    404: "Check the url and the model_id of the LLM config.",
    407: "Check the user and password in the proxy's URL.",
}


def refusal(
    status: int,
    headers: Mapping[bytes, bytes],
    body: bytes,
    *,
    where: str,
    strike: Callable[[str], str],
    now: float,
) -> ModelRefused:
    """The error for a response that is not a 2xx.

    Args:
        status: Its status, also of an error inside a 200.
        headers: Names in lower case.
        body: Its beginning at least.
        where: The endpoint, as errors name it.
        strike: Takes the credentials out of a text.
        now: Seconds since the epoch, for a Retry-After that is a date.
    """
    if 300 <= status < 400:
        return _redirect(status, headers, where=where, strike=strike)
    message, code = provider_message(body, headers.get(b"content-type", b""))
    return complaint_error(
        status,
        message,
        where=where,
        strike=strike,
        retry_after_ms=retry_after_ms(headers, now=now),
        final=code in _NO_USE_IN_WAITING,
        codes=error_codes(body),
    )


def complaint_error(
    status: int | None,
    message: str,
    *,
    where: str,
    strike: Callable[[str], str],
    retry_after_ms: int | None = None,
    final: bool = False,
    codes: tuple[str, ...] = (),
) -> ModelRefused:
    """The error for what a provider said, with or without a status."""
    said = shorten(strike(message))
    kind: type[ModelRefused] = ModelRefused
    what = "answered with an error"
    if status is not None:
        what = answered(status)
        if status == 429:
            kind = ModelRateLimited
        elif status >= 500:
            kind = ModelServerError
    return kind(
        f"{what}: {said}" if said and not what.endswith(f" {said}") else what,
        where=where,
        fix="" if status is None else _FIXES.get(status, ""),
        status=status,
        retry_after_ms=retry_after_ms,
        retryable=status in RETRYABLE_STATUSES and not final,
        provider_message=said,
        codes=codes,
    )


def _redirect(
    status: int,
    headers: Mapping[bytes, bytes],
    *,
    where: str,
    strike: Callable[[str], str],
) -> ModelRefused:
    return ModelRefused(
        redirected(status, headers, lambda text: shorten(strike(text))),
        where=where,
        fix="Redirects are not followed: set url to where the model is.",
        status=status,
    )


def answered(status: int) -> str:
    """``answered 404 Not Found``."""
    try:
        return f"answered {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"answered {status}"


def redirected(
    status: int, headers: Mapping[bytes, bytes], shown: Callable[[str], str]
) -> str:
    """``answered 302 Found and points to https://host/path``: no user, no query.

    Args:
        status: Of the answer.
        headers: Of the answer, names in lower case.
        shown: Makes a text fit to be shown: no secrets, no more than is read.
    """
    target = "elsewhere"
    with suppress(ValueError):
        parts = urlsplit(headers.get(b"location", b"").decode("latin-1"))
        host = parts.netloc.rpartition("@")[2]
        address = f"{parts.scheme}://{host}{parts.path}" if host else parts.path
        target = f"to {shown(address)}" if address else target
    return f"{answered(status)} and points {target}"


def provider_message(body: bytes, content_type: bytes) -> tuple[str, str | None]:
    """What an error body says, and its code: JSON of any common shape, HTML, or text."""
    try:
        return _from_json(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _from_text(body, content_type), None


def _from_json(value: Any) -> tuple[str, str | None]:
    match value:
        case [first, *_]:
            return _from_json(first)
        case {"error": dict(error)}:
            return _from_json(error)
        case {"message": str(message)}:
            code = value.get("code") or value.get("type")
            return message, code if isinstance(code, str) else None
        case {"error": str(message)} | {"detail": str(message)} | str(message):
            return message, None
        case {"detail": detail}:
            return msgspec.json.encode(detail).decode(), None
        case _:
            return msgspec.json.encode(value).decode() if value else "", None


def error_codes(body: bytes) -> tuple[str, ...]:
    """The codes of an error answer: ``code`` or ``type``, at the top or in its error."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    inside = value.get("error") if isinstance(value, dict) else None
    places = [each for each in (value, inside) if isinstance(each, dict)]
    found = [each.get(key) for each in places for key in ("code", "type")]
    return tuple(str(each) for each in found if isinstance(each, (str, int)))


def _from_text(body: bytes, content_type: bytes) -> str:
    text = body.decode("utf-8", "replace")
    if b"html" in content_type.lower() or _LOOKS_LIKE_HTML.match(text):
        title = _TITLE.search(text)
        words = " ".join(html.unescape(title[1]).split()) if title else ""
        return f"an HTML page titled {words!r}" if words else "an HTML page"
    return text


def shorten(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """``text`` on one line, at most ``limit`` characters, only printable ones."""
    line = " ".join(text[: 8 * limit].split())
    line = "".join(char if char.isprintable() else "�" for char in line)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def retry_after_ms(headers: Mapping[bytes, bytes], *, now: float) -> int | None:
    """How long to wait, from ``retry-after-ms`` or ``Retry-After`` (seconds or a date)."""
    exact = _number(headers.get(b"retry-after-ms"))
    if exact is not None:
        return int(exact)
    raw = headers.get(b"retry-after")
    seconds = _number(raw)
    if seconds is not None:
        return int(seconds * 1000)
    if raw is None:
        return None
    # Costs ten milliseconds to import, for a form that is rare.
    from email.utils import parsedate_to_datetime

    try:
        until = parsedate_to_datetime(raw.decode("latin-1")).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0, int((until - now) * 1000))


def _number(raw: bytes | None) -> float | None:
    if raw is None or not re.fullmatch(rb"\s*\d{1,9}(\.\d{1,9})?\s*", raw):
        return None
    return float(raw)
