"""Bytes of a document in, plain data out: JSON or YAML, the same data from either.

Refused in both are repeated keys, numbers that JSON can't carry, nesting beyond
`MAX_NESTING` and documents beyond `MAX_DOCUMENT`. What the data means comes later.
"""

from typing import Any, Final, Literal, TypeAlias

from heddle.spec.json_syntax import parse_json
from heddle.spec.problems import shown
from heddle.spec.source import MAX_DOCUMENT, refusal

Format: TypeAlias = Literal["json", "yaml"]

FORMATS: Final[dict[str, Format]] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


def parse(data: bytes, *, name: str, format: Format | None = None) -> dict[str, Any]:  # noqa: A002  the word users know
    """Read a document's bytes.

    Args:
        data: UTF-8, with or without a byte order mark.
        name: What errors call the document; its extension tells the format.
        format: The format, whatever the name says.

    Raises:
        DocumentError: The bytes are no such document; it holds one problem.
    """
    if len(data) > MAX_DOCUMENT:
        raise refusal(
            name,
            f"this is {len(data) / 2**20:.1f} MiB, and a document has at most "
            f"{MAX_DOCUMENT // 2**20} MiB",
        )
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    if format is None:
        format = _format_of(data, name)  # noqa: A001
    if format == "json":
        document = parse_json(data, name)
    else:
        try:
            from heddle.spec.yaml_syntax import parse_yaml
        except ImportError as error:
            raise refusal(
                name,
                "YAML can't be read: PyYAML is not here, or was built without libyaml",
                fix="Install PyYAML from its wheel, or write the document in JSON.",
            ) from error
        document = parse_yaml(data, name)
    if type(document) is not dict:
        raise refusal(
            name,
            f"this holds {shown(document)} where a document is an object",
            fix="Write the fields of a component, such as a Flow, at the top level.",
        )
    return document


def _format_of(data: bytes, name: str) -> Format:
    dot = name.rfind(".")
    known = FORMATS.get(name[dot:].lower()) if dot >= 0 else None
    if known is not None:
        return known
    return "json" if data.lstrip(b" \t\r\n")[:1] in (b"{", b"[") else "yaml"
