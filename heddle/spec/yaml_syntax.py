"""YAML in, plain data out, by the core schema of YAML 1.2.

``yes``, ``no``, ``on``, ``off`` and dates are text, ``0o17`` is octal and ``017`` isn't,
keys are always text. Anchors and aliases are followed, custom tags and merge keys refused.
"""

import re
from typing import Any, Final

from msgspec import Struct
from yaml import MarkedYAMLError, _yaml
from yaml import events as e
from yaml.reader import ReaderError

from heddle.spec.line_breaks import Unbroken, unbroken
from heddle.spec.problems import DocumentError, shown
from heddle.spec.source import (
    MAX_DIGITS,
    MAX_DOCUMENT,
    MAX_NESTING,
    position,
    refusal,
    text_of,
    too_deep,
)

# What one more value costs beside its characters, counted in characters: aliases that
# expand to very many very short values are a bomb as well.
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


def parse_yaml(data: bytes, name: str) -> Any:
    """Read YAML.

    Raises:
        DocumentError: It is malformed or says something that JSON can't.
    """
    given = unbroken(text_of(data, name))
    text = given.text
    try:
        return _YamlBuilder(given, name).build()
    except MarkedYAMLError as error:
        raise _malformed_yaml(error, name, text) from error
    except ReaderError as error:
        before = text.encode()[: error.position].decode(errors="ignore")
        raise refusal(
            name,
            f"malformed YAML: the character U+{error.character:04X} is not allowed",
            where=position(text, len(before)),
        ) from error


class _Flaw(Struct, frozen=True):
    """What to do about something that is no YAML. ``what`` says it in other words than the
    reader does; ``opening`` is whether what was begun is at fault, not where it broke."""

    fix: str
    what: str = ""
    opening: bool = False


_TABS: Final = _Flaw(
    "Indent with spaces: YAML takes no tabs there.",
    "a tab stands where a line is indented",
)
_FLAWS: Final[dict[str, _Flaw]] = {
    "while scanning a quoted scalar: found unexpected end of stream": _Flaw(
        "Close the quote that begins here.", opening=True
    ),
    "mapping values are not allowed": _Flaw(
        "Put a text that holds ': ' in quotes, or indent the line as those around it."
    ),
    "found a tab character": _TABS,
    "could not find expected ':'": _Flaw("Write it as 'name: value'.", opening=True),
    "block mapping: did not find expected key": _Flaw(
        "Indent the line as those before it; put a text with a quote in it in quotes of "
        "the other kind."
    ),
    "block sequence entries are not allowed": _Flaw("Begin the list on a line of its own."),
}
"""What people write that is no YAML, by what the reader says of it."""

_OPEN: Final = _Flaw("Close the bracket that begins here.", opening=True)
_NO_COMMA: Final = _Flaw("Put a comma before it, or close the bracket.")

_BEGINNINGS: Final[dict[str, _Flaw]] = {
    "\t": _TABS,
    **{
        each: _Flaw("Put the text in quotes.", f"a text cannot begin with {each!r}")
        for each in "@`%"
    },
}
"""The same for the characters that nothing begins with."""


def _malformed_yaml(error: MarkedYAMLError, name: str, text: str) -> DocumentError:
    mark = error.problem_mark or error.context_mark
    if error.problem and "exceeded maximum nesting" in error.problem:
        return too_deep(name, _at(mark) if mark else "")
    what = ": ".join(part for part in (error.context, error.problem) if part)
    flaw = _flaw(what, text, len(text) if mark is None else mark.index)
    if flaw is not None:
        what = flaw.what or what
        mark = (error.context_mark if flaw.opening else mark) or mark
    return refusal(
        name,
        f"malformed YAML: {what}",
        where=_at(mark) if mark else "",
        fix="" if flaw is None else flaw.fix,
    )


def _flaw(what: str, text: str, at: int) -> _Flaw | None:
    """What is wrong at an offset of a text; None where nobody knows more."""
    if "cannot start any token" in what:
        return _BEGINNINGS.get(text[at : at + 1])
    if "did not find expected ',' or" in what:
        return _NO_COMMA if text[at:].strip() else _OPEN
    return next((flaw for part, flaw in _FLAWS.items() if part in what), None)


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

    def __init__(self, given: Unbroken, name: str) -> None:
        self.name = name
        self.given = given
        self.parser: Any = _yaml.CParser(given.text)
        self.anchors: dict[str, _Alias] = {}
        # What the document amounts to with every alias written out: its characters, and
        # some for each value, which is what reading it costs.
        self.size = 0
        self.stack: list[_Open] = []

    def build(self) -> Any:
        next_event = self.parser.get_event
        if self.given.back:
            next_event = self._restored_event
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
                if not documents:
                    raise refusal(self.name, "this document is empty")
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

    def _restored_event(self) -> Any:
        """The next event, with the characters that the document has."""
        event = self.parser.get_event()
        if type(event) is e.ScalarEvent:
            event.value = self.given.restored(event.value)
        return event

    def _refusal(self, event: Any, what: str, *, fix: str = "") -> DocumentError:
        mark = event.start_mark
        return refusal(self.name, what, where=_at(mark) if mark else "", fix=fix)

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
                f"the key {shown(key)} is written twice in one object, first at "
                + self._first(event),
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

    def _first(self, again: Any) -> str:
        """Where a key stands that its object has ``again``. It is read once more up to
        there: marks of all keys would cost whoever has no mistake in a document."""
        parser: Any = _yaml.CParser(self.given.text)
        # What is open: the marks of an object's keys, or None for a list; and, of each,
        # whether a key comes next.
        keys: list[dict[str, Any] | None] = [None]
        is_key = [False]
        while True:
            event: Any = parser.get_event()
            kind = type(event)
            if kind is e.MappingEndEvent or kind is e.SequenceEndEvent:
                keys.pop()
                is_key.pop()
            elif issubclass(kind, e.NodeEvent):
                known = keys[-1]
                if known is not None and is_key[-1] and kind is e.ScalarEvent:
                    if event.start_mark.index == again.start_mark.index:
                        return _at(known[event.value])
                    known[event.value] = event.start_mark
                is_key[-1] = known is not None and not is_key[-1]
                if kind is not e.ScalarEvent and kind is not e.AliasEvent:
                    is_mapping = kind is e.MappingStartEvent
                    keys.append({} if is_mapping else None)
                    is_key.append(is_mapping)

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
            raise too_deep(self.name, _at(mark) if mark else "")
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
            what = f"{text} is not a number in JSON"
            raise self._refusal(event, what, fix="Write null, or a text in quotes.")
        return text

    def _integer(self, event: Any, digits: str, base: int) -> int:
        if len(digits.lstrip("+-")) > MAX_DIGITS:
            raise self._refusal(
                event, f"an integer of {len(digits)} digits is out of range"
            )
        return int(digits, base)
