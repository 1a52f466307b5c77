"""The text of a document: its limits, and how one that breaks them is refused."""

from typing import Final

from heddle.spec.problems import DocumentError, Problem

# Thousands of nodes with long prompts fit; a data file taken for a flow does not.
MAX_DOCUMENT: Final = 16 * 1024 * 1024

# Forty flows inside one another. Well below what Python's stack and libyaml allow, so
# that nothing after parsing meets a structure it can't walk.
MAX_NESTING: Final = 128

# Python refuses to read longer integers, and nothing that counts is this large.
MAX_DIGITS: Final = 4300


def refusal(name: str, what: str, *, where: str = "", fix: str = "") -> DocumentError:
    """An error of one problem, at a place in the text."""
    return DocumentError([Problem(where, what, fix)], name=name)


def position(text: str, offset: int) -> str:
    """Where the character at ``offset`` is, counted from 1."""
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"


def too_deep(name: str, where: str) -> DocumentError:
    """The refusal of more than `MAX_NESTING` levels."""
    return refusal(
        name,
        f"this is nested more than {MAX_NESTING} levels deep",
        where=where,
        fix="Move inner components to '$referenced_components'.",
    )


def text_of(data: bytes, name: str) -> str:
    """The text that the bytes are.

    Raises:
        DocumentError: They are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        good = data[: error.start].decode()
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise refusal(name, "this is UTF-16", fix="Save it as UTF-8.") from error
        raise refusal(
            name,
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            where=position(good, len(good)),
            fix="Save the document as UTF-8.",
        ) from error
