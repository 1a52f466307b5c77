"""Bytes of a document in, plain data out: JSON or YAML, the same data from either.

YAML is read by the core schema of YAML 1.2: ``yes``, ``no``, ``on``, ``off`` and dates
are text, keys are always text. Refused in both are repeated keys, numbers that JSON can't
carry, nesting beyond `MAX_NESTING`, and documents beyond `MAX_DOCUMENT`. What the data
means is not this module's business.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

import msgspec

from heddle.spec.problems import (
    MAX_PROBLEMS,
    DocumentError,
    Path,
    Problem,
    shown,
    write_path,
)

if TYPE_CHECKING:
    from yaml import MarkedYAMLError

Format: TypeAlias = Literal["json", "yaml"]

# Thousands of nodes with long prompts fit; a data file taken for a flow does not.
MAX_DOCUMENT: Final = 16 * 1024 * 1024

# Forty flows inside one another. Well below what Python's stack and libyaml allow, so
# that nothing after this module meets a structure it can't walk.
MAX_NESTING: Final = 128

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
        raise _refusal(
            name,
            f"this is {len(data) / 2**20:.1f} MiB, and a document has at most "
            f"{MAX_DOCUMENT // 2**20} MiB",
        )
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    if format is None:
        format = _format_of(data, name)  # noqa: A001
    document = _parse_json(data, name) if format == "json" else _parse_yaml(data, name)
    if type(document) is not dict:
        raise _refusal(
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


def _refusal(name: str, what: str, *, where: str = "", fix: str = "") -> DocumentError:
    return DocumentError([Problem(where, what, fix)], name=name)


def _position(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"


def _too_deep(name: str, where: str) -> DocumentError:
    return _refusal(
        name,
        f"this is nested more than {MAX_NESTING} levels deep",
        where=where,
        fix="Move inner components to '$referenced_components'.",
    )


def _text_of(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        good = data[: error.start].decode()
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise _refusal(name, "this is UTF-16", fix="Save it as UTF-8.") from error
        raise _refusal(
            name,
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            where=_position(good, len(good)),
            fix="Save the document as UTF-8.",
        ) from error


# --- JSON ---------------------------------------------------------------------------


def _parse_json(data: bytes, name: str) -> Any:
    try:
        document = msgspec.json.decode(data)
        # Of repeated keys the decoder keeps the last. Encoding again costs little, and
        # every key that was lost took its colon along.
        colons = msgspec.json.encode(document).count(b":")
    except RecursionError:
        raise _too_deep(name, _deepest(_text_of(data, name))) from None
    except msgspec.DecodeError as error:
        _explain_json(data, name, error)
    if data.count(b":") != colons or b"\\u003" in data:
        _refuse_repeated_keys(data, name)
    if data.count(b"[") + data.count(b"{") > MAX_NESTING and _nests_too_deep(document):
        raise _too_deep(name, _deepest(_text_of(data, name)))
    return document


def _nests_too_deep(document: Any) -> bool:
    """Whether brackets nest deeper than they may, found one level after the other."""
    level = [document] if type(document) is dict or type(document) is list else []
    for _ in range(MAX_NESTING):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _deepest(text: str) -> str:
    """Where brackets first nest deeper than they may."""
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', text, re.DOTALL):
        match token[0][0]:
            case "[" | "{":
                depth += 1
                if depth > MAX_NESTING:
                    return _position(text, token.start())
            case "]" | "}":
                depth -= 1
    return ""  # pragma: no cover  only asked when there is such a place


def _explain_json(data: bytes, name: str, error: msgspec.DecodeError) -> NoReturn:
    """Raise what the standard library's reader has to say: it knows the line, and says
    what it expected there. What it would let pass is told in the decoder's words."""
    import json

    text = _text_of(data, name)
    if not text.strip():
        raise _refusal(name, "this document is empty") from error

    def constant(word: str) -> NoReturn:
        raise _refusal(name, f"{word} is not a number in JSON") from error

    def number(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise _refusal(name, f"the number {shown(digits)} is out of range") from error
        return value

    def integer(digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise _refusal(
                name, f"an integer of {len(digits)} digits is out of range"
            ) from error
        return int(digits)

    try:
        json.loads(text, parse_constant=constant, parse_float=number, parse_int=integer)
    except json.JSONDecodeError as better:
        what = better.msg[0].lower() + better.msg[1:]
        raise _refusal(
            name, f"malformed JSON: {what}", where=_position(text, better.pos)
        ) from error
    except RecursionError:
        raise _too_deep(name, _deepest(text)) from None
    byte = re.search(r"\(byte (\d+)\)", str(error))
    where = (
        _position(text, len(data[: int(byte[1])].decode(errors="ignore"))) if byte else ""
    )
    what = re.sub(r" \(byte \d+\)", "", str(error)).removeprefix("JSON is malformed: ")
    raise _refusal(name, f"malformed JSON: {what}", where=where) from error


class _Object(dict[str, Any]):
    """An object whose keys in the text were ``written``, some more than once."""

    written: tuple[str, ...] = ()


def _refuse_repeated_keys(data: bytes, name: str) -> None:
    import json

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = _Object(pairs)
        if len(read) != len(pairs):
            read.written = tuple(key for key, _ in pairs)
        return read

    problems: list[Problem] = []
    waiting: list[tuple[Any, Path]] = [(json.loads(data, object_pairs_hook=read), None)]
    while waiting:
        value, path = waiting.pop()
        if len(problems) >= MAX_PROBLEMS:
            break
        if isinstance(value, _Object):
            problems += [
                Problem(
                    write_path((path, key)),
                    f"the key {shown(key)} is written {times} times in one object",
                    "Keep one of them.",
                )
                for key, times in Counter(value.written).items()
                if times > 1
            ]
            waiting += [(inner, (path, key)) for key, inner in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [
                (value[index], (path, index)) for index in reversed(range(len(value)))
            ]
    if problems:
        raise DocumentError(problems[:MAX_PROBLEMS], name=name)


# --- YAML ---------------------------------------------------------------------------

# Python refuses to read longer integers, and nothing that counts is this large.
_MAX_DIGITS: Final = 4300

_VALUE_SIZE: Final = 8

_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_WORDS: Final[dict[str, bool | None]] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

_TAG: Final = "tag:yaml.org,2002:"
_TAGS: Final[dict[str, tuple[type, ...]]] = {
    f"{_TAG}null": (type(None),),
    f"{_TAG}bool": (bool,),
    f"{_TAG}int": (int,),
    f"{_TAG}float": (float, int),
}
_COLLECTION_TAGS: Final = (None, "!", f"{_TAG}map", f"{_TAG}seq")


def _parse_yaml(data: bytes, name: str) -> Any:
    import yaml

    text = _text_of(data, name)
    if not text.strip():
        raise _refusal(name, "this document is empty")
    try:
        return _YamlBuilder(text, name).build()
    except yaml.MarkedYAMLError as error:
        raise _malformed_yaml(error, name) from error
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position].decode(errors="ignore")
        raise _refusal(
            name,
            f"malformed YAML: the character U+{error.character:04X} is not allowed",
            where=_position(text, len(before)),
        ) from error


def _malformed_yaml(error: "MarkedYAMLError", name: str) -> DocumentError:
    mark = error.problem_mark or error.context_mark
    if error.problem and "exceeded maximum nesting" in error.problem:
        return _too_deep(name, _at(mark) if mark else "")
    what = ": ".join(part for part in (error.context, error.problem) if part)
    return _refusal(name, f"malformed YAML: {what}", where=_at(mark) if mark else "")


def _at(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


class _Alias:
    """What an anchor names: the value, and how large it is with its aliases written out.

    While it is being read, ``size`` is None.
    """

    __slots__ = ("size", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.size: int | None = None


class _Open:
    """A collection that is being read; ``key`` is what the next value belongs to."""

    __slots__ = ("alias", "items", "key", "size_before")

    def __init__(self, items: Any, alias: _Alias | None, size: int) -> None:
        self.items = items
        self.alias = alias
        self.key: str | None = None
        self.size_before = size


class _YamlBuilder:
    """Builds data straight from libyaml's events.

    PyYAML's own loaders compose in C by recursion, which deep nesting turns into the end
    of the process, and keep the last of repeated keys. This is also twice as fast.
    """

    def __init__(self, text: str, name: str) -> None:
        from yaml import _yaml

        self.name = name
        self.parser: Any = _yaml.CParser(text)
        self.anchors: dict[str, _Alias] = {}
        # What the document amounts to with every alias written out: its characters, and
        # some for each value, which is what reading it costs.
        self.size = 0
        self.stack: list[_Open] = []

    def build(self) -> Any:
        from yaml import events as e

        next_event = self.parser.get_event
        result: Any = None
        documents = 0
        while True:
            event = next_event()
            kind = type(event)
            if kind is e.ScalarEvent:
                if self._takes_key():
                    self._key(event)
                    continue
                self.size += len(event.value) + _VALUE_SIZE
                value = self._scalar(event)
                if event.anchor is not None:
                    alias = self._anchor(event)
                    alias.value, alias.size = value, len(event.value) + _VALUE_SIZE
            elif kind is e.MappingStartEvent or kind is e.SequenceStartEvent:
                self._open(event, {} if kind is e.MappingStartEvent else [])
                continue
            elif kind is e.MappingEndEvent or kind is e.SequenceEndEvent:
                closed = self.stack.pop()
                value = closed.items
                if closed.alias is not None:
                    closed.alias.size = self.size - closed.size_before
            elif kind is e.AliasEvent:
                value = self._expand(event)
            elif kind is e.StreamEndEvent:
                return result
            elif kind is e.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise self._refusal(
                        event,
                        "a second YAML document begins",
                        fix="Keep one document to a file.",
                    )
                continue
            else:
                continue
            if not self.stack:
                result = value
                continue
            parent = self.stack[-1]
            if parent.key is None:
                parent.items.append(value)
            else:
                parent.items[parent.key] = value
                parent.key = None

    def _refusal(self, event: Any, what: str, *, fix: str = "") -> DocumentError:
        mark = event.start_mark
        return _refusal(self.name, what, where=_at(mark) if mark else "", fix=fix)

    def _takes_key(self) -> bool:
        if not self.stack:
            return False
        parent = self.stack[-1]
        return parent.key is None and type(parent.items) is dict

    def _key(self, event: Any) -> None:
        key = event.value
        items = self.stack[-1].items
        if key in items:
            raise self._refusal(
                event,
                f"the key {shown(key)} is written twice in one object",
                fix="Keep one of them.",
            )
        if key == "<<" and event.implicit[0]:
            raise self._refusal(
                event, "merge keys are not part of YAML 1.2", fix="Write the fields out."
            )
        self._check_scalar_tag(event)
        if event.anchor is not None:
            alias = self._anchor(event)
            alias.value, alias.size = key, len(key) + _VALUE_SIZE
        self.size += len(key) + _VALUE_SIZE
        self.stack[-1].key = key

    def _anchor(self, event: Any) -> _Alias:
        alias = self.anchors[event.anchor] = _Alias()
        return alias

    def _open(self, event: Any, items: dict[str, Any] | list[Any]) -> None:
        if self._takes_key():
            raise self._refusal(event, "a key is a collection", fix="Use text as the key.")
        if event.tag not in _COLLECTION_TAGS:
            raise self._unknown_tag(event)
        if len(self.stack) >= MAX_NESTING:
            mark = event.start_mark
            raise _too_deep(self.name, _at(mark) if mark else "")
        alias = None
        if event.anchor is not None:
            alias = self._anchor(event)
            alias.value = items
        self.stack.append(_Open(items, alias, self.size))
        self.size += _VALUE_SIZE

    def _expand(self, event: Any) -> Any:
        if self._takes_key():
            raise self._refusal(event, "a key is an alias", fix="Write the key out.")
        alias = self.anchors.get(event.anchor)
        if alias is None:
            raise self._refusal(
                event, f"the alias {shown('*' + event.anchor)} has no anchor"
            )
        if alias.size is None:
            raise self._refusal(event, f"{shown('*' + event.anchor)} contains itself")
        self.size += alias.size
        if self.size > MAX_DOCUMENT:
            raise self._refusal(
                event,
                f"the aliases expand to more than {MAX_DOCUMENT // 2**20} MiB",
                fix="Use fewer aliases.",
            )
        return alias.value

    def _unknown_tag(self, event: Any) -> DocumentError:
        tag = event.tag.replace(_TAG, "!!")
        return self._refusal(
            event, f"the tag {shown(tag)} is not known here", fix="Remove it."
        )

    def _check_scalar_tag(self, event: Any) -> None:
        tag = event.tag
        if tag is not None and tag not in _TAGS and tag not in ("!", f"{_TAG}str"):
            raise self._unknown_tag(event)

    def _scalar(self, event: Any) -> Any:
        tag = event.tag
        text: str = event.value
        if tag is None:
            # A quoted or block scalar is text; only a plain one is looked at.
            return self._plain(event, text) if event.implicit[0] else text
        self._check_scalar_tag(event)
        if tag in ("!", f"{_TAG}str"):
            return text
        value = self._plain(event, text)
        if type(value) not in _TAGS[tag]:
            raise self._refusal(
                event, f"{shown(text)} is not what {tag.replace(_TAG, '!!')} says"
            )
        return float(value) if tag == f"{_TAG}float" else value

    def _plain(self, event: Any, text: str) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if text[0] not in "+-.0123456789":
            return text
        if _INTEGER.fullmatch(text):
            return self._integer(event, text, 10)
        if _OCTAL.fullmatch(text):
            return self._integer(event, text[2:], 8)
        if _HEXADECIMAL.fullmatch(text):
            return self._integer(event, text[2:], 16)
        if _FLOAT.fullmatch(text):
            value = float(text)
            if value not in (float("inf"), float("-inf")):
                return value
            raise self._refusal(event, f"the number {shown(text)} is out of range")
        if _NOT_FINITE.fullmatch(text):
            raise self._refusal(event, f"{text} is not a number in JSON")
        return text

    def _integer(self, event: Any, digits: str, base: int) -> int:
        if len(digits) > _MAX_DIGITS:
            raise self._refusal(
                event, f"an integer of {len(digits)} digits is out of range"
            )
        return int(digits, base)
