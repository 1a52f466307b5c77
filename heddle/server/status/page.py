"""The page that ``GET /`` answers to a browser: one file, nothing from elsewhere.

Its script and style are admitted by their digest, so that nothing else on the page runs,
whatever a flow calls its nodes. It is told everything over the socket.
"""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final

from heddle.server.http import Request, Response

FILE: Final = Path(__file__).with_name("page.html")

_INLINE: Final = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


def wants_page(request: Request) -> bool:
    """Whether whoever asks is a browser: programs take anything, and get JSON."""
    ranges = (request.headers.get("accept") or "").lower().split(",")
    return any(each.partition(";")[0].strip() == "text/html" for each in ranges)


@cache
def page() -> Response:
    """The page."""
    text = FILE.read_text(encoding="utf-8")
    digests = {kind: digest(inside) for kind, inside in _INLINE.findall(text)}
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{digests['script']}'",
            f"style-src '{digests['style']}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    headers = (
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cache-Control", "no-cache"),
        ("Vary", "Accept"),
    )
    return Response(200, headers, text.encode())


def digest(inside: str) -> str:
    """What a policy calls an inline script or style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
