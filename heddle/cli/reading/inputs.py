"""``--input`` read as a run's starting state: JSON, ``@file``, or ``-`` for stdin."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from heddle.cli.exits import WrongUsage
from heddle.cli.text.wording import line
from heddle.cli.text.wrapping import width_of_stderr
from heddle.nesting import MAX_DEPTH, too_deep
from plugins_host import json_flaw, near_file, nearest, one_of, sentence

if TYPE_CHECKING:
    from heddle.spec import Formats, Property

# A state is sent to models, tools and plugins whole; more is a file given by mistake.
MAX_INPUT: Final = 64 * 1024 * 1024
EXAMPLE: Final = """Give an object, such as '{"question": "why?"}'."""
KINDS: Final = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def read_input(text: str | None) -> dict[str, Any]:
    """The starting state; empty without ``--input``.

    Raises:
        WrongUsage: There is no JSON object there.
    """
    if text is None:
        return {}
    where, data = _read(text)
    if not data.strip():
        raise WrongUsage("it is empty", where=where, fix=EXAMPLE)
    try:
        state = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        flaw = json_flaw(data, error)
        raise WrongUsage(
            f"this is not JSON: {flaw.what}",
            where=where,
            # What does not even begin as one is no mistake in an object.
            fix=(data.lstrip()[:1] == b"{" and flaw.fix) or EXAMPLE,
            quoted=_quoted(where, data, flaw.offset),
        ) from error
    except RecursionError as error:
        raise _too_deep(where) from error
    if not isinstance(state, dict):
        kind = KINDS.get(type(state), "a number")
        raise WrongUsage(
            f"this is {kind}, and a run starts from an object", where=where, fix=EXAMPLE
        )
    if too_deep(state, data):
        raise _too_deep(where)
    return state


def _quoted(where: str, data: bytes, offset: int | None) -> list[str]:
    """The line with the character that has no place in it."""
    if offset is None:
        return []
    from heddle.cli.reading.excerpts import excerpt
    from heddle.spec.places import word_at

    text = data.decode("utf-8-sig")
    return excerpt(
        where.rpartition("@")[2], text, word_at(text, offset), width=width_of_stderr()
    )


def misspelt(given: Mapping[str, Any], declared: Iterable["Property"]) -> Iterator[str]:
    """A warning for each input that is probably another one, which is not given.

    Any other name that a flow does not declare is carried along, for whoever reads it.
    """
    known = {each.title: each for each in declared}
    left = [name for name in known if name not in given]
    for name in given:
        guess = None if name in known else nearest(name, left)
        if guess is not None:
            is_default = known[guess].has_default
            instead = "is left at its default" if is_default else "is not given"
            what = f"the flow has no input {name!r}, and {guess!r} {instead}"
            yield sentence(what, where="--input", fix=f"Did you mean {guess!r}?")


def check_format(name: str | None, formats: "Formats") -> None:
    """See that ``--format`` names one.

    Raises:
        WrongUsage: There is none of this name.
    """
    if name is not None and name not in formats.names:
        raise WrongUsage(
            f"there is no format {name!r}",
            where="--format",
            fix=one_of(name, formats.names),
        )


def _read(text: str) -> tuple[str, bytes]:
    """What errors call it, and its bytes."""
    if text == "-":
        if sys.stdin is None:
            raise WrongUsage("stdin is closed", where="--input -")
        return "--input -", _bounded("--input -", sys.stdin.buffer.read(MAX_INPUT + 1))
    if text.startswith("@"):
        where = f"--input {line(text)}"
        try:
            with Path(text[1:]).open("rb") as file:
                return where, _bounded(where, file.read(MAX_INPUT + 1))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise WrongUsage(
                f"cannot read it: {reason}",
                where=where,
                fix=near_file(text[1:], (".json",)),
            ) from error
    try:
        return "--input", text.encode()
    except UnicodeEncodeError as error:
        raise WrongUsage("it is not UTF-8", where="--input") from error


def _bounded(where: str, data: bytes) -> bytes:
    if len(data) > MAX_INPUT:
        raise WrongUsage(f"it is over {MAX_INPUT // 2**20} MiB", where=where)
    return data


def _too_deep(where: str) -> WrongUsage:
    return WrongUsage(f"this is nested deeper than {MAX_DEPTH} levels", where=where)
