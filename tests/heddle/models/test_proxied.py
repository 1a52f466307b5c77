"""Requests go through the proxy that the environment names."""

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from heddle.models import EndpointInvalid, ModelClient, ModelUnreachable
from heddle.models.endpoint import TlsFiles
from tests.heddle.models.support import ask, endpoint_at
from tests.heddle.models.test_tls import OPENSSL, make_certificate, server_context
from tests.support.model_endpoint import Reply, model_endpoint

TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Proxy:
    """A proxy that tunnels, or answers something else to CONNECT."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.url = ""

    async def serve(self, stream: trio.SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = await stream.receive_some(1000)
            if not data:
                return
            head += data
        self.heads.append(head.decode())
        # A client that has had enough of an answer does not read it to its end.
        with suppress(trio.BrokenResourceError):
            await stream.send_all(self.answer)
        if self.answer != TUNNEL:
            return
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        async with (
            await trio.open_tcp_stream(host, int(port)) as onward,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._copy, onward, stream)
            await self._copy(stream, onward)
            nursery.cancel_scope.cancel()

    async def _copy(self, source: trio.SocketStream, target: trio.SocketStream) -> None:
        async for data in source:
            await target.send_all(data)


@asynccontextmanager
async def proxy(answer: bytes = TUNNEL) -> AsyncIterator[Proxy]:
    """A proxy on a free port of this machine."""
    made = Proxy(answer)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, made.serve, listeners)
        made.url = f"http://me:secret-pw@127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        try:
            yield made
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate of this machine."""
    if OPENSSL is None:
        pytest.skip("there is no openssl to make keys")
    folder = tmp_path_factory.mktemp("keys")
    make_certificate(folder, "here", "IP:127.0.0.1")
    return folder


async def test_a_plain_request_is_given_to_the_proxy_in_absolute_form() -> None:
    async with model_endpoint() as standing_in:
        # To an HTTP server, a proxy is a server that is asked for somebody else's URL.
        environ = {"HTTP_PROXY": standing_in.url.replace("//", "//me:secret-pw@")}
        async with ModelClient(environ=environ) as client:
            for _ in range(2):
                await client.chat(endpoint_at("http://model.example:8000/v1"), ask())
        assert standing_in.connections == 1

    asked = standing_in.requests[0]
    assert asked.target == "http://model.example:8000/v1/chat/completions"
    assert asked.headers["host"] == "model.example:8000"
    assert asked.headers["proxy-authorization"] == "Basic bWU6c2VjcmV0LXB3"


async def test_a_secure_request_goes_through_a_tunnel(keys: Path) -> None:
    async with (
        proxy() as way,
        model_endpoint(tls=server_context(keys)) as server,
        ModelClient(environ={"HTTPS_PROXY": way.url}) as client,
    ):
        endpoint = endpoint_at(server.url, tls=TlsFiles(ca=str(keys / "here.pem")))
        for _ in range(2):
            response = await client.chat(endpoint, ask(), on_text=lambda piece: None)
            assert response.content == "ECHO:hi"

    address = server.url.removeprefix("https://").removesuffix("/v1")
    assert len(way.heads) == 1
    assert way.heads[0].startswith(f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n")
    assert "Proxy-Authorization: Basic bWU6c2VjcmV0LXB3\r\n" in way.heads[0]
    assert "proxy-authorization" not in server.requests[0].headers
    assert server.requests[0].target == "/v1/chat/completions"


async def test_a_tunnel_may_begin_at_a_proxy_that_is_spoken_to_with_tls(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The proxy's certificate is checked against the system's authorities.
    monkeypatch.setenv("SSL_CERT_FILE", str(keys / "here.pem"))
    inner = Proxy(TUNNEL)
    context = server_context(keys)

    async def serve(stream: trio.SocketStream) -> None:
        secure = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        with pytest.raises(trio.Cancelled):
            await inner.serve(secure)  # type: ignore[arg-type]

    async with (
        model_endpoint(tls=server_context(keys)) as server,
        trio.open_nursery() as nursery,
    ):
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        url = f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        async with ModelClient(environ={"HTTPS_PROXY": url}) as client:
            endpoint = endpoint_at(server.url, tls=TlsFiles(ca=str(keys / "here.pem")))
            assert (await client.chat(endpoint, ask())).content == "ECHO:hi"
            nursery.cancel_scope.cancel()

    assert len(inner.heads) == 1


@pytest.mark.parametrize(
    ("answer", "reason", "retryable"),
    [
        (b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", "answered 407 to CONNECT", False),
        (b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n", "answered 502 to CONNECT", True),
        (b"", "gave no answer to CONNECT", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "gave no answer to CONNECT", True),
        (b"220 mail.example ESMTP\r\n", "does not answer as a proxy", False),
        (
            b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000,
            "gave no answer to CONNECT",
            True,
        ),
    ],
)
async def test_a_proxy_that_makes_no_tunnel_is_told(
    answer: bytes, reason: str, retryable: bool
) -> None:
    async with proxy(answer) as way, ModelClient(environ={"ALL_PROXY": way.url}) as client:
        with pytest.raises(ModelUnreachable, match=reason) as caught:
            await client.chat(endpoint_at("https://model.example"), ask())
        assert client.open_connections == 0

    error = caught.value
    assert error.retryable is retryable
    assert "(https://model.example) through the proxy http://127.0.0.1:" in str(error)
    assert "secret-pw" not in str(error)
    assert "me:" not in str(error)


async def test_a_proxy_that_throws_the_connection_away_is_told() -> None:
    async def throws_away(stream: trio.SocketStream) -> None:
        stream.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        await stream.receive_some(1)
        stream.socket.close()

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, throws_away, listeners)
        port = listeners[0].socket.getsockname()[1]
        async with ModelClient(environ={"HTTPS_PROXY": f"127.0.0.1:{port}"}) as client:
            with pytest.raises(
                ModelUnreachable, match="the proxy .* closed the connection"
            ):
                await client.chat(endpoint_at("https://model.example"), ask())
            assert client.open_connections == 0
        nursery.cancel_scope.cancel()


async def test_a_proxy_that_is_not_there_is_told() -> None:
    async with ModelClient(environ={"HTTP_PROXY": "127.0.0.1:1"}) as client:
        with pytest.raises(ModelUnreachable) as caught:
            await client.chat(endpoint_at("http://model.example"), ask())

    assert "no connection to the proxy 127.0.0.1:1: Connection refused" in str(caught.value)
    assert "Check the proxy variables of the environment." in str(caught.value)


async def test_who_is_exempt_is_reached_directly() -> None:
    async with model_endpoint(Reply("direct")) as server:
        environ = {"HTTP_PROXY": "127.0.0.1:1", "NO_PROXY": "127.0.0.0/8"}
        async with ModelClient(environ=environ) as client:
            response = await client.chat(endpoint_at(server.url), ask())

    assert response.content == "direct"


async def test_a_proxy_that_cannot_be_used_is_refused_at_the_first_call() -> None:
    async with ModelClient(environ={"ALL_PROXY": "socks5://proxy:1080"}) as client:
        with pytest.raises(EndpointInvalid, match="'socks5'"):
            await client.chat(endpoint_at("http://model.example"), ask())
