"""What one client may cost: bytes, seconds and connections."""

from msgspec import Struct


class Limits(Struct, frozen=True):
    """All limits of the front.

    Bytes:
        request_line: The first line of a request, without its end.
        head: Request line, headers and the empty line; also the trailers of a body.
        headers: How many header lines.
        body: A request's body, decoded.

    Seconds:
        header_timeout: From the first byte of a head to its last, however they arrive;
            also for a TLS handshake.
        idle_timeout: A connection without a request, new or kept alive.
        body_timeout: Waiting for a body, all waits for it together. Every
            ``transfer_rate`` bytes that arrive earn another second.
        write_timeout: The same for what is sent: waiting for the client to take it.
        linger_timeout: After a refusal, for the client to notice before the connection
            is closed on what it is still sending.

    Others:
        transfer_rate: Bytes a second that a client may not stay below for long.
        connections: Open at once. When there are more, the one that has waited longest for
            its client makes room, and while all are at work the next waits to be accepted.
    """

    # What browsers and proxies in front of it keep to.
    request_line: int = 8 * 1024
    head: int = 32 * 1024
    headers: int = 100
    body: int = 8 * 1024 * 1024
    header_timeout: float = 10.0
    # Longer than the 60 s for which the usual proxies keep theirs, so that they are the
    # ones who close, and never send a request into a connection that is going away.
    idle_timeout: float = 75.0
    body_timeout: float = 30.0
    write_timeout: float = 30.0
    linger_timeout: float = 2.0
    transfer_rate: int = 4096
    connections: int = 20_000
