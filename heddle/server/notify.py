"""Telling the service manager how it goes, as sd_notify(3) does.

A datagram to the socket that ``$NOTIFY_SOCKET`` names; without one nobody wants to know.
"""

import os
import socket
from contextlib import suppress


def notify(*lines: str) -> None:
    """Say ``READY=1``, ``RELOADING=1`` or ``STOPPING=1``."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path[:1] not in ("/", "@"):
        return
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.connect(address)
        out.send("\n".join(lines).encode())
