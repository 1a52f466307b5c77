"""Where a server is, as the programs that put it under load are told it."""

from msgspec import Struct


class Place(Struct, frozen=True, omit_defaults=True):
    """An address and what every request to it has.

    Attributes:
        port: Its port.
        address: The IP address that is connected to.
        host: The value of the Host header.
        prefix: What stands before the path of every request, behind a proxy.
        token: The bearer token; "" for none.
    """

    port: int
    address: str = "127.0.0.1"
    host: str = "127.0.0.1:4319"
    prefix: str = ""
    token: str = ""

    def head(self, method: str, path: str, *more: str) -> bytes:
        """The head of a request, its lines ended and the empty line behind them."""
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", f"Host: {self.host}", *more]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")
