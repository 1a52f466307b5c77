"""A request sent on a connection, up to the head of its answer."""

from heddle.http.transport import Connection
from heddle.http.wires import ConnectionBroken


async def ask(connection: Connection, request: bytes) -> None:
    """Send a request, and wait until ``connection.status`` is there.

    The connection is closed when that fails, or when it is cancelled.

    Args:
        connection: A new one, or one whose last answer was read to its end.
        request: Head and body, as bytes.

    Raises:
        ConnectionBroken: It ended before that; ``undelivered`` says whether the same may
            be asked on another without being asked twice.
        BadHttp: What came is no HTTP.
    """
    try:
        await connection.begin(request)
        while not connection.status:
            await connection.advance()
    except ConnectionBroken as broken:
        broken.undelivered = connection.undelivered(broken)
        connection.close()
        raise
    except BaseException:
        connection.close()
        raise
