"""Sockets to listen on: TCP, a path in the file system, and TLS over the former.

    bind("127.0.0.1", 4319)            one socket an address of the name
    bind_path("/run/heddle.sock")      replaces what a dead server left there

Whoever asks for one that can't be had is told so by `CannotListen`.
"""

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugins_host import Fault

if TYPE_CHECKING:
    import ssl

# Connections that wait to be accepted; the system has the last word (somaxconn).
_BACKLOG: Final = 1024
# A client whose machine or network vanished says no good-bye. Its stream may be quiet for
# long, so the system asks after it: first after a minute, then every 15 seconds, 4 times.
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
# Seconds to wait for others that make or remove a socket in the same folder.
_TURN: Final = 2.0
_NAME_ANOTHER: Final = "Name an address like 127.0.0.1, or 0.0.0.0 for all of them."


class CannotListen(Fault):
    """The operator asked for an address, a path or a certificate that can't be used."""


class Listener:
    """A socket that accepts; ``tls`` if what it accepts begins with a handshake."""

    __slots__ = ("_identity", "_owned", "address", "host", "path", "port", "sock", "tls")

    def __init__(
        self,
        sock: socket.socket,
        *,
        host: str = "",
        tls: "ssl.SSLContext | None" = None,
        path: str | None = None,
        owned: bool = True,
    ) -> None:
        """Take a socket that listens; one that is not ``owned`` leaves its path there.

        ``host`` is what was asked for; none for a path.
        ``address`` is where clients find it, as a URL or ``unix:`` and a path; ``port`` is
        what the system chose if none was asked for, and 0 for a path.
        """
        sock.setblocking(False)
        self.sock = sock
        self.host = host
        self.tls = tls
        self.path = path
        self._owned = owned
        if path is None:
            bound, self.port = sock.getsockname()[:2]
            shown = f"[{bound}]" if ":" in bound else bound
            self.address = f"{'https' if tls else 'http'}://{shown}:{self.port}"
            self._identity = None
        else:
            self.port = 0
            self.address = f"unix:{path}"
            self._identity = _identity(path)

    def close(self) -> None:
        """Accept no more, and take the path away if it is still this socket's."""
        self.sock.close()
        # Another server may have replaced it by now, and then it is that one's.
        if self.path is None or not self._owned:
            return
        with suppress(OSError), _turn_at(self.path):
            if _identity(self.path) == self._identity:
                Path(self.path).unlink()


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def bind(
    host: str,
    port: int,
    *,
    reuse_port: bool = False,
    tls: "ssl.SSLContext | None" = None,
) -> list[Listener]:
    """Listen on every address of ``host``.

    Args:
        host: A name or an address.
        port: 0 lets the system choose one, the same for all addresses.
        reuse_port: Share the port with other processes that do the same.
        tls: As of `tls_context`.

    Raises:
        CannotListen: The name is unknown, or the port is taken or not permitted.
    """
    where = f"{host}:{port}"
    try:
        # As bytes it needs no tables for names in other scripts.
        found = socket.getaddrinfo(
            host.encode("ascii" if host.isascii() else "idna") or None,
            port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
    except (OSError, UnicodeError) as error:
        raise CannotListen(
            f"{host!r} is not an address of this machine",
            where=where,
            fix=_NAME_ANOTHER,
        ) from error
    listeners: list[Listener] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if listeners and not port:
                address = (address[0], listeners[0].port, *address[2:])
            try:
                sock = _tcp(family, kind, protocol, address, reuse_port=reuse_port)
            except OSError as error:
                # A machine without IPv6 still has names with an IPv6 address.
                if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) and (
                    len(found) > 1
                ):
                    continue
                raise _cannot(error, where) from error
            listeners.append(Listener(sock, host=host, tls=tls))
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    if not listeners:
        raise CannotListen(
            "no address of that name is one of this machine",
            where=where,
            fix=_NAME_ANOTHER,
        )
    return listeners


def _tcp(
    family: int, kind: int, protocol: int, address: object, *, reuse_port: bool
) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Connections inherit these, which saves setting them on each.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE:
            option = getattr(socket, name, None)
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.bind(address)  # type: ignore[arg-type]
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def bind_path(path: str, *, mode: int = 0o600) -> Listener:
    """Listen on a path in the file system.

    Args:
        path: At most some 100 bytes. A socket that nobody listens on is replaced.
        mode: Who may connect.

    Raises:
        CannotListen: Something else is there, or it can't be made.
    """
    where = f"socket {path}"
    if not path or "\0" in path:
        raise CannotListen(f"{path!r} is no path", where=where)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _turn_at(path):
            try:
                _bind_path(sock, path, mode)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                _remove_stale(path, where)
                _bind_path(sock, path, mode)
            sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise _cannot(error, where) from error
    except BaseException:
        sock.close()
        raise
    return Listener(sock, path=path)


@contextmanager
def _turn_at(path: str) -> Iterator[None]:
    """Have no other server make or remove a socket there meanwhile.

    One that is bound and does not listen yet, or that two find dead at a time, would be
    taken away from a server that lives. The kernel takes the lock off when we end.
    """
    try:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)  # noqa: PTH120
    except OSError:
        # It is not there, as binding will tell, or may not be listed.
        yield
        return
    try:
        until = time.monotonic() + _TURN
        while time.monotonic() < until:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break  # there are file systems without locks
        yield
    finally:
        os.close(folder)


def _bind_path(sock: socket.socket, path: str, mode: int) -> None:
    # Between bind and chmod nobody else may connect.
    before = os.umask(0o777 & ~mode)
    try:
        sock.bind(path)
    finally:
        os.umask(before)


def _remove_stale(path: str, where: str) -> None:
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise CannotListen(
            "there is a file of that name", where=where, fix="Name another path."
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # One that is stuck, with many waiting, would have us wait as well.
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
        except BlockingIOError:
            pass
    raise CannotListen(
        "another server listens there", where=where, fix="Stop it, or name another path."
    )


def _cannot(error: OSError, where: str) -> CannotListen:
    match error.errno:
        case errno.EADDRINUSE:
            return CannotListen(
                "it is in use", where=where, fix="Stop who uses it, or choose another."
            )
        case errno.EACCES | errno.EPERM:
            return CannotListen(
                "not permitted", where=where, fix="Choose a port above 1023, or a path "
                "in a folder that this user may write."
            )  # fmt: skip
        case errno.EADDRNOTAVAIL:
            return CannotListen(
                "that is not an address of this machine", where=where, fix=_NAME_ANOTHER
            )
        case errno.ENOENT | errno.ENOTDIR:
            return CannotListen(
                "there is no such folder", where=where, fix="Make it, or name another path."
            )
        case _:
            # A path that is too long has no number.
            what = error.strerror or f"{error}: at most some 100 bytes"
            return CannotListen(what, where=where, fix="Name another.")


def tls_context(certificate: str, key: str | None = None) -> "ssl.SSLContext":
    """A server's TLS: version 1.2 and up, HTTP/1.1.

    Args:
        certificate: A PEM file with the certificate and its chain.
        key: A PEM file with the private key, if that is in a file of its own.

    Raises:
        CannotListen: They can't be read, or do not belong together.
    """
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for name in (certificate, key):
        if name is not None and not os.access(name, os.R_OK):
            raise CannotListen("there is no readable file", where=name)

    def no_password() -> str:
        raise CannotListen(
            "the key is encrypted",
            where=key or certificate,
            fix="Give the server a key without a passphrase.",
        )

    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as error:
        if key is None and "PRIVATE KEY" not in Path(certificate).read_text("latin-1"):
            raise CannotListen(
                "there is no private key in the file of the certificate",
                where=certificate,
                fix="Name the file of the key with --tls-key.",
            ) from error
        raise CannotListen(
            f"no certificate and key that belong together ({error.reason or error})",
            where=f"{certificate}{', ' + key if key else ''}",
            fix="Name PEM files with --tls-cert and --tls-key.",
        ) from error
    _check_dates(certificate)
    return context


def _check_dates(certificate: str) -> None:
    """See that no client will turn away from a certificate for its age.

    The only reader of dates that comes with Python is not public, and wants a file. Where
    there is none, clients find out.
    """
    import ssl
    import tempfile
    import time

    read = getattr(getattr(ssl, "_ssl", None), "_test_decode_cert", None)
    if read is None:
        return
    text = Path(certificate).read_text(encoding="latin-1")
    _, begin, rest = text.partition("-----BEGIN CERTIFICATE-----")
    body, end, _ = rest.partition("-----END CERTIFICATE-----")
    with tempfile.NamedTemporaryFile("w", encoding="latin-1") as file:
        file.write(f"{begin}{body}{end}\n")
        file.flush()
        shown = read(file.name)
    if ssl.cert_time_to_seconds(shown["notAfter"]) < time.time():
        raise CannotListen(
            f"the certificate has expired on {shown['notAfter']}",
            where=certificate,
            fix="Have it renewed.",
        )
