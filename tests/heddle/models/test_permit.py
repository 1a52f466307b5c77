"""Where a client may connect to is decided by the addresses that a name has."""

import socket
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import trio

from heddle.models import ModelClient, ModelUnreachable
from tests.heddle.models.support import ask, endpoint_at
from tests.support.model_endpoint import model_endpoint

Resolve: TypeAlias = Callable[..., None]


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Give the name ``moving.example`` addresses: each look-up has the next of them."""

    def give(*answers: list[str]) -> None:
        coming = iter(answers)

        async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
            await trio.lowlevel.checkpoint()
            addresses = next(coming) if host == "moving.example" else [host]
            kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*kind, (address, port)) for address in addresses]

        monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)

    return give


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


async def test_every_address_of_a_name_is_asked_about_before_any_is_used(
    resolve: Resolve,
) -> None:
    asked: list[tuple[str, str]] = []

    def permit(host: str, address: str) -> bool:
        asked.append((host, address))
        return address != "127.0.0.9"

    resolve(["127.0.0.1", "127.0.0.1", "127.0.0.9"])
    async with (
        model_endpoint() as server,
        ModelClient(environ={}, permit=permit) as client,
    ):
        with pytest.raises(ModelUnreachable) as caught:
            await client.chat(
                endpoint_at(f"http://moving.example:{port_of(server.url)}"), ask()
            )
        assert server.connections == 0

    assert asked == [("moving.example", "127.0.0.1"), ("moving.example", "127.0.0.9")]
    assert "moving.example is not to be reached from here" in str(caught.value)
    assert not caught.value.retryable
    assert "127.0.0.9" not in str(caught.value)


async def test_the_addresses_that_were_asked_about_are_the_ones_connected_to(
    resolve: Resolve,
) -> None:
    resolve(["127.0.0.1"], ["127.0.0.9"])
    async with (
        model_endpoint() as server,
        ModelClient(environ={}, permit=lambda host, address: True) as client,
    ):
        endpoint = endpoint_at(f"http://moving.example:{port_of(server.url)}")
        assert (await client.chat(endpoint, ask())).content == "ECHO:hi"


async def test_of_several_addresses_one_that_answers_is_enough(resolve: Resolve) -> None:
    # Nobody listens at the first: the endpoint is at 127.0.0.1 alone.
    resolve(["127.0.0.8", "127.0.0.1"])
    async with (
        model_endpoint() as server,
        ModelClient(environ={}, permit=lambda host, address: True) as client,
    ):
        endpoint = endpoint_at(f"http://moving.example:{port_of(server.url)}")
        assert (await client.chat(endpoint, ask())).content == "ECHO:hi"


async def test_a_proxy_is_the_operators_and_not_asked_about() -> None:
    async with (
        model_endpoint() as server,
        ModelClient(
            environ={"HTTP_PROXY": server.url.removesuffix("/v1")},
            permit=lambda host, address: False,
        ) as client,
    ):
        response = await client.chat(endpoint_at("http://model.example"), ask())

    assert response.content == "ECHO:hi"
    assert server.requests[0].target == "http://model.example/v1/chat/completions"
