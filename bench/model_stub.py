"""A model that answers at once: a process of its own, without a parser.

What is asked for is a word in the question: ``hold`` is never answered, ``long 10000`` is
a stream of so many pieces: the stub says ``held`` and begins when a line comes on standard
input. All else is answered with 225 characters; where a stream is asked for in five pieces,
each by itself, and after a pause where one is named.
"""

import contextlib
import re
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias

from bench.model_answers import BUFFERED, HEAD, STREAMED, chunk

PIECE: Final = "a word. "
Streams: TypeAlias = deque[tuple[float, socket.socket, Iterator[bytes]]]
"""When each gets its next piece, and what is left for it."""

_LONG: Final = re.compile(rb"long (\d+)")


def long_answer(pieces: int) -> bytes:
    """A stream of so many pieces, as one text."""
    head = HEAD + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    last = chunk({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
    return head + chunk({"content": PIECE}) * pieces + last


def main() -> None:
    """Answer until standard input ends.

    Arguments: the address, 127.0.0.1 by default; seconds between two pieces of a stream.
    """
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    listener = socket.create_server((address, 0), backlog=4096)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    poll = select.epoll()
    poll.register(listener.fileno(), select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    held: list[tuple[socket.socket, bytes]] = []
    streams: Streams = deque()
    while True:
        now = time.monotonic()
        while streams and streams[0][0] <= now:
            _, sock, pieces = streams.popleft()
            if _sent(sock, pieces):
                streams.append((now + pause, sock, pieces))
        for number, _ in poll.poll(max(0.0, streams[0][0] - now) if streams else None):
            if number == sys.stdin.fileno():
                if not sys.stdin.buffer.readline():
                    return
                for sock, data in held:
                    sock.sendall(data)
                held.clear()
                continue
            if number == listener.fileno():
                sock, _ = listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[sock.fileno()] = sock
                poll.register(sock.fileno(), select.EPOLLIN)
                continue
            sock = clients[number]
            with contextlib.suppress(ConnectionError):
                if _answer(sock, held, streams):
                    continue
            poll.unregister(number)
            clients.pop(number).close()


def _sent(sock: socket.socket, pieces: Iterator[bytes]) -> bool:
    """Send the next piece of a stream; whether there was one."""
    with contextlib.suppress(OSError):
        for piece in pieces:
            sock.send(piece)
            return True
    return False


def _answer(
    sock: socket.socket,
    held: list[tuple[socket.socket, bytes]],
    streams: Streams,
) -> bool:
    """Whether there was a question."""
    asked = sock.recv(65536)
    if not asked:
        return False
    question = asked[asked.find(b'"messages"') :]
    long = _LONG.search(question)
    if b"hold" in question:
        pass
    elif long is not None:
        held.append((sock, long_answer(int(long[1]))))
        sys.stdout.write("held\n")
        sys.stdout.flush()
    elif b'"stream":true' in asked:
        streams.append((0.0, sock, iter(STREAMED)))
    else:
        sock.send(BUFFERED)
    return True


if __name__ == "__main__":
    main()
