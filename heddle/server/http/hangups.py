"""Clients that go away while nobody reads from them.

While a handler works, its connection does not read: what comes next is the next request's
business. So the system is asked to tell of one thing alone, that the other side has closed
or reset the connection, and one task waits for that on behalf of all connections. A
connection is registered once; a request costs nothing.

It is the TCP connection that counts. A client that closes only its sending side has left
as far as anything is concerned that would have to wait; one that says good-bye in TLS and
keeps the connection has not.
"""

import select
import sys
from typing import Final, Protocol

import trio

_AT_ONCE: Final = 256


class Client(Protocol):
    """Someone who can hang up."""

    def hung_up(self) -> None:
        """The other side will send nothing any more, or is gone altogether."""
        ...


if sys.platform == "linux":
    _HANGUP: Final = select.EPOLLRDHUP | select.EPOLLET

    class _Queue:
        """Hang-ups as the system reports them; edge-triggered, so each once."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self.fileno = self._epoll.fileno
            self.close = self._epoll.close

        def add(self, number: int) -> None:
            self._epoll.register(number, _HANGUP)

        def remove(self, number: int) -> None:
            self._epoll.unregister(number)

        def take(self) -> list[int]:
            return [number for number, _ in self._epoll.poll(0, _AT_ONCE)]

else:  # pragma: no cover - BSD and macOS

    class _Queue:
        """The same with kqueue, which tells of data too: what is no end is dropped."""

        def __init__(self) -> None:
            self._kqueue = select.kqueue()
            self.fileno = self._kqueue.fileno
            self.close = self._kqueue.close

        def _change(self, number: int, flags: int) -> None:
            event = select.kevent(number, select.KQ_FILTER_READ, flags)
            self._kqueue.control([event], 0)

        def add(self, number: int) -> None:
            self._change(number, select.KQ_EV_ADD | select.KQ_EV_CLEAR)

        def remove(self, number: int) -> None:
            self._change(number, select.KQ_EV_DELETE)

        def take(self) -> list[int]:
            events = self._kqueue.control(None, _AT_ONCE, 0)
            return [event.ident for event in events if event.flags & select.KQ_EV_EOF]


class Hangups:
    """Watches the sockets of all clients."""

    __slots__ = ("_clients", "_queue")

    def __init__(self) -> None:
        self._queue = _Queue()
        self._clients: dict[int, Client] = {}

    def watch(self, number: int, client: Client) -> None:
        """Tell ``client`` when the other side of socket ``number`` has hung up."""
        self._queue.add(number)
        self._clients[number] = client

    def forget(self, number: int) -> None:
        """Before the socket is closed, or handed to someone else; any number will do."""
        if self._clients.pop(number, None) is not None:
            self._queue.remove(number)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._queue.fileno())
            for number in self._queue.take():
                self._clients[number].hung_up()

    def close(self) -> None:
        """When all clients are forgotten."""
        self._queue.close()
