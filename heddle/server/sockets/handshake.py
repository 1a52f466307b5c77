"""Whether a request may have a socket: what is wrong with it is told in HTTP."""

import base64
import binascii
from typing import Final
from urllib.parse import urlsplit

from heddle.server.http import Refusal, Request
from heddle.server.service import Service

SUBPROTOCOL: Final = "heddle.v1"
VERSION: Final = "13"
KEY_BYTES: Final = 16


def check_handshake(request: Request) -> None:
    """What the library would take badly, told in HTTP."""
    headers = request.headers
    if request.method != "GET" or (request.upgrade or "").lower() != "websocket":
        raise Refusal(
            426,
            "this is a WebSocket and nothing else",
            fix=f"Connect with subprotocol {SUBPROTOCOL}.",
            headers=(("Upgrade", "websocket"),),
        )
    if headers.get("sec-websocket-version") != VERSION:
        raise Refusal(
            426,
            f"version {VERSION} of WebSocket is spoken here",
            headers=(("Upgrade", "websocket"), ("Sec-WebSocket-Version", VERSION)),
        )
    try:
        key = base64.b64decode(headers.get("sec-websocket-key") or "", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise Refusal(400, "Sec-WebSocket-Key is missing or none")


def check_origin(service: Service, request: Request) -> None:
    """No browser asks whether a page may open a socket, so that is looked at here."""
    origin = request.headers.get("origin")
    allowed = service.settings.cors_origins
    if origin is None or origin in allowed or "*" in allowed:
        return
    try:
        own = urlsplit(origin).netloc.lower()
    except ValueError:
        own = ""
    if not own or own != (request.headers.get("host") or "").lower():
        raise Refusal(
            403,
            "pages of this origin may not call",
            fix="Whoever runs the server can allow it with --cors-origin.",
        )
