"""Where a server listens, and what it says when it can't."""

import errno
import fcntl
import os
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from heddle.server.http import (
    Answer,
    CannotListen,
    Limits,
    Request,
    Response,
    bind,
    bind_path,
    listen,
    tls_context,
)
from tests.heddle.server.http.support import GET, Peer, echo, ok, post, serving, until

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(
    OPENSSL is None, reason="there is no openssl to make keys"
)


async def client_name(request: Request) -> Answer:
    return Response(200, (), request.client.encode())


# TCP


async def test_every_address_of_a_name_is_listened_on_at_one_port() -> None:
    listeners = bind("localhost", 0)
    assert len({listener.port for listener in listeners}) == 1
    async with serving(client_name, listeners=listeners):
        for listener in listeners:
            host = listener.sock.getsockname()[0]
            async with await trio.open_tcp_stream(host, listener.port) as stream:
                peer = Peer(stream)
                await peer.send(GET)
                name = (await peer.answer()).body.decode()
                own = stream.socket.getsockname()[1]
                assert name == (f"[::1]:{own}" if ":" in host else f"127.0.0.1:{own}")


def test_an_address_is_told_as_a_url() -> None:
    (listener,) = bind("127.0.0.1", 0)
    assert listener.address == f"http://127.0.0.1:{listener.port}"
    listener.close()
    listener.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address_is_told_in_brackets() -> None:
    (listener,) = bind("::1", 0)
    assert listener.address == f"http://[::1]:{listener.port}"
    listener.close()


def test_a_port_in_use_is_named() -> None:
    (listener,) = bind("127.0.0.1", 0)
    with pytest.raises(CannotListen) as caught:
        bind("127.0.0.1", listener.port)
    listener.close()
    assert str(caught.value) == (
        f"127.0.0.1:{listener.port}: it is in use. Stop who uses it, or choose another."
    )


def test_a_port_can_be_shared_by_who_agrees() -> None:
    (first,) = bind("127.0.0.1", 0, reuse_port=True)
    (second,) = bind("127.0.0.1", first.port, reuse_port=True)
    first.close()
    second.close()


@pytest.mark.parametrize(
    "host", ["no.such.host.invalid", "203.0.113.7", "999.1.1.1", "ä" * 80, "a\x00b"]
)
def test_what_is_no_address_of_this_machine_is_refused(host: str) -> None:
    with pytest.raises(CannotListen) as caught:
        bind(host, 0)
    assert "127.0.0.1" in caught.value.fix or "assign" in caught.value.what


def two_addresses(*hosts: tuple[int, str]) -> Callable[..., list[object]]:
    def found(host: bytes, port: int, **_: object) -> list[object]:
        return [(family, socket.SOCK_STREAM, 6, "", (name, port)) for family, name in hosts]

    return found


def test_the_port_that_is_chosen_for_one_address_is_that_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = two_addresses((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.0.0.2"))
    monkeypatch.setattr(socket, "getaddrinfo", both)
    first, second = bind("two", 0)
    assert first.port == second.port != 0
    # Taken at one of its addresses is taken.
    first.close()
    with pytest.raises(CannotListen):
        bind("two", second.port)
    second.close()


def test_an_address_that_this_machine_lacks_does_not_matter_if_it_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = two_addresses((socket.AF_INET, "203.0.113.7"), (socket.AF_INET, "127.0.0.1"))
    monkeypatch.setattr(socket, "getaddrinfo", one)
    (listener,) = bind("two", 0)
    assert listener.address.startswith("http://127.0.0.1:")
    listener.close()
    none = two_addresses((socket.AF_INET, "203.0.113.7"), (socket.AF_INET, "203.0.113.8"))
    monkeypatch.setattr(socket, "getaddrinfo", none)
    with pytest.raises(CannotListen, match="no address of that name"):
        bind("two", 0)


def test_a_port_that_is_not_permitted_says_what_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(listen, "_tcp", lambda *_, **__: refuse())
    with pytest.raises(CannotListen) as caught:
        bind("127.0.0.1", 80)
    assert str(caught.value) == (
        "127.0.0.1:80: not permitted. Choose a port above 1023, or a path in a folder that "
        "this user may write."
    )


# A path


async def test_a_path_is_listened_on_and_taken_away_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "heddle.sock"
    listener = bind_path(str(path))
    assert listener.address == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with serving(client_name, listeners=[listener]) as served:
        assert served.port == 0
        async with await trio.open_unix_socket(path) as stream:
            peer = Peer(stream)
            for _ in range(2):
                await peer.send(GET)
                assert (await peer.answer()).body == b""
    assert not path.exists()


async def test_a_client_that_leaves_a_path_cancels_its_handler(tmp_path: Path) -> None:
    begun = trio.Event()
    cancelled = trio.Event()

    async def handler(request: Request) -> Answer:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError

    path = tmp_path / "s"
    async with serving(handler, listeners=[bind_path(str(path))]):
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(GET)
            await begun.wait()
        await cancelled.wait()


def test_what_a_dead_server_left_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    listener = bind_path(path, mode=0o660)
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o660
    listener.close()


def test_a_path_in_use_and_what_is_no_socket_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listener = bind_path(str(path))
    with pytest.raises(CannotListen) as caught:
        bind_path(str(path))
    assert str(caught.value) == (
        f"socket {path}: another server listens there. Stop it, or name another path."
    )
    listener.close()
    path.write_text("precious")
    with pytest.raises(CannotListen) as caught:
        bind_path(str(path))
    assert caught.value.what == "there is a file of that name"
    assert path.read_text() == "precious"


def test_a_server_that_keeps_clients_waiting_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as stuck, ExitStack() as clients:
        stuck.bind(path)
        stuck.listen(0)
        for _ in range(3):
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect_ex(path)
        with pytest.raises(CannotListen, match="another server listens there"):
            bind_path(path)
    assert Path(path).exists()


def test_a_server_that_is_about_to_listen_is_not_taken_for_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "s")
    turn = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    found: list[Exception] = []
    waits_or_ended = threading.Event()
    sleep = time.sleep

    def wait(seconds: float) -> None:
        waits_or_ended.set()
        sleep(seconds)

    def come_second() -> None:
        try:
            bind_path(path).close()
        except CannotListen as refused:
            found.append(refused)
        finally:
            waits_or_ended.set()

    monkeypatch.setattr(time, "sleep", wait)
    second = threading.Thread(target=come_second)
    with socket.socket(socket.AF_UNIX) as first:
        first.bind(path)
        second.start()
        waits_or_ended.wait()
        first.listen()
        os.close(turn)
        second.join()
        assert "another server listens there" in str(found)
    assert Path(path).exists()


def test_a_folder_that_another_holds_on_to_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "_TURN", 0.02)
    turn = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    bind_path(str(tmp_path / "s")).close()
    os.close(turn)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_this_user_may_not_write_gets_no_socket(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    before = os.geteuid()
    if not before:
        os.seteuid(65534)  # root may write everywhere
    try:
        with pytest.raises(CannotListen, match="not permitted") as caught:
            bind_path(str(folder / "s"))
    finally:
        os.seteuid(before)
    assert "a folder that this user may write" in (caught.value.fix or "")


def test_a_path_that_is_another_servers_by_now_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    old = bind_path(str(path))
    path.unlink()
    new = bind_path(str(path))
    old.close()
    assert path.exists()
    new.close()
    assert not path.exists()


@pytest.mark.parametrize("path", ["/no/such/folder/s", "/" + "a" * 200, "a\x00b", ""])
def test_a_path_that_cannot_be_is_refused(path: str) -> None:
    with pytest.raises(CannotListen) as caught:
        bind_path(path)
    assert caught.value.where == f"socket {path}"


# TLS


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate of this machine, and another key."""
    folder = tmp_path_factory.mktemp("keys")
    assert OPENSSL is not None
    for name in ("here", "other"):
        command = [OPENSSL, "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
        command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", f"/CN={name}"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(folder / f"{name}.key")]
        command += ["-out", str(folder / f"{name}.pem")]
        subprocess.run(command, check=True, capture_output=True)
    locked = [OPENSSL, "ec", "-aes128", "-passout", "pass:x"]
    locked += ["-in", str(folder / "here.key"), "-out", str(folder / "locked.key")]
    subprocess.run(locked, check=True, capture_output=True)
    return folder


async def tls_client(keys: Path, port: int) -> Peer:
    context = ssl.create_default_context(cafile=str(keys / "here.pem"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    stream = await trio.open_ssl_over_tcp_stream(
        "127.0.0.1", port, ssl_context=context, https_compatible=True
    )
    await stream.do_handshake()
    assert stream.selected_alpn_protocol() == "http/1.1"
    return Peer(stream)


@needs_openssl
async def test_requests_go_through_tls(keys: Path) -> None:
    tls = tls_context(str(keys / "here.pem"), str(keys / "here.key"))
    listeners = bind("127.0.0.1", 0, tls=tls)
    assert listeners[0].address.startswith("https://")
    async with serving(echo, listeners=listeners) as served:
        peer = await tls_client(keys, served.port)
        for size in (1, 300_000, 3_000_000):
            await peer.send(post(b"x" * size))
            assert len((await peer.answer()).json["body"]) == size
        await peer.send(GET[:-2] + b"Connection: close\r\n\r\n")
        assert (await peer.answer()).status == 200
        assert await peer.rest() == b""
        await peer.stream.aclose()


@needs_openssl
async def test_a_tls_client_that_leaves_cancels_its_handler(keys: Path) -> None:
    begun = trio.Event()
    cancelled = trio.Event()

    async def handler(request: Request) -> Answer:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError

    tls = tls_context(str(keys / "here.pem"), str(keys / "here.key"))
    async with serving(handler, listeners=bind("127.0.0.1", 0, tls=tls)) as served:
        peer = await tls_client(keys, served.port)
        await peer.send(GET)
        await begun.wait()
        await peer.stream.aclose()
        await cancelled.wait()


@needs_openssl
async def test_what_is_no_handshake_is_no_event(keys: Path) -> None:
    tls = tls_context(str(keys / "here.pem"), str(keys / "here.key"))
    limits = Limits(header_timeout=0.1)
    listeners = bind("127.0.0.1", 0, tls=tls)
    async with serving(ok, limits=limits, listeners=listeners) as served:
        async with served.connect() as peer:
            await peer.send(GET)
            await peer.rest()
        async with served.connect() as peer:
            await peer.send(b"\x16\x03\x01")
            assert await peer.rest() == b""
        async with served.connect() as peer:
            # One byte after the other is no more of a handshake.
            await peer.send(b"\x16\x03\x01\x40\x00")
            with pytest.raises(trio.BrokenResourceError):
                while True:
                    await trio.sleep(0.01)
                    await peer.send(b"\x01")
        async with served.connect() as peer:
            pass
        await until(lambda: served.server.connections == 0)
        assert served.report.refusals == []
        good = await tls_client(keys, served.port)
        await good.send(GET)
        assert (await good.answer()).status == 200
        served.server.stop(grace=60)
        assert await good.rest() == b""
        await good.stream.aclose()


@needs_openssl
@pytest.mark.parametrize(
    ("certificate", "key", "what"),
    [
        ("none.pem", None, "there is no readable file"),
        ("here.pem", "none.key", "there is no readable file"),
        ("here.pem", "other.key", "no certificate and key that belong together"),
        ("here.pem", None, "there is no private key in the file of the certificate"),
        ("here.key", None, "no certificate and key that belong together"),
        ("here.key", "here.key", "no certificate and key that belong together"),
        ("here.pem", "locked.key", "the key is encrypted"),
    ],
)
def test_certificates_that_cannot_be_used_are_named(
    keys: Path, certificate: str, key: str | None, what: str
) -> None:
    with pytest.raises(CannotListen) as caught:
        tls_context(str(keys / certificate), key and str(keys / key))
    assert caught.value.what.startswith(what)
    assert str(keys) in caught.value.where
