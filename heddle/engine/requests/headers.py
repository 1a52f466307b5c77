"""Methods and headers of requests: what is wrong with one, and what to do about it.

Each answer is None, or what is wrong and how to mend it.
"""

import re
from typing import Final, TypeAlias

FlawAndFix: TypeAlias = tuple[str, str]

TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
REFUSED_METHODS: Final = ("CONNECT", "TRACE")
"""One opens a tunnel, the other has secrets sent back; neither is a request."""

OWN_HEADERS: Final = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""What says how a request travels: heddle writes it. All ``proxy-`` headers are, too."""


def method_flaw(method: str) -> FlawAndFix | None:
    """What is wrong with a method."""
    if TOKEN.fullmatch(method.strip()) is None:
        return f"{shortened(method)!r} is no HTTP method", "Write GET, POST or another."
    if method.strip().upper() in REFUSED_METHODS:
        return f"{method.strip().upper()} is not sent", "Write GET, POST or another."
    return None


def name_flaw(name: str) -> FlawAndFix | None:
    """What is wrong with the name of a header."""
    if TOKEN.fullmatch(name) is None:
        return f"{shortened(name)!r} is no name of a header", "Correct or remove it."
    if name.lower() in OWN_HEADERS or name.lower().startswith("proxy-"):
        return f"the header {name!r} is written by heddle", "Leave it out."
    return None


def value_flaw(name: str, value: str) -> FlawAndFix | None:
    """What is wrong with the value of a header."""
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        fits = False
    else:
        fits = re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value) is None
    if fits:
        return None
    return (
        f"the value of the header {name!r} has characters that no header has",
        "Encode it, as base64 for example.",
    )


def header_flaw(name: str, value: str) -> FlawAndFix | None:
    """What is wrong with a header."""
    return name_flaw(name) or value_flaw(name, value)


def shortened(text: str) -> str:
    """Text of any length as an error quotes it."""
    return text if len(text) <= 100 else f"{text[:99]}…"
