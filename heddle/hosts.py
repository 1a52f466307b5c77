"""Hosts and ports of HTTP URLs, as whoever sends requests reads and writes them.

ascii_host("müller.example")        ->  "xn--mller-kva.example"
authority("https", "::1", 8443)     ->  "[::1]:8443"
authority("https", "host", 443)     ->  "host"
"""

from collections.abc import Mapping
from typing import Final

DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
"""The port of each scheme that can be called, where a URL names none."""


def ascii_host(host: str) -> str:
    """A host as it is looked up and sent: a name of other letters as IDNA writes it.

    Raises:
        ValueError: It is no name: a label is empty, too long, or can't be encoded.
    """
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError("its host name cannot be encoded") from None


def authority(scheme: str, host: str, port: int) -> str:
    """Host and port as in a Host header: without the port that goes without saying."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port == DEFAULT_PORTS[scheme] else f"{shown}:{port}"
