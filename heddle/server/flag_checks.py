"""What the flags of ``heddle-server`` say that can't be done, before anything is loaded."""

import re
from typing import Final

from plugins_host import Fault

TOKEN_VARIABLE: Final = "HEDDLE_AUTH_TOKEN"  # noqa: S105  its name


class CannotStart(Fault):
    """What the flags say can't be done."""


def check_tls(cert: str | None, key: str | None, socket_path: str | None) -> None:
    """See that certificate and key are there together, where there can be TLS."""
    if key is not None and cert is None:
        raise CannotStart(
            "a key needs its certificate", where="--tls-key", fix="Give --tls-cert too."
        )
    if socket_path is not None and cert is not None:
        raise CannotStart(
            "a Unix socket has no TLS", where="--socket", fix="Leave out --tls-cert."
        )


def check_token(token: str | None) -> None:
    """See that callers can send it in a header."""
    if token is not None and not _is_credential(token):
        raise CannotStart(
            "it is empty, or has characters that no header carries",
            where=f"--auth-token or ${TOKEN_VARIABLE}",
            fix="Use letters, digits and punctuation.",
        )


def check_origins(origins: tuple[str, ...]) -> None:
    """See that a browser could send each: what it never sends would allow nobody."""
    for origin in origins:
        if origin not in ("*", "null") and not re.fullmatch(
            r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s]+/?", origin
        ):
            raise CannotStart(
                f"{origin!r} is no origin",
                where="--cors-origin",
                fix="Write scheme and host, such as https://app.example, or *.",
            )


def check_hosts(hosts: tuple[str, ...]) -> None:
    """See that each can be a host or a network: what is neither would allow nothing."""
    from ipaddress import ip_network

    for host in hosts:
        try:
            ip_network(host.strip("[]"), strict=False)
        except ValueError:
            # A name that ends in a number is an address to whoever connects.
            if re.search(r"[/:@\s\[\]]|^$|(^|\.)\d+\.?$", host):
                raise CannotStart(
                    f"{host!r} is no host and no network",
                    where="--allow-net",
                    fix="Write a name, an address or a range, such as 10.0.0.0/8, without "
                    "scheme and port.",
                ) from None


def check_temporary() -> None:
    """See that files can be written where the working folders of runs will be."""
    import os
    import tempfile

    named = next((each for each in ("TMPDIR", "TEMP", "TMP") if os.environ.get(each)), None)
    try:
        found = tempfile.gettempdir()
    except FileNotFoundError:
        found = None
    # Where none can be, the library looks for another place, and would find one that the
    # operator had reasons not to name.
    if found is None or (
        named is not None and found != os.path.abspath(os.environ[named])  # noqa: PTH100  as the library does
    ):
        folder = os.environ[named] if named is not None else "any folder for it"
        raise CannotStart(
            f"no temporary file can be written in {folder}",
            where=named or "TMPDIR",
            fix="Name a folder that this user may write, on a disk that is not full.",
        )


def check_flows(flows_root: str | None, components: tuple[str, ...]) -> None:
    """See that the folder of flows is one, and that components are for flows in it."""
    from heddle.server.submitted.flows_root import is_folder

    if flows_root is not None and not is_folder(flows_root):
        raise CannotStart(
            f"there is no readable folder {flows_root!r}",
            where="--flows-root",
            fix="Make it, or correct --flows-root.",
        )
    if components and flows_root is None:
        raise CannotStart(
            "only flows of --flows-root may refer to components, and there are none",
            where="--components",
            fix="Give --flows-root too, or leave it out.",
        )


def _is_credential(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable() and " " not in token
