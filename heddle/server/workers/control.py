"""What a worker and its parent tell each other, over a pair of sockets.

    worker -> parent   a JSON line each: Loaded, Broken, Serving
    parent -> worker   one byte each, GO with the sockets to listen on

A worker whose parent is gone reads the end, and ends too.
"""

import socket
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

GO: Final = b"G"
"""Serve these sockets."""

DRAIN: Final = b"D"
"""The server stops: refuse runs, and end with those that go on."""

RETIRE: Final = b"R"
"""Others take over: accept no more, and end with what is connected and goes on."""

HURRY: Final = b"H"
"""Wait for nothing."""

MAX_LISTENERS: Final = 64


class Place(Struct, frozen=True):
    """What a socket is for, beside what it says of itself."""

    host: str
    path: str | None


class Loaded(Struct, frozen=True, tag="loaded"):
    """Everything is there to serve with."""

    warnings: tuple[str, ...]


class Broken(Struct, frozen=True, tag="broken"):
    """It can't begin: why, for the operator."""

    message: str


class Serving(Struct, frozen=True, tag="serving"):
    """It accepts."""


Word: TypeAlias = Loaded | Broken | Serving

_decode: Final = msgspec.json.Decoder(Loaded | Broken | Serving).decode
_encode: Final = msgspec.json.Encoder().encode
_places: Final = msgspec.json.Decoder(tuple[Place, ...]).decode


def say(control: socket.socket, word: Word) -> None:
    """Tell the parent; one that is gone is noticed elsewhere."""
    try:
        control.setblocking(True)
        control.sendall(_encode(word) + b"\n")
    except OSError:
        pass
    finally:
        control.setblocking(False)


def words(lines: bytes) -> tuple[list[Word], bytes]:
    """The words in what a worker has said so far, and the beginning of the next one."""
    *whole, rest = lines.split(b"\n")
    return [_decode(each) for each in whole], rest


def hand_over(
    control: socket.socket, places: Sequence[Place], sockets: Sequence[socket.socket]
) -> None:
    """Tell a worker to serve these."""
    numbers = [each.fileno() for each in sockets]
    socket.send_fds(control, [GO + _encode(places)], numbers)


def take_over(control: socket.socket) -> tuple[list[tuple[Place, socket.socket]], bool]:
    """What `hand_over` gave; none of it, and True, if the parent is gone or says else."""
    data, numbers, _, _ = socket.recv_fds(control, 65536, MAX_LISTENERS)
    if not data.startswith(GO):
        return [], True
    sockets = [socket.socket(fileno=number) for number in numbers]
    return list(zip(_places(data[1:]), sockets, strict=True)), False
