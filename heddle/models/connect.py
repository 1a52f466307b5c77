"""New connections: to an origin or its proxy, through a tunnel, with TLS.

http,  direct     a raw socket
http,  proxy      a raw socket to the proxy; requests are in absolute form
https, direct     TLS over a socket
https, proxy      CONNECT over a socket to the proxy, then TLS
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import httptools
import trio
from msgspec import Struct

from heddle.http import (
    MAX_HEAD,
    ConnectFailed,
    Connection,
    SocketWire,
    TlsWire,
    reason_of,
    secure,
)
from heddle.models.endpoint import Origin, TlsFiles, basic
from heddle.models.proxies import Proxy

if TYPE_CHECKING:
    import ssl

_READ: Final = 4096


class Destination(Protocol):
    """What has to be known of where connections go."""

    @property
    def origin(self) -> Origin:
        """Scheme, host and port."""
        ...

    @property
    def tls(self) -> TlsFiles:
        """Certificate files."""
        ...


class Advice(Struct, frozen=True):
    """What errors tell to do about a host that is not there, or is not trusted."""

    unreachable: str
    trust: str


OF_MODELS: Final = Advice(
    unreachable="Check the url, and that the model server runs.",
    trust="Set ca_file of the LLM config to the authority that signed it.",
)

Permit: TypeAlias = Callable[[str, str], bool]
"""Whether a host, by its name and by one of its addresses, may be connected to."""


class Connector:
    """Opens connections. TLS contexts are made once: each reads all authorities.

    Args:
        permit: Asked about the addresses that a name turned out to have; None permits
            all. Proxies are the operator's and not asked about.
        advice: What errors tell to do.
    """

    def __init__(self, permit: Permit | None = None, advice: Advice = OF_MODELS) -> None:
        self._permit = permit
        self._advice = advice
        self._contexts: dict[TlsFiles, ssl.SSLContext] = {}
        self.connections: set[Connection] = set()

    def close(self) -> None:
        """Close every connection that was opened here."""
        for connection in tuple(self.connections):
            connection.close()

    async def open(self, endpoint: Destination, proxy: Proxy | None) -> Connection:
        """A connection to the endpoint's origin, ready for a request.

        Raises:
            ConnectFailed: There is none.
        """
        origin = endpoint.origin
        first = origin if proxy is None else proxy.origin
        bottom = await _dial(
            first,
            is_proxy=proxy is not None,
            permit=None if proxy else self._permit,
            unreachable=self._advice.unreachable,
        )
        sock = bottom.socket
        try:
            stream: Any = bottom
            if first.scheme == "https":
                files = endpoint.tls if proxy is None else TlsFiles()
                stream = await self._secure(stream, first, files)
            if proxy is not None and origin.scheme == "https":
                await _tunnel(stream, origin, proxy)
                stream = await self._secure(stream, origin, endpoint.tls)
            if stream is bottom:
                return Connection(SocketWire(bottom), self.connections)
            return Connection(TlsWire(stream, sock), self.connections)
        except BaseException:
            sock.close()
            raise

    async def _secure(self, stream: Any, origin: Origin, files: TlsFiles) -> Any:
        return await secure(
            stream,
            origin.host,
            origin.authority,
            self._context(files),
            trust=self._advice.trust,
        )

    def _context(self, files: TlsFiles) -> "ssl.SSLContext":
        import ssl

        context = self._contexts.get(files)
        if context is None:
            try:
                context = ssl.create_default_context(cafile=files.ca)
                if files.cert is not None:
                    # An empty password, or OpenSSL asks for one on the terminal.
                    context.load_cert_chain(files.cert, files.key, password="")
            except (OSError, ssl.SSLError) as error:
                named = ", ".join(
                    str(path) for path in (files.ca, files.cert, files.key) if path
                )
                raise ConnectFailed(
                    f"certificate files cannot be used: {named or 'the system’s'} "
                    f"({error})",
                    fix="Check ca_file, cert_file and key_file.",
                ) from error
            context.set_alpn_protocols(["http/1.1"])
            self._contexts[files] = context
        return context


async def _dial(
    origin: Origin, *, is_proxy: bool, permit: Permit | None, unreachable: str
) -> trio.SocketStream:
    party = f"the proxy {origin.authority}" if is_proxy else origin.authority
    fix = "Check the proxy variables of the environment." if is_proxy else unreachable
    try:
        if permit is not None:
            return await _dial_permitted(origin, permit)
        return await trio.open_tcp_stream(origin.host, origin.port)
    except socket.gaierror as error:
        raise ConnectFailed(
            f"no address for {party}: {error.strerror}",
            fix=fix,
            retryable=error.errno == socket.EAI_AGAIN,
        ) from error
    except OSError as error:
        raise ConnectFailed(
            f"no connection to {party}: {reason_of(error)}", fix=fix, retryable=True
        ) from error


async def _dial_permitted(origin: Origin, permit: Permit) -> trio.SocketStream:
    """Connect to the very addresses that were asked about: a name can change its mind."""
    found = await trio.socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    if not all(permit(origin.host, address) for address in addresses):
        raise ConnectFailed(
            f"{origin.host} is not to be reached from here: it is at a private address",
            fix="Whoever runs heddle can allow it.",
        )
    for address in addresses[:-1]:
        with suppress(OSError):
            return await trio.open_tcp_stream(address, origin.port)
    return await trio.open_tcp_stream(addresses[-1], origin.port)


class _Head:
    """Reads the head of the answer to CONNECT, and nothing after it."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.status = 0

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status >= 200:
            self.status = status


async def _tunnel(stream: Any, origin: Origin, proxy: Proxy) -> None:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    target = f"{host}:{origin.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.userinfo is not None:
        lines.append(f"Proxy-Authorization: {basic(proxy.userinfo)}")
    head = _Head()
    size = 0
    try:
        await stream.send_all("\r\n".join([*lines, "", ""]).encode("latin-1"))
        while not head.status:
            data = await stream.receive_some(_READ)
            size += len(data)
            if not data or size > MAX_HEAD:
                raise ConnectFailed(
                    f"the proxy {proxy.origin.authority} gave no answer to CONNECT",
                    retryable=True,
                )
            head.parser.feed_data(bytes(data))
    except trio.BrokenResourceError as error:
        raise ConnectFailed(
            f"the proxy {proxy.origin.authority} closed the connection", retryable=True
        ) from error
    except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
        raise ConnectFailed(
            f"{proxy.origin.authority} does not answer as a proxy: {error}"
        ) from error
    if head.status >= 300:
        raise ConnectFailed(
            f"the proxy {proxy.origin.authority} answered {head.status} to CONNECT",
            fix="Check the proxy variables of the environment.",
            retryable=head.status in (502, 503, 504),
        )
