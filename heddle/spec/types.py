"""Types as JSON Schemas: what may flow where, and what becomes of it on the way.

Two questions, both pure:

    is_subtype(source, destination)   may this output be joined to that input?
    convert(value, destination)       what does the input receive?

Conversions are those of Agent Spec at a data edge, inside lists and objects too: anything
becomes text as compact JSON, integers and numbers become each other, booleans and numbers
become each other. A schema that says nothing about types accepts anything.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from heddle.spec.effort import effort, spending
from heddle.spec.problems import shown
from heddle.spec.templates import as_text
from heddle.spec.validation import Mistakes, Schema, check, is_plain
from plugins_host import Fault


class TypeConversionError(Fault):
    """A value can't become what its destination declares."""

    def __init__(self, value: Any, wanted: str, path: str) -> None:
        self.value = value
        self.wanted = wanted
        self.path = path
        super().__init__(f"{shown(value)} can't become {wanted}", where=path)


# --- what a schema says -------------------------------------------------------------

_ALTERNATIVES: Final = ("anyOf", "oneOf")
_CHOOSING: Final = frozenset((*_ALTERNATIVES, "$ref"))


def _resolve(schema: Schema, root: Schema) -> Schema:
    """Follow a ``$ref`` inside the same schema; one that leads nowhere says nothing."""
    seen = 0
    while isinstance(schema, Mapping) and "$ref" in schema:
        schema = _look_up(schema["$ref"], root)
        seen += 1
        if seen > _MAX_REFS:
            return True
    return schema


_MAX_REFS: Final = 32


def _look_up(pointer: Any, root: Schema) -> Schema:
    if not isinstance(pointer, str) or not pointer.startswith("#"):
        return True
    place: Any = root
    for step in pointer[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(place, Mapping) or key not in place:
            return True
        place = place[key]
    return place if isinstance(place, (Mapping, bool)) else True


def _alternatives(schema: Schema) -> list[Schema] | None:
    """The schemas of which one holds, or None when there is no choice."""
    if not isinstance(schema, Mapping):
        return None
    for keyword in _ALTERNATIVES:
        if isinstance(schema.get(keyword), list):
            return list(schema[keyword])
    names = schema.get("type")
    if isinstance(names, list):
        return [{**schema, "type": name} for name in names]
    return None


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Schema]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


# --- may it flow? -------------------------------------------------------------------

_NUMERIC: Final = frozenset(("integer", "number", "boolean"))


def is_subtype(source: Schema, destination: Schema) -> bool:
    """Whether an output of type ``source`` may be joined to an input ``destination``.

    A source that says nothing about its type may hold what fits, so it may be joined to
    anything: the value itself is looked at when it flows.
    """
    return _Comparison(source, destination).holds(source, destination)


class _Comparison:
    """One question, with the answers to the parts of it that were found so far."""

    def __init__(self, source: Schema, destination: Schema) -> None:
        self.spent = effort()
        self.source_root = source
        self.destination_root = destination
        # While a pair is being compared its answer is taken to be yes: a type that
        # contains itself is a subtype if nothing else in it says otherwise.
        self.answers: dict[tuple[int, int], bool] = {}
        # The pairs answered with yes, in the order of their answers.
        self.asked: list[tuple[int, int]] = []
        # Schemas made on the way, kept so that their identities stay their own.
        self.made: dict[int, tuple[Schema, list[Schema] | None]] = {}

    def holds(self, source: Schema, destination: Schema) -> bool:
        self.spent.spend()
        source = _resolve(source, self.source_root)
        destination = _resolve(destination, self.destination_root)
        if not isinstance(source, Mapping) or not isinstance(destination, Mapping):
            # True takes and may give anything, False takes and gives nothing.
            return destination is not False or source is False
        pair = (id(source), id(destination))
        answer = self.answers.get(pair)
        if answer is not None:
            return answer
        self.answers[pair] = True
        begun = len(self.asked)
        if self._holds(source, destination):
            self.asked.append(pair)
            return True
        # What was found meanwhile may rest on the assumption that turned out wrong.
        for other in self.asked[begun:]:
            del self.answers[other]
        del self.asked[begun:]
        self.answers[pair] = False
        return False

    def alternatives(self, schema: Schema) -> list[Schema] | None:
        if id(schema) not in self.made:
            self.made[id(schema)] = (schema, _alternatives(schema))
        return self.made[id(schema)][1]

    def _holds(self, source: Any, destination: Any) -> bool:
        choices = self.alternatives(destination)
        if choices is None and "type" not in destination:
            return True
        sources = self.alternatives(source)
        if sources is not None:
            return all(self.holds(one, destination) for one in sources)
        if choices is not None:
            return any(self.holds(source, one) for one in choices)
        have, want = source.get("type"), destination["type"]
        if have is None or want == "string" or (have in _NUMERIC and want in _NUMERIC):
            return True
        if have != want:
            return False
        if want == "array":
            return self.holds(source.get("items", True), destination.get("items", True))
        if want == "object":
            return self._objects(source, destination)
        return True

    def _objects(self, source: Any, destination: Any) -> bool:
        have, want = _properties(source), _properties(destination)
        for name, schema in want.items():
            if name not in have or not self.holds(have[name], schema):
                return False
        rest = destination.get("additionalProperties", True)
        extra = [schema for name, schema in have.items() if name not in want]
        extra += (
            [source["additionalProperties"]] if "additionalProperties" in source else []
        )
        return all(self.holds(schema, rest) for schema in extra)


# --- what arrives -------------------------------------------------------------------


def convert(value: Any, destination: Schema) -> Any:
    """A value as an input of type ``destination`` receives it.

    The value itself is left as it is; what needs no conversion is shared.

    Raises:
        TypeConversionError: There is no such conversion; ``path`` says where in the value.
        EffortExceeded: It takes too long.
    """
    if isinstance(destination, Mapping) and _CHOOSING.isdisjoint(destination):
        kind = destination.get("type")
        if kind is None:
            return value
        plain = _PLAIN_CONVERSIONS.get(kind) if type(kind) is str else None
        if plain is not None:
            return plain(value, "$")
    try:
        return _converted(value, destination, _Conversion(destination), "$")
    except RecursionError:
        raise TypeConversionError(value, "a type that contains itself", "$") from None


class _Conversion:
    """One conversion under way: the whole schema, and the choices being made in it."""

    __slots__ = ("choosing", "root", "spent")

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.spent = effort()
        # By schema and value: a choice that comes up inside itself never ends.
        self.choosing: set[tuple[int, int]] = set()


def _converted(value: Any, schema: Schema, within: _Conversion, path: str) -> Any:
    within.spent.spend()
    if not isinstance(schema, Mapping):
        return value
    kind = schema.get("type")
    if type(kind) is not str or not _CHOOSING.isdisjoint(schema):
        schema = _resolve(schema, within.root)
        choices = _alternatives(schema)
        if choices is not None:
            return _as_choice(value, schema, choices, within, path)
        if not isinstance(schema, Mapping) or type(schema.get("type")) is not str:
            return value
        kind = schema["type"]
    plain = _PLAIN_CONVERSIONS.get(kind)
    if plain is not None:
        return plain(value, path)
    if kind == "array":
        return _as_list(value, schema, within, path)
    if kind == "object":
        return _as_object(value, schema, within, path)
    return value


def _as_text(value: Any, _path: str) -> str:
    return as_text(value)


def _as_integer(value: Any, path: str) -> int:
    if type(value) is int:
        return value
    if isinstance(value, bool | int | float):
        try:
            return int(value)
        except (ValueError, OverflowError):
            pass
    raise TypeConversionError(value, "an integer", path)


def _as_number(value: Any, path: str) -> float:
    if type(value) is float:
        return value
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            pass
    raise TypeConversionError(value, "a number", path)


def _as_boolean(value: Any, path: str) -> bool:
    if isinstance(value, bool | int | float):
        return bool(value)
    raise TypeConversionError(value, "true or false", path)


def _as_null(value: Any, path: str) -> None:
    if value is not None:
        raise TypeConversionError(value, "null", path)


_PLAIN_CONVERSIONS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "string": _as_text,
    "integer": _as_integer,
    "number": _as_number,
    "boolean": _as_boolean,
    "null": _as_null,
}


def _as_list(value: Any, schema: Any, within: _Conversion, path: str) -> Any:
    if not isinstance(value, list | tuple):
        raise TypeConversionError(value, "a list", path)
    items = schema.get("items", True)
    if items is True:
        return value
    return [
        _converted(item, items, within, f"{path}[{index}]")
        for index, item in enumerate(value)
    ]


def _as_object(value: Any, schema: Any, within: _Conversion, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise TypeConversionError(value, "an object", path)
    known = _properties(schema)
    rest = schema.get("additionalProperties", True)
    if not known and rest is True:
        return value
    return {
        name: _converted(inner, known.get(name, rest), within, f"{path}.{name}")
        for name, inner in value.items()
    }


def _as_choice(
    value: Any, schema: Schema, choices: list[Schema], within: _Conversion, path: str
) -> Any:
    """The alternative that the value is of as it stands; else the first it can become."""
    choice = (id(schema), id(value))
    if choice not in within.choosing:
        within.choosing.add(choice)
        try:
            return _chosen(value, choices, within, path)
        finally:
            within.choosing.discard(choice)
    raise TypeConversionError(value, "any of the types allowed here", path)


def _chosen(value: Any, choices: list[Schema], within: _Conversion, path: str) -> Any:
    for schema in choices:
        resolved = _resolve(schema, within.root)
        if not _check_under(value, resolved, within):
            return _converted(value, resolved, within, path)
    for schema in choices:
        try:
            return _converted(value, schema, within, path)
        except TypeConversionError:
            continue
    raise TypeConversionError(value, "any of the types allowed here", path)


def _check_under(value: Any, schema: Schema, within: _Conversion) -> Mistakes:
    """Check against a part of a schema, whose references lead into the whole."""
    root = within.root
    if not is_plain(schema) and isinstance(schema, Mapping) and isinstance(root, Mapping):
        shared = {key: root[key] for key in ("$defs", "definitions") if key in root}
        schema = {**shared, **schema}
    with spending(within.spent):
        return check(value, schema)
