"""TLS: certificates are checked, contexts are made once, connections are kept."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
import trio

from heddle.models import ModelClient, ModelTimedOut, ModelUnreachable, Timeouts
from heddle.models.endpoint import TlsFiles
from tests.heddle.models.support import ask, endpoint_at
from tests.support.model_endpoint import Reply, model_endpoint

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="there is no openssl to make keys")


def make_certificate(folder: Path, name: str, subject: str) -> None:
    """A self-signed certificate for ``subject``: ``name.pem`` and ``name.key``."""
    assert OPENSSL is not None
    command = [OPENSSL, "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
    command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName={subject}"]
    command += ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate of this machine, and one of somebody else."""
    folder = tmp_path_factory.mktemp("keys")
    make_certificate(folder, "here", "IP:127.0.0.1")
    make_certificate(folder, "elsewhere", "DNS:elsewhere.example")
    return folder


def server_context(keys: Path, name: str = "here") -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(keys / f"{name}.pem", keys / f"{name}.key")
    return context


def trusting(keys: Path, name: str = "here") -> TlsFiles:
    return TlsFiles(ca=str(keys / f"{name}.pem"))


@pytest.mark.parametrize("streamed", [False, True])
async def test_calls_go_through_tls_on_a_kept_connection(
    keys: Path, streamed: bool
) -> None:
    text = "long " * 30_000
    async with (
        model_endpoint(Reply("a"), Reply(text), tls=server_context(keys)) as server,
        ModelClient(environ={}) as client,
    ):
        endpoint = endpoint_at(server.url, tls=trusting(keys))
        for expected in ("a", text, "ECHO:hi"):
            pieces: list[str] = []
            response = await client.chat(
                endpoint, ask(), on_text=pieces.append if streamed else None
            )
            assert response.content == expected
            assert "".join(pieces) == (expected if streamed else "")

        assert server.connections == 1
        assert client.open_connections == 1


async def test_contexts_are_made_once(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = ssl.create_default_context

    def counted(*, cafile: str) -> ssl.SSLContext:
        made.append(cafile)
        return original(cafile=cafile)

    async with (
        model_endpoint(tls=server_context(keys)) as server,
        ModelClient(environ={}) as client,
    ):
        monkeypatch.setattr(ssl, "create_default_context", counted)
        server.respond = lambda asked: Reply("x", framing="close")
        for _ in range(3):
            await client.chat(endpoint_at(server.url, tls=trusting(keys)), ask())

    assert len(made) == 1
    assert server.connections == 3


@pytest.mark.parametrize(
    ("name", "files", "reason"),
    [
        ("here", "none", "the certificate of 127.0.0.1 is not trusted: self"),
        ("elsewhere", "elsewhere", "not trusted: IP address mismatch"),
    ],
)
async def test_a_certificate_that_cannot_be_trusted_is_refused(
    keys: Path, name: str, files: str, reason: str
) -> None:
    tls = TlsFiles() if files == "none" else trusting(keys, files)
    async with (
        model_endpoint(tls=server_context(keys, name)) as server,
        ModelClient(environ={}) as client,
    ):
        with pytest.raises(ModelUnreachable, match=reason) as caught:
            await client.chat(endpoint_at(server.url, tls=tls), ask())
        assert client.open_connections == 0

    assert str(caught.value).endswith(
        "Set ca_file of the LLM config to the authority that signed it."
    )
    assert not caught.value.retryable
    assert server.requests == []


async def test_a_client_certificate_is_shown_when_there_is_one(keys: Path) -> None:
    context = server_context(keys)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(keys / "elsewhere.pem")
    files = TlsFiles(
        str(keys / "here.pem"), str(keys / "elsewhere.pem"), str(keys / "elsewhere.key")
    )
    async with model_endpoint(tls=context) as server, ModelClient(environ={}) as client:
        response = await client.chat(endpoint_at(server.url, tls=files), ask())
        assert response.content == "ECHO:hi"

        with pytest.raises(ModelUnreachable):
            await client.chat(endpoint_at(server.url, tls=trusting(keys)), ask())


async def test_certificate_files_that_cannot_be_read_are_named(keys: Path) -> None:
    async with model_endpoint(tls=server_context(keys)) as server:
        for files in (
            TlsFiles(ca=str(keys / "missing.pem")),
            TlsFiles(ca=str(keys / "here.key")),
            TlsFiles(str(keys / "here.pem"), str(keys / "missing.pem")),
        ):
            async with ModelClient(environ={}) as client:
                with pytest.raises(ModelUnreachable, match="certificate files") as caught:
                    await client.chat(endpoint_at(server.url, tls=files), ask())
                assert (files.cert or files.ca or "") in str(caught.value)
                assert client.open_connections == 0


async def test_a_server_without_tls_is_told(keys: Path) -> None:
    async with model_endpoint() as server, ModelClient(environ={}) as client:
        with pytest.raises(ModelUnreachable, match=r"no TLS with 127\.0\.0\.1:") as caught:
            await client.chat(endpoint_at(server.url.replace("http:", "https:")), ask())

    assert "Check the scheme and the port of the url." in str(caught.value)


async def test_a_server_that_hangs_up_on_the_handshake_is_told(keys: Path) -> None:
    async def hangs_up(stream: trio.SocketStream) -> None:
        await stream.receive_some(1)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, hangs_up, listeners)
        url = f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        async with ModelClient(environ={}) as client:
            with pytest.raises(
                ModelUnreachable, match="during the TLS handshake"
            ) as caught:
                await client.chat(endpoint_at(url, tls=trusting(keys)), ask())
            assert client.open_connections == 0
        nursery.cancel_scope.cancel()

    assert caught.value.retryable


@pytest.mark.parametrize("after", [0, 300])
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_connection_that_breaks_is_told(keys: Path, after: int, end: str) -> None:
    reply = Reply("x" * 1000)
    reply.after, reply.end = after, end  # type: ignore[assignment]
    async with (
        model_endpoint(reply, tls=server_context(keys)) as server,
        ModelClient(environ={}) as client,
    ):
        with pytest.raises(ModelUnreachable):
            await client.chat(endpoint_at(server.url, tls=trusting(keys)), ask())
        assert client.open_connections == 0
        assert len(server.requests) == 1


async def test_silence_times_out(keys: Path) -> None:
    async with (
        model_endpoint(Reply("x", delay=30), tls=server_context(keys)) as server,
        ModelClient(environ={}, timeouts=Timeouts(first_byte=0.2)) as client,
    ):
        with pytest.raises(ModelTimedOut, match="timed out after 0.2 s"):
            await client.chat(endpoint_at(server.url, tls=trusting(keys)), ask())
        assert client.open_connections == 0


async def test_a_kept_connection_that_the_server_closed_is_replaced_unseen(
    keys: Path,
) -> None:
    async with (
        model_endpoint(Reply("a", end="close"), tls=server_context(keys)) as server,
        ModelClient(environ={}) as client,
    ):
        endpoint = endpoint_at(server.url, tls=trusting(keys))
        assert (await client.chat(endpoint, ask())).content == "a"
        await server.reached(lambda: server.open_connections == 0)

        assert (await client.chat(endpoint, ask())).content == "ECHO:hi"
        assert server.connections == 2
        assert len(server.requests) == 2


@pytest.mark.parametrize("way", ["cancel", "close"])
async def test_a_call_ends_with_its_scope_and_with_the_client(keys: Path, way: str) -> None:
    async with (
        model_endpoint(Reply("x", delay=30), tls=server_context(keys)) as server,
        ModelClient(environ={}) as client,
        trio.open_nursery() as nursery,
    ):
        endpoint = endpoint_at(server.url, tls=trusting(keys))

        async def call() -> None:
            with pytest.raises(ModelUnreachable):
                await client.chat(endpoint, ask())
            assert way == "close"

        nursery.start_soon(call)
        await server.reached(lambda: len(server.requests) == 1)
        if way == "close":
            await client.aclose()
        else:
            nursery.cancel_scope.cancel()
    assert client.open_connections == 0


async def test_a_large_request_to_a_server_that_does_not_read_times_out(keys: Path) -> None:
    context = server_context(keys)

    async def deaf(stream: trio.SocketStream) -> None:
        secure = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        await secure.do_handshake()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, deaf, listeners)
        url = f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        timeouts = Timeouts(first_byte=0.3)
        async with ModelClient(environ={}, timeouts=timeouts) as client:
            with pytest.raises(ModelTimedOut):
                await client.chat(
                    endpoint_at(url, tls=trusting(keys)), ask("x" * 50_000_000)
                )
            assert client.open_connections == 0
        nursery.cancel_scope.cancel()
