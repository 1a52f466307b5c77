"""Bytes of an Agent Spec document in, a typed and linked component out.

References are followed while reading: components are converted from the inside out,
each exactly once, so that one that is referred to twice is one object. A component that
has problems is looked at field by field, and stands in its container's way no further
than that: one reading finds everything that is wrong.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import Struct

from heddle.spec.catalogue import (
    COMMON_KEYS,
    COMPONENTS,
    NEWEST_VERSION,
    VERSIONS,
    Content,
    Field,
    Plan,
    Version,
    parse_version,
    plan_of,
)
from heddle.spec.checks import check_flow
from heddle.spec.component import Component, PluginComponent, Property, ProvidedType
from heddle.spec.flows import Flow
from heddle.spec.formats import FORMATS, Formats
from heddle.spec.llms import LlmGenerationConfig
from heddle.spec.problems import (
    MAX_PROBLEMS,
    SHOWN_PROBLEMS,
    Broken,
    DocumentError,
    Path,
    Problem,
    Problems,
    TooManyProblems,
    shown,
    write_path,
)
from heddle.spec.properties import read_property
from heddle.spec.source import MAX_NESTING, too_deep
from heddle.spec.supplied import NOTHING_SUPPLIED, Supplied
from heddle.spec.syntax import parse
from heddle.spec.validation import check, is_plain
from heddle.spec.written import MAX_VALUES, TooLarge, WrittenOut
from plugins_host import nearest, one_of

_REF: Final = "$component_ref"
_DEFINITIONS: Final = "$referenced_components"
_TYPE: Final = "component_type"
_VERSION: Final = "agentspec_version"

# More ids than this say nothing to who looks for the right one.
_LISTED_DEFINITIONS: Final = 30

# A guess among these takes some ten milliseconds.
_COMPARED_DEFINITIONS: Final = 2000

_CIRCLE_SHOWN: Final = 8

# A step of a path as `check` writes it.
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")

# Fields of a `PluginComponent` that no document writes: a key of the name is the plugin's.
_NOT_WRITTEN: Final = frozenset(("type_name", "provided", "fields", "written"))

_REFERENCE_KEYS: Final = frozenset((_REF, _DEFINITIONS))


class Document(Struct, frozen=True):
    """A document that was read: its outermost component, and where everything stood.

    ``version`` is the one that the document declares, or the newest. ``paths`` is for
    `path_of`.
    """

    root: Component
    version: str
    warnings: tuple[Problem, ...]
    paths: dict[Component, Path]

    def path_of(self, component: Component) -> str:
        """The JSON path of a component of this document, where it was written."""
        return write_path(self.paths[component])

    def components(self) -> Iterator[Component]:
        """All components, each before the ones that contain it."""
        return iter(self.paths)


def read_document(
    data: bytes,
    *,
    name: str = "document",
    format: str | None = None,  # noqa: A002  the word users know
    formats: Formats = FORMATS,
    component_types: Mapping[str, ProvidedType] | None = None,
    refused: Mapping[str, str] | None = None,
    supplied: Supplied = NOTHING_SUPPLIED,
) -> Document:
    """Read a document.

    Args:
        data: The bytes, JSON or YAML or what else there is a format for.
        name: What errors call the document; its extension tells the format.
        format: The format, whatever the name says.
        formats: The formats there are.
        component_types: Types that plugins provide, beside Agent Spec's own. A component
            of one is checked by its schema and read into a `PluginComponent`.
        refused: Types that exist and that no document may name, with the reason.
        supplied: What references may stand for that the document itself doesn't define.

    Raises:
        DocumentError: It can't be used; ``problems`` holds everything that is wrong.
        FormatRefused: There is no such format.
    """
    raw = parse(data, name=name, format=format, formats=formats)
    reader = _Reader(component_types or {}, refused or {}, supplied)
    try:
        document = reader.document(raw)
    except TooManyProblems:
        document = None
    except RecursionError:
        raise too_deep(name, "") from None
    if document is None:
        found = reader.problems.found
        error = DocumentError(found, name=name, warnings=reader.warnings)
        raise supplied.relocate(error)
    return document


class _Definition:
    """An entry of ``$referenced_components``: read when first referred to."""

    __slots__ = ("open", "path", "raw", "read", "value")

    def __init__(self, raw: Any, path: Path) -> None:
        self.raw = raw
        self.path = path
        self.open = False
        self.read = False
        self.value: Any = None


class _Reader:
    """Reads one document. What has problems is replaced by a `Broken`."""

    def __init__(
        self,
        component_types: Mapping[str, ProvidedType],
        refused: Mapping[str, str],
        supplied: Supplied,
    ) -> None:
        self.plugin_types = component_types
        self.refused = refused
        self.supplied = supplied
        self.problems = Problems()
        self.warnings: list[Problem] = []
        self.definitions: dict[str, _Definition] = {}
        self.read: dict[str, Component] = {}
        self.written_out = WrittenOut(lambda identity: self.definitions[identity].raw)
        self.following: list[str] = []
        self.dangling: list[tuple[str, Path]] = []
        self.scanned = False
        self.listed = False
        self.ids: dict[str, Path] = {}
        self.paths: dict[Component, Path] = {}
        self.flows: list[tuple[Flow | Broken, Path]] = []
        # How many values were given up; whoever contains one can't be converted.
        self.broken = 0
        # The version that the document declares, when features may be too new for it.
        self.declared: tuple[str, Version] | None = None
        self.raw: dict[str, Any] = {}
        # The list that a path was last written for, and how it was written.
        self.container: Path = None
        self.container_path = ""

    # --- the document ---------------------------------------------------------------

    def document(self, raw: dict[str, Any]) -> Document | None:
        """Read all of it; None when there are problems."""
        version = self._version(raw.get(_VERSION))
        self.raw = raw = {key: value for key, value in raw.items() if key != _VERSION}
        root = self._root(raw)
        while unread := [key for key, one in self.definitions.items() if not one.read]:
            # Reading one may bring up others that it contains.
            for identity in unread:
                if not self.definitions[identity].read:
                    self._follow(self.definitions[identity], identity, None, 0)
        self._report_dangling()
        for flow, path in self.flows:
            check_flow(flow, path, self.paths, self.problems)
        if self.problems or not isinstance(root, Component):
            return None
        warnings = tuple(map(self.supplied.locate, self.warnings))
        return Document(root, version, warnings, self.paths)

    def _root(self, raw: dict[str, Any]) -> Any:
        if _TYPE in raw or _REF in raw:
            root = self._read(raw, None, 0)
            if not isinstance(root, Component | Broken):
                what = f"{shown(raw[_REF])} is a plain value, and a document is a component"
                self.problems.add((None, _REF), what, "Refer to the component to run.")
            return root
        if _DEFINITIONS in raw:
            self._define(raw[_DEFINITIONS], (None, _DEFINITIONS))
            what = "this defines components and doesn't say which of them it is"
            fix = f"Add '{_REF}' with the id of the component to run."
        else:
            what = f"'{_TYPE}' is missing"
            fix = f"Add '{_TYPE}': 'Flow', or the type that this is."
        self.problems.add(None, what, fix)
        return None

    def _version(self, declared: Any) -> str:
        if declared is None:
            return NEWEST_VERSION
        path = (None, _VERSION)
        version = parse_version(declared) if type(declared) is str else None
        if version is None:
            self.problems.add(
                path,
                f"{shown(declared)} is not a version",
                f"Write it as text YY.Q.PATCH, such as '{NEWEST_VERSION}'.",
            )
            return NEWEST_VERSION
        oldest, newest = parse_version(VERSIONS[0]), parse_version(NEWEST_VERSION)
        assert oldest is not None
        assert newest is not None
        if version < oldest:
            self.problems.add(
                path,
                f"version {declared} is older than Agent Spec itself",
                f"Declare a version from {VERSIONS[0]} to {NEWEST_VERSION}.",
            )
        elif version > newest:
            self._warn(
                path,
                f"version {declared} is newer than {NEWEST_VERSION}, the newest known: "
                "what it added is not understood",
            )
        elif version < newest:
            self.declared = (declared, version)
            if declared not in VERSIONS:
                self._warn(
                    path,
                    f"there is no version {declared} of Agent Spec",
                    f"Declare one of: {', '.join(VERSIONS)}.",
                )
        return str(declared)

    # --- values ---------------------------------------------------------------------

    def _read(self, value: Any, path: Path, depth: int) -> Any:
        """A value where components may stand."""
        kind = type(value)
        if kind is dict:
            if _REF in value:
                return self._reference(value, path, depth)
            if _TYPE in value:
                return self._component(value, path, depth)
            return {
                key: self._read(inner, (path, key), depth + 1)
                if type(inner) is dict or type(inner) is list
                else inner
                for key, inner in value.items()
            }
        if kind is list:
            return [
                self._read(inner, (path, index), depth + 1)
                if type(inner) is dict or type(inner) is list
                else inner
                for index, inner in enumerate(value)
            ]
        return value

    def _read_free(self, value: Any, path: Path, depth: int) -> Any:
        """A value of any shape, in which only references mean something."""
        if type(value) is dict:
            if _REF in value:
                return self._reference(value, path, depth)
            return {
                key: self._read_free(inner, (path, key), depth + 1)
                for key, inner in value.items()
            }
        if type(value) is list:
            return [
                self._read_free(inner, (path, index), depth + 1)
                for index, inner in enumerate(value)
            ]
        return value

    def _field(self, field: Field, value: Any, path: Path, depth: int) -> Any:
        """The value of a field, which is an object or a list."""
        content = field.content
        if content is Content.OPAQUE:
            return value
        if type(value) is dict and _REF in value:
            value = self._reference(value, path, depth)
            if type(value) is not dict and type(value) is not list:
                return value
        if content is Content.COMPONENTS:
            return self._read(value, path, depth)
        if content is Content.PROPERTIES:
            return self._properties(value, path)
        if content is Content.PARAMETERS:
            return self._parameters(value, path, depth)
        value = self._read_free(value, path, depth)
        if content is Content.RECORD and type(value) is dict:
            assert field.record is not None
            self._warn_unknown(value, field.record.__struct_fields__, path)
        return value

    def _properties(self, value: Any, path: Path) -> Any:
        if type(value) is not list:
            return value
        before = len(self.problems)
        read: dict[str, Property] = {}
        for index, raw in enumerate(value):
            one = read_property(raw, (path, index), self.problems)
            if one is None:
                continue
            if one.title in read:
                self.problems.add(
                    (path, index),
                    f"the title {shown(one.title)} is used twice",
                    "Rename one.",
                )
            read[one.title] = one
            if one.has_default and is_plain(raw):
                for _, mistake in check(one.default, raw):
                    self._warn(((path, index), "default"), mistake)
        if len(self.problems) != before:
            return self._give_up()
        return list(read.values())

    def _parameters(self, value: Any, path: Path, depth: int) -> Any:
        if type(value) is not dict:
            return value
        value = self._read_free(value, path, depth)
        named = {
            key: value[key]
            for key in ("max_tokens", "temperature", "top_p")
            if key in value
        }
        extras = {key: inner for key, inner in value.items() if key not in named}
        try:
            return msgspec.convert({**named, "extras": extras}, LlmGenerationConfig)
        except msgspec.ValidationError:
            from heddle.spec.mismatches import explain_fields

            explain_fields(LlmGenerationConfig, named, path, self.problems)
            return self._give_up()

    # --- components -----------------------------------------------------------------

    def _component(self, raw: dict[str, Any], path: Path, depth: int) -> Any:
        if depth > MAX_NESTING:
            self._refuse_depth(path)
            return self._give_up(raw)
        if _DEFINITIONS in raw:
            self._define(raw[_DEFINITIONS], (path, _DEFINITIONS))
        name = raw[_TYPE]
        struct = COMPONENTS.get(name) if type(name) is str else None
        if struct is None:
            return self._foreign(raw, name, path, depth)
        plan = plan_of(struct)
        before = self.broken
        fields = plan.fields
        values = raw.copy()
        for key, value in raw.items():
            if type(value) is dict or type(value) is list:
                field = fields.get(key)
                if field is None:
                    continue
                if type(value) is dict and field.content is Content.COMPONENTS:
                    # Most of what edges hold: a reference to what was read before.
                    identity = value.get(_REF)
                    if type(identity) is str and len(value) == 1 and identity in self.read:
                        values[key] = self.read[identity]
                        continue
                values[key] = self._field(field, value, (path, key), depth + 1)
        if not raw.keys() <= plan.known:
            self._unknown_keys(raw, plan, path)
        if self.declared is not None:
            self._check_age(plan, raw, path)
        self._identify(raw, values, path)
        if self.broken == before:
            try:
                component = msgspec.convert(values, struct)
            except msgspec.ValidationError as error:
                self._explain(plan, values, path, str(error))
            else:
                self.paths[component] = path
                if struct is Flow:
                    self.flows.append((component, path))  # type: ignore[arg-type]
                return component
        else:
            self._explain(plan, values, path, "")
        broken = self._give_up(values)
        if struct is Flow:
            self.flows.append((broken, path))
        return broken

    def _explain(self, plan: Plan, values: dict[str, Any], path: Path, words: str) -> None:
        from heddle.spec.mismatches import explain_fields

        found = explain_fields(plan.struct, values, path, self.problems)
        if not found and words:  # pragma: no cover  the two read the same annotations
            self.problems.add(path, words)

    def _identify(self, raw: dict[str, Any], values: dict[str, Any], path: Path) -> None:
        """See to it that the component has an id, and that no other has the same."""
        identity = raw.get("id")
        if identity is None:
            if "id" not in raw:
                values["id"] = self._written(path)
            return
        if type(identity) is not str:
            return
        first = self.ids.setdefault(identity, path)
        if first is not path:
            self.problems.add(
                path,
                f"the id {shown(identity)} is taken: it is also at {write_path(first)}",
                f"Define the component once in '{_DEFINITIONS}' and refer to it, or give "
                "one of the two another id.",
            )

    def _foreign(self, raw: dict[str, Any], name: Any, path: Path, depth: int) -> Any:
        """A component of a type that isn't Agent Spec's own."""
        if type(name) is not str:
            self.problems.add((path, _TYPE), f"a component type is text, not {shown(name)}")
            return self._give_up(raw)
        if name in self.plugin_types:
            return self._plugin_component(raw, name, path, depth)
        place = (path, _TYPE)
        if name in self.refused:
            self.problems.add(
                place, f"{shown(name)} can't be used in a document", self.refused[name]
            )
        else:
            self.problems.add(
                place, f"{shown(name)} is not a component type", self._known(name)
            )
        # What is inside is looked at all the same: its problems count too.
        return self._give_up(
            {
                key: self._read(value, (path, key), depth + 1)
                for key, value in raw.items()
                if key not in COMMON_KEYS
            }
        )

    def _known(self, name: str) -> str:
        """What to write instead of an unknown type; all there are is said once only."""
        known = [*self.plugin_types, *sorted(COMPONENTS)]
        guess = nearest(name, known)
        if guess is not None:
            return one_of(name, known)
        if self.listed:
            return "Load the plugin that provides it, with --plugin."
        self.listed = True
        return f"{one_of(name, known)} Or load the plugin that provides it, with --plugin."

    def _plugin_component(
        self, raw: dict[str, Any], name: str, path: Path, depth: int
    ) -> Any:
        plan = plan_of(PluginComponent)
        provided = self.plugin_types[name]
        before = self.broken
        values: dict[str, Any] = {"type_name": name, "provided": provided}
        free: dict[str, Any] = {}
        for key, value in raw.items():
            field = plan.fields.get(key)
            if key in COMMON_KEYS:
                continue
            if field is None or key in _NOT_WRITTEN:
                free[key] = self._read(value, (path, key), depth + 1)
            elif type(value) is dict or type(value) is list:
                values[key] = self._field(field, value, (path, key), depth + 1)
            else:
                values[key] = value
        values["fields"] = free
        self._identify(raw, values, path)
        if self.broken == before:
            written = self._written_out(raw, path)
            if written is None:
                return self._give_up(values)
            values["written"] = written
            before_schema = len(self.problems)
            self._check_provided(provided, written, plan, path)
            if len(self.problems) != before_schema:
                return self._give_up(values)
            for key in ("inputs", "outputs", "branches"):
                # An empty list declares nothing, as everywhere.
                if not values.get(key):
                    values[key] = getattr(provided, key)
            try:
                component = msgspec.convert(values, plan.struct)
            except msgspec.ValidationError as error:
                self._explain(plan, values, path, str(error))
            else:
                self.paths[component] = path
                return component
        else:
            self._explain(plan, values, path, "")
        return self._give_up(values)

    def _written_out(self, raw: dict[str, Any], path: Path) -> dict[str, Any] | None:
        """The component as JSON, with what references stand for in their place."""
        try:
            return self.written_out.of(raw)
        except TooLarge:
            self.problems.add(
                path,
                f"the component has more than {MAX_VALUES} values once references are "
                "replaced by what they stand for",
                "Refer to less in it: a plugin is sent all of it.",
            )
            return None

    def _check_provided(
        self,
        provided: ProvidedType,
        written: Mapping[str, Any],
        plan: Plan,
        path: Path,
    ) -> None:
        """Check what the plugin reads by what its manifest declares."""
        for index, branch in enumerate(written.get("branches") or ()):
            if provided.branches and branch not in provided.branches:
                self.problems.add(
                    ((path, "branches"), index),
                    f"plugin {provided.plugin!r} declares no branch {shown(branch)}",
                    one_of(str(branch), provided.branches),
                )
        if provided.schema is None:
            return
        own = {
            key: value
            for key, value in written.items()
            if key not in COMMON_KEYS and (key not in plan.fields or key in _NOT_WRITTEN)
        }
        for place, mistake in check(own, provided.schema):
            self.problems.add(
                _inside(path, place),
                mistake,
                f"Write it as plugin {provided.plugin!r} declares.",
            )

    def _check_age(self, plan: Plan, raw: dict[str, Any], path: Path) -> None:
        """Refuse what came later than the version that the document declares."""
        assert self.declared is not None
        text, version = self.declared
        if plan.since[1] > version:
            self.problems.add(
                path,
                f"{plan.struct.__name__} came with version {plan.since[0]}, and the "
                f"document declares {text}",
                f"Declare '{_VERSION}' '{plan.since[0]}' or newer.",
            )
            return
        for field in plan.newer:
            assert field.newer is not None
            since, needed = field.newer
            if (
                needed > version
                and field.name in raw
                and not _is_default(raw[field.name], field.default)
            ):
                self.problems.add(
                    (path, field.name),
                    f"'{field.name}' came with version {since}, and the document declares "
                    f"{text}",
                    f"Declare '{_VERSION}' '{since}' or newer.",
                )

    def _unknown_keys(self, raw: dict[str, Any], plan: Plan, path: Path) -> None:
        if _VERSION in raw:
            self._warn(
                (path, _VERSION),
                "a document declares its version on its outermost object, and this one is "
                "ignored",
            )
        self._warn_unknown([key for key in raw if key != _VERSION], plan.known, path)

    def _warn_unknown(
        self, keys: Collection[str], known: Collection[str], path: Path
    ) -> None:
        for key in keys:
            if key not in known and len(self.warnings) < MAX_PROBLEMS:
                guess = nearest(key, known)
                self._warn(
                    (path, key),
                    "this is not a field that is known here, and is ignored",
                    f"Did you mean {guess!r}?" if guess else "",
                )

    # --- references -----------------------------------------------------------------

    def _define(self, definitions: Any, path: Path) -> None:
        """Note the entries of a ``$referenced_components``."""
        if type(definitions) is not dict:
            self.problems.add(
                path,
                f"this maps ids to components, not {shown(definitions)}",
                "Write an object.",
            )
            return
        for identity, raw in definitions.items():
            there = (path, identity)
            known = self.definitions.get(identity)
            if known is not None and known.raw is raw and known.path == there:
                # An earlier look for nested definitions came by here.
                continue
            if known is not None:
                self.problems.add(
                    there,
                    f"the id {shown(identity)} is defined twice: it is also at "
                    f"{write_path(known.path)}",
                    "Keep one definition.",
                )
                continue
            self.definitions[identity] = _Definition(raw, there)

    def _reference(self, value: dict[str, Any], path: Path, depth: int) -> Any:
        identity = value[_REF]
        if len(value) > 1:
            if _DEFINITIONS in value:
                self._define(value[_DEFINITIONS], (path, _DEFINITIONS))
            self._warn_unknown(value, _REFERENCE_KEYS, path)
        if type(identity) is not str:
            self.problems.add(
                (path, _REF), f"a reference is the text of an id, not {shown(identity)}"
            )
            return self._give_up()
        definition = self.definitions.get(identity) or self._look_for(identity)
        if definition is None:
            self.dangling.append((identity, (path, _REF)))
            return self._give_up()
        if definition.read:
            if type(definition.value) is Broken:
                self.broken += 1
            return definition.value
        return self._follow(definition, identity, (path, _REF), depth)

    def _refuse_depth(self, path: Path) -> None:
        self.problems.add(
            path,
            f"components are nested more than {MAX_NESTING} levels deep",
            "Let fewer flows contain one another.",
        )

    def _look_for(self, identity: str) -> _Definition | None:
        """A definition that no container of the reference holds."""
        if not self.scanned:
            self._find_nested_definitions()
        if identity not in self.definitions and identity in self.supplied.values:
            raw = self.supplied.values[identity]
            path = self.supplied.path_of(identity)
            self.definitions[identity] = _Definition(raw, path)
        return self.definitions.get(identity)

    def _follow(
        self, definition: _Definition, identity: str, path: Path, depth: int
    ) -> Any:
        """The value of a definition, read now if it wasn't yet."""
        if definition.open:
            circle = [*self.following[self.following.index(identity) :], identity]
            if len(circle) > _CIRCLE_SHOWN:
                circle[_CIRCLE_SHOWN // 2 : -_CIRCLE_SHOWN // 2] = ["…"]
            self.problems.add(
                path,
                "references lead in a circle: " + " → ".join(key[:40] for key in circle),
                "A component can't contain itself.",
            )
            return self._give_up()
        if depth > MAX_NESTING:
            self._refuse_depth(path)
            return self._give_up()
        definition.open = True
        self.following.append(identity)
        definition.value = self._read_definition(definition, depth)
        self.following.pop()
        definition.open = False
        definition.read = True
        if isinstance(definition.value, Component):
            self.read[identity] = definition.value
        return definition.value

    def _read_definition(self, definition: _Definition, depth: int) -> Any:
        raw = definition.raw
        assert definition.path is not None
        if type(raw) is dict and _TYPE in raw and "id" not in raw:
            raw = {**raw, "id": definition.path[1]}
        return self._read(raw, definition.path, depth + 1)

    def _find_nested_definitions(self) -> None:
        """Note definitions deeper in the document, which a reference may come before."""
        self.scanned = True
        waiting: list[tuple[Any, Path]] = [(self.raw, None)]
        while waiting:
            value, path = waiting.pop()
            if type(value) is dict:
                if _DEFINITIONS in value and type(value[_DEFINITIONS]) is dict:
                    for identity, raw in value[_DEFINITIONS].items():
                        self.definitions.setdefault(
                            identity, _Definition(raw, ((path, _DEFINITIONS), identity))
                        )
                waiting += [
                    (inner, (path, key))
                    for key, inner in value.items()
                    if key != "metadata" and (type(inner) is dict or type(inner) is list)
                ]
            else:
                waiting += [
                    (inner, (path, index))
                    for index, inner in enumerate(value)
                    if type(inner) is dict or type(inner) is list
                ]

    def _report_dangling(self) -> None:
        for identity, path in self.dangling:
            owner, _, field = identity.rpartition(".")
            what = f"{shown(identity)} is not defined in this document"
            place = self.ids.get(identity)
            if place is not None and place[0] is not None and place[0][1] == _DEFINITIONS:
                fix = f"It is defined under another name: refer to {shown(place[1])}."
            elif place is not None:
                what = (
                    f"{shown(identity)} can't be referred to: it is written in place at "
                    f"{write_path(place)}"
                )
                fix = f"Move it to '{_DEFINITIONS}' and refer to it in both places."
            elif owner in self.ids or owner in self.definitions:
                what = f"{shown(identity)} is to be supplied from outside, and isn't"
                fix = f"Write the value of '{field}' in its place."
            elif self.definitions:
                fix = self._guess(identity)
            else:
                fix = f"Define it in '{_DEFINITIONS}'."
            self.problems.add(path, what, fix)

    def _guess(self, identity: str) -> str:
        """Which definition was meant: looking for it takes its time, among thousands."""
        if len(self.problems) >= SHOWN_PROBLEMS:
            return ""
        if len(self.definitions) <= _LISTED_DEFINITIONS:
            return one_of(identity, self.definitions)
        guess = nearest(identity, islice(self.definitions, _COMPARED_DEFINITIONS))
        return f"Did you mean {guess!r}?" if guess else ""

    def _written(self, path: Path) -> str:
        """`write_path`, which is asked for many items of one list in a row."""
        if path is None or type(path[1]) is str:
            return write_path(path)
        container, index = path
        if self.container is not container:
            self.container, self.container_path = container, write_path(container)
        return f"{self.container_path}[{index}]"

    # --- notes ----------------------------------------------------------------------

    def _warn(self, path: Path, what: str, fix: str = "") -> None:
        if len(self.warnings) < MAX_PROBLEMS:
            self.warnings.append(Problem(write_path(path), what, fix))

    def _give_up(self, values: dict[str, Any] | None = None) -> Broken:
        self.broken += 1
        return Broken(values or {})


def _inside(path: Path, place: str) -> Path:
    """The path of a place like ``$.a[0]`` in what stands at ``path``."""
    for key, index in _STEP.findall(place):
        path = (path, int(index) if index else key)
    return path


def _is_default(value: Any, default: Any) -> bool:
    """Whether writing the value down says no more than leaving it out."""
    if value is None or value == default:
        return True
    return not value and not default and value is not False
