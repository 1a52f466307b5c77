"""Where a server is.

http://127.0.0.1:4319     https://flows.example/heddle     unix:/run/heddle.sock
"""

from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from heddle.client.faults import AddressInvalid
from heddle.hosts import DEFAULT_PORTS, ascii_host, authority

FIX: Final = "Write it like http://127.0.0.1:4319 or unix:/run/heddle.sock."


class Address(Struct, frozen=True):
    """A server's address, read.

    Attributes:
        host, port: Where to connect over TCP; the host as in a Host header otherwise.
        prefix: What stands before the path of every request, behind a proxy.
        secure: Whether with TLS.
        socket: The path of a Unix socket; None over TCP.
        shown: How errors name it.
    """

    host: str
    port: int
    prefix: str
    secure: bool
    socket: str | None
    shown: str

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        return authority("https" if self.secure else "http", self.host, self.port)


def read_address(url: str) -> Address:
    """Read an address.

    Raises:
        AddressInvalid: It is none.
    """
    if url.startswith("unix:"):
        path = url.removeprefix("unix:")
        path = path.removeprefix("//")
        if not path or "\0" in path:
            raise AddressInvalid("the address has no path of a socket", fix=FIX)
        return Address("localhost", 80, "", secure=False, socket=path, shown=url)
    try:
        parts = urlsplit(url.strip())
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError as error:
        raise AddressInvalid(f"the address is no URL: {error}", fix=FIX) from None
    if scheme not in DEFAULT_PORTS or not host:
        raise AddressInvalid("the address is neither http:, https: nor unix:", fix=FIX)
    if parts.username is not None or parts.password is not None:
        raise AddressInvalid(
            "the address has a user or password in it",
            fix="Take them out, and pass the server's token as token=….",
        )
    if parts.query or parts.fragment:
        raise AddressInvalid("the address has more than a path in it", fix=FIX)
    prefix = parts.path.rstrip("/")
    try:
        host = ascii_host(host)
    except ValueError:
        raise AddressInvalid("the host of the address can't be encoded", fix=FIX) from None
    if not (prefix + host).isascii() or any(
        not c.isprintable() or c == " " for c in prefix + host
    ):
        raise AddressInvalid("the address has characters that no address has", fix=FIX)
    if port is None:
        port = DEFAULT_PORTS[scheme]
    shown = f"{scheme}://{authority(scheme, host, port)}{prefix}"
    return Address(host, port, prefix, scheme == "https", None, shown)
