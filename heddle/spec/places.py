"""Where in a document's text a JSON path leads, for whoever shows the line at fault.

Only asked for once something is wrong, so it reads the text again rather than having
every reader keep positions. A path that leads to nothing, for what is missing, leads to
the innermost thing there is on the way to it.
"""

import re
from ast import literal_eval
from collections.abc import Iterator
from json.decoder import JSONDecoder
from typing import Any, Final

from msgspec import Struct

from heddle.spec.line_breaks import unbroken

_STEP: Final = re.compile(
    r"\.([$\w-]+)|\[(\d+)\]|\[('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\]"
)
_POSITION: Final = re.compile(r"line (\d+), column (\d+)")
_WORD: Final = re.compile(r"[$\w-]+")
_BLANK: Final = re.compile(r"[ \t\r\n]*")


class Span(Struct, frozen=True):
    """A piece of the text: its first character and the one behind its last."""

    start: int
    end: int


class Places:
    """The text of one document, in "json" or "yaml"."""

    def __init__(self, text: str, format: str) -> None:  # noqa: A002  as elsewhere
        self.text = text
        self._format = format
        self._tree: Any = None

    def find(self, path: str, *, key: bool = False) -> Span | None:
        """The piece of the text that a path means.

        Of a key that is written more than once the last one is meant.

        Args:
            path: As `Problem` has it: ``$.nodes[2].name``, or ``line 3, column 7``.
            key: Whether the key at its end is looked for, whatever its value.

        Returns:
            The value where it is a scalar, else the key or the bracket that it begins
            with; None where the path says nothing about the text.
        """
        at = _POSITION.fullmatch(path)
        if at is not None:
            start = _offset(self.text, int(at[1]), int(at[2]))
            return word_at(self.text, start)
        if not path.startswith("$"):
            return None
        steps = list(_steps(path))
        try:
            if self._format == "json":
                return _in_json(self.text, steps, key=key)
            given = unbroken(self.text)
            self._tree = self._tree or _tree(given.text)
        except (ValueError, IndexError, RecursionError):  # it is no JSON to its end
            return None
        if self._tree is None:
            return None
        hidden = (given.hidden(each) if isinstance(each, str) else each for each in steps)
        return _in_yaml(self._tree, list(hidden), key=key)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Where the character at ``offset`` is, both counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def word_at(text: str, start: int) -> Span:
    """The bare word that begins at ``start``, or else the character there."""
    found = _WORD.match(text, start)
    return Span(start, start + 1 if found is None else found.end())


def _offset(text: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return start + column - 1


def _steps(path: str) -> Iterator[str | int]:
    """The steps of a path, up to one that was cut where it was written."""
    at = 1
    while (step := _STEP.match(path, at)) is not None:
        at = step.end()
        if step[1] is not None:
            yield step[1]
        elif step[2] is not None:
            yield int(step[2])
        else:
            yield literal_eval(step[3])


def _in_json(text: str, steps: list[str | int], *, key: bool) -> Span:
    at = _skip(text, 0)
    span = Span(at, at + 1)
    label: Span | None = None
    for step in steps:
        found = _step_into(text, at, step)
        if found is None:
            return span
        label, at = found
        span = _shown(text, label, at)
    return label if key and label is not None else span


def _step_into(text: str, at: int, step: str | int) -> tuple[Span | None, int] | None:
    """The key, where there is one, and the beginning of a member of what is at ``at``."""
    found: tuple[Span | None, int] | None = None
    bracket = "{" if isinstance(step, str) else "["
    if text[at] != bracket:
        return None
    at, number = _skip(text, at + 1), 0
    while text[at] not in "}]":
        label: Span | None = None
        name: str | int = number
        if bracket == "{":
            name, end = JSONDecoder().raw_decode(text, at)
            label = Span(at, end)
            at = _skip(text, _skip(text, end) + 1)
        if name == step:
            found = label, at
            if label is None:
                break
        at = _skip(text, JSONDecoder().raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
        number += 1
    return found


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None, "it matches nothing too"
    return found.end()


def _shown(text: str, label: Span | None, at: int) -> Span:
    if text[at] in "{[":
        return label or Span(at, at + 1)
    return Span(at, JSONDecoder().raw_decode(text, at)[1])


def _tree(text: str) -> Any:
    """Composed by libyaml; `heddle.spec.yaml_syntax` has bounded its depth before."""
    import yaml

    try:
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return None


def _in_yaml(node: Any, steps: list[str | int], *, key: bool) -> Span:
    span = Span(node.start_mark.index, node.start_mark.index + 1)
    for number, step in enumerate(steps, 1):
        found = _member(node, step)
        if found is None:
            return span
        label, node = found
        plain = node.id == "scalar" and not (key and number == len(steps))
        shown = node if plain or label is None else label
        start = shown.start_mark.index
        span = Span(start, shown.end_mark.index if shown.id == "scalar" else start + 1)
    return span


def _member(node: Any, step: str | int) -> tuple[Any, Any] | None:
    if isinstance(step, int):
        items = node.value if node.id == "sequence" else []
        return (None, items[step]) if step < len(items) else None
    if node.id != "mapping":
        return None
    return next((pair for pair in node.value if pair[0].value == step), None)
