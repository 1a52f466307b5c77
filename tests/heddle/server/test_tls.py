"""TLS as clients and operators meet it: certificates of a made-up authority."""

import http.client
import json
import signal
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
import trustme
from trio_websocket import open_websocket_url

from tests.heddle.server.serving import PATIENCE, STRAIGHT, refused, server, sse

FLAGS = ("--tls-cert", "cert.pem", "--tls-key", "key.pem")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def write(folder: Path, made: trustme.LeafCert) -> None:
    """The files that the flags name."""
    chain = b"".join(each.bytes() for each in made.cert_chain_pems)
    (folder / "cert.pem").write_bytes(chain)
    (folder / "key.pem").write_bytes(made.private_key_pem.bytes())


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's context."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def serial(port: int, context: ssl.SSLContext) -> str:
    """Which certificate is shown."""
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as client,
    ):
        shown = client.getpeercert()
        assert shown is not None
        assert client.version() in ("TLSv1.2", "TLSv1.3")
        return str(shown["serialNumber"])


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_everything_is_served_over_tls_and_a_certificate_is_renewed(
    tmp_path: Path, authority: trustme.CA, workers: tuple[str, ...]
) -> None:
    write(tmp_path, authority.issue_cert("localhost"))
    context = trusting(authority)
    with server(tmp_path, *FLAGS, *workers) as served:
        assert served.address.startswith("https://")
        client = http.client.HTTPSConnection("localhost", served.port, context=context)
        body = json.dumps({"flow": STRAIGHT})
        given = {"Content-Type": "application/json"}
        client.request("POST", "/v1/runs", body, given)
        answer = client.getresponse()
        assert answer.status == 200
        assert answer.headers["X-Request-ID"]
        run = json.loads(answer.read())["run"]
        client.request("GET", f"/v1/runs/{run}/events")
        assert sse(client.getresponse().read())[-1]["event"] == "flow_complete"
        client.close()
        trio.run(_over_a_socket, f"wss://localhost:{served.port}/v1/stream", context)

        old = ssl.create_default_context()
        authority.configure_trust(old)
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            serial(served.port, old)

        before = serial(served.port, context)
        (tmp_path / "cert.pem").write_text("nothing")
        served.signal(signal.SIGHUP)
        assert "cert.pem" in served.line("reload failed")
        assert serial(served.port, context) == before
        write(tmp_path, authority.issue_cert("localhost"))
        served.signal(signal.SIGHUP)
        served.line("reloaded")
        assert served.until(lambda: serial(served.port, context) != before)


async def _over_a_socket(url: str, context: ssl.SSLContext) -> None:
    with trio.fail_after(PATIENCE):
        async with open_websocket_url(url, context) as client:
            asked = {"type": "run", "ref": "a", "flow": STRAIGHT, "inputs": {}}
            await client.send_message(json.dumps(asked))
            seen = ""
            while '"type":"end"' not in seen:
                seen = str(await client.get_message())
            assert "completed" in seen
            assert any(name == b"x-request-id" for name, _ in client.handshake_headers)


def test_certificates_that_cannot_be_used_are_told(
    tmp_path: Path, authority: trustme.CA
) -> None:
    write(tmp_path, authority.issue_cert("localhost"))
    good, key = (tmp_path / "cert.pem").read_bytes(), (tmp_path / "key.pem").read_bytes()
    other = authority.issue_cert("localhost").private_key_pem.bytes()
    past = datetime(2020, 1, 1, tzinfo=UTC)
    expired = authority.issue_cert("localhost", not_before=past, not_after=past)
    from cryptography.hazmat.primitives import serialization

    locked = serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    status, told = refused(tmp_path, "--tls-cert", "cert.pem")
    assert status == 1
    assert told == (
        "Error: cert.pem: there is no private key in the file of the certificate. Name the "
        "file of the key with --tls-key.\n"
    )
    for cert, private, words in (
        (b"nothing", key, "cert.pem"),
        (good, other, "belong together"),
        (good, locked, "the key is encrypted"),
        (
            expired.cert_chain_pems[0].bytes(),
            expired.private_key_pem.bytes(),
            "expired",
        ),
    ):
        (tmp_path / "cert.pem").write_bytes(cert)
        (tmp_path / "key.pem").write_bytes(private)
        status, told = refused(tmp_path, *FLAGS)
        assert status == 1
        assert words in told
        assert told.count("Error: ") == 1
        assert "Traceback" not in told
