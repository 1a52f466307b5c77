"""What the engine asks of the outside beyond models and tools, for any number of runs."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import TYPE_CHECKING, Final

import trio

from heddle.engine.requests.request import HttpAnswer, HttpRequest
from heddle.engine.retries import JITTER, Retries, failure_of
from heddle.remote.errors import RemoteError
from heddle.spec import RetryPolicy

if TYPE_CHECKING:
    from heddle.models.connect import Permit
    from heddle.remote.client import RemoteClient
    from heddle.remote.servers import Sessions

PATIENCE: Final = 30.0
"""Seconds that a request may take which names no time of its own."""


class RemoteService:
    """Requests of documents, over one client that opens when first used.

    Args:
        environ: Where the proxy variables are read from.
        permit: Where it may connect to, by name and address; None for everywhere. With
            it the proxies of the process are not used, for they would look names up again.
        patience: Seconds for a request whose document gives none.
        rng: Where the jitter of delays comes from.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        permit: "Permit | None" = None,
        patience: float = PATIENCE,
        rng: Random | None = None,
    ) -> None:
        self._environ = environ if permit is None else {}
        self._permit = permit
        self._patience = patience
        self._rng = rng or JITTER
        self._client: RemoteClient | None = None

    @property
    def client(self) -> "RemoteClient":
        """The client, made now if there was none."""
        if self._client is None:
            from heddle.remote.client import RemoteClient

            self._client = RemoteClient(environ=self._environ, permit=self._permit)
        return self._client

    async def send(
        self,
        request: HttpRequest,
        policy: RetryPolicy | None,
        /,
        *,
        where: str,
        warn: Callable[[str], None],
    ) -> HttpAnswer:
        """Send a request, and again as its document says; ``warn`` is told of each time.

        Raises:
            RemoteError: How the last attempt failed.
        """
        seconds = self._patience
        if policy is not None and policy.request_timeout is not None:
            seconds = policy.request_timeout
        retries = Retries(policy, rng=self._rng)
        while True:
            try:
                return await self.client.send(request, where=where, seconds=seconds)
            except RemoteError as error:
                delay = retries.after(failure_of(error))
                if delay is None:
                    raise
                warn(retries.announced(error, delay))
            await trio.sleep(delay)

    def sessions(self) -> "AbstractAsyncContextManager[Sessions]":
        """The sessions of one run with tool servers; opened when first used."""
        from heddle.remote.servers import open_sessions

        return open_sessions(self.client)

    async def aclose(self) -> None:
        """Close the connections that are kept alive."""
        if self._client is not None:
            await self._client.aclose()
