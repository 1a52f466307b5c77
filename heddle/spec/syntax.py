"""Bytes of a document in, plain data out: the same data from any format.

Refused in all are numbers that JSON can't carry, nesting beyond `MAX_NESTING` and documents
beyond `MAX_DOCUMENT`; in JSON and YAML repeated keys too. What the data means comes later.
"""

from typing import Any

from heddle.spec.formats import FORMATS, Formats
from heddle.spec.problems import shown
from heddle.spec.source import MAX_DOCUMENT, refusal


def parse(
    data: bytes,
    *,
    name: str,
    format: str | None = None,  # noqa: A002  the word users know
    formats: Formats = FORMATS,
) -> dict[str, Any]:
    """Read a document's bytes.

    Args:
        data: UTF-8, with or without a byte order mark.
        name: What errors call the document; its extension tells the format.
        format: The name of the format, whatever the document is called.
        formats: The formats there are.

    Raises:
        DocumentError: The bytes are no such document; it holds one problem.
        FormatRefused: There is no such format.
    """
    entry = None if format is None else formats.named(format)
    if len(data) > MAX_DOCUMENT:
        raise refusal(
            name,
            f"this is {len(data) / 2**20:.1f} MiB, and a document has at most "
            f"{MAX_DOCUMENT // 2**20} MiB",
        )
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    if entry is None:
        entry = formats.of(data, name)
    document = entry.read(data, name)
    if type(document) is not dict:
        raise refusal(
            name,
            f"this holds {shown(document)} where a document is an object",
            fix="Write the fields of a component, such as a Flow, at the top level.",
        )
    return document
