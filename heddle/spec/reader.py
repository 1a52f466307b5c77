"""Bytes of an Agent Spec document in, a typed and linked component out.

References are followed while reading: components are converted from the inside out,
each exactly once, so that one that is referred to twice is one object. A component that
has problems is looked at field by field, and stands in its container's way no further
than that: one reading finds everything that is wrong.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from heddle.spec.catalogue import (
    COMMON_KEYS,
    COMPONENTS,
    Content,
    Field,
    Plan,
    plan_of,
)
from heddle.spec.checks import check_flow
from heddle.spec.component import Component, PluginComponent, ProvidedType
from heddle.spec.flows import Flow
from heddle.spec.foreign import NOT_WRITTEN, ForeignTypes, check_provided
from heddle.spec.formats import FORMATS, Formats
from heddle.spec.identities import Identities
from heddle.spec.parameters import read_parameters
from heddle.spec.problems import (
    Broken,
    DocumentError,
    Path,
    Problem,
    Problems,
    TooManyProblems,
    is_supplied,
    misspelt,
    shown,
    write_path,
)
from heddle.spec.properties import declared_properties
from heddle.spec.references import DEFINITIONS, REF, TYPE, Definition, References
from heddle.spec.source import MAX_NESTING, too_deep
from heddle.spec.supplied import NOTHING_SUPPLIED, Supplied
from heddle.spec.syntax import parse
from heddle.spec.versions import VERSION, Declared, check_age, read_version
from heddle.spec.written import MAX_VALUES, TooLarge, WrittenOut

_REFERENCE_KEYS: Final = frozenset((REF, DEFINITIONS))


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
        error = DocumentError(found, name=name, warnings=reader.problems.warnings)
        raise supplied.relocate(error)
    return document


class _Reader:
    """Reads one document. What has problems is replaced by a `Broken`."""

    def __init__(
        self,
        component_types: Mapping[str, ProvidedType],
        refused: Mapping[str, str],
        supplied: Supplied,
    ) -> None:
        self.foreign = ForeignTypes(component_types, refused)
        self.supplied = supplied
        self.problems = Problems()
        self.references = References(supplied, self.problems)
        self.identities = Identities(self.problems)
        self.read: dict[str, Component] = {}
        self.written_out = WrittenOut(self.references.raw)
        self.paths: dict[Component, Path] = {}
        self.flows: list[tuple[Flow | Broken, Path]] = []
        # How many values were given up; whoever contains one can't be converted.
        self.broken = 0
        # The version that the document declares, when features may be too new for it.
        self.declared: Declared | None = None

    # --- the document ---------------------------------------------------------------

    def document(self, raw: dict[str, Any]) -> Document | None:
        """Read all of it; None when there are problems."""
        version = read_version(raw.get(VERSION), self.problems)
        if not version.has_everything:
            self.declared = version
        raw = {key: value for key, value in raw.items() if key != VERSION}
        self.references.look_in(raw)
        root = self._root(raw)
        definitions = self.references.definitions
        while unread := self.references.unread():
            # Reading one may bring up others that it contains.
            for identity in unread:
                if not definitions[identity].read:
                    self._follow(definitions[identity], identity, None, 0)
        self.references.report_dangling(self.identities.places)
        for flow, path in self.flows:
            check_flow(flow, path, self.paths, self.problems)
        if self.problems or not isinstance(root, Component):
            return None
        warnings = tuple(map(self.supplied.locate, self.problems.warnings))
        return Document(root, version.text, warnings, self.paths)

    def _root(self, raw: dict[str, Any]) -> Any:
        if TYPE in raw or REF in raw:
            root = self._read(raw, None, 0)
            if not isinstance(root, Component | Broken):
                what = f"{shown(raw[REF])} is a plain value, and a document is a component"
                self.problems.add((None, REF), what, "Refer to the component to run.")
            return root
        if DEFINITIONS in raw:
            self.references.define(raw[DEFINITIONS], (None, DEFINITIONS))
            what = "this defines components and doesn't say which of them it is"
            fix = misspelt(TYPE, raw) or f"Add '{REF}' with the id of the component to run."
        elif "components" in raw and "version" in raw:
            what = "this is the manifest of a plugin, and no document of Agent Spec"
            fix = "Give it with --plugin, and the document where the flow belongs."
        else:
            what = f"'{TYPE}' is missing"
            inside = next(
                (key for key, each in raw.items() if type(each) is dict and TYPE in each),
                None,
            )
            if inside is not None:
                fix = f"{shown(inside)} holds a component: give that as the document."
            else:
                fix = (
                    misspelt(TYPE, raw)
                    or f"Add '{TYPE}': 'Flow', or the type that this is."
                )
        self.problems.add(None, what, fix)
        return None

    # --- values ---------------------------------------------------------------------

    def _read(self, value: Any, path: Path, depth: int) -> Any:
        """A value where components may stand."""
        kind = type(value)
        if kind is dict:
            if REF in value:
                return self._reference(value, path, depth)
            if TYPE in value:
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
            if REF in value:
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
        if type(value) is dict and REF in value:
            value = self._reference(value, path, depth)
            if type(value) is not dict and type(value) is not list:
                return value
            if content is Content.COMPONENTS:
                return value  # read where it is defined
        if content is Content.COMPONENTS:
            return self._read(value, path, depth)
        if content is Content.PROPERTIES:
            if type(value) is not list:
                return value
            properties = declared_properties(value, path, self.problems)
            return self._give_up() if properties is None else properties
        if content is Content.PARAMETERS:
            if type(value) is not dict:
                return value
            value = self._read_free(value, path, depth)
            parameters = read_parameters(value, path, self.problems)
            return self._give_up() if parameters is None else parameters
        value = self._read_free(value, path, depth)
        if content is Content.RECORD and type(value) is dict:
            assert field.record is not None
            self.problems.warn_unknown(value, field.record.__struct_fields__, path)
        return value

    # --- components -----------------------------------------------------------------

    def _component(self, raw: dict[str, Any], path: Path, depth: int) -> Any:
        if depth > MAX_NESTING:
            self._refuse_depth(path)
            return self._give_up(raw)
        if DEFINITIONS in raw:
            self.references.define(raw[DEFINITIONS], (path, DEFINITIONS))
        name = raw[TYPE]
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
                    identity = value.get(REF)
                    if type(identity) is str and len(value) == 1 and identity in self.read:
                        values[key] = self.read[identity]
                        continue
                values[key] = self._field(field, value, (path, key), depth + 1)
        if not raw.keys() <= plan.known:
            self._unknown_keys(raw, plan, path)
        if self.declared is not None:
            check_age(self.declared, plan, raw, path, self.problems)
        self.identities.give(raw, values, path)
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

    def _foreign(self, raw: dict[str, Any], name: Any, path: Path, depth: int) -> Any:
        """A component of a type that isn't Agent Spec's own."""
        if type(name) is str and name in self.foreign.provided:
            return self._plugin_component(raw, name, path, depth)
        self.foreign.refuse(name, (path, TYPE), self.problems)
        if type(name) is not str:
            return self._give_up(raw)
        # What is inside is looked at all the same: its problems count too.
        return self._give_up(
            {
                key: self._read(value, (path, key), depth + 1)
                for key, value in raw.items()
                if key not in COMMON_KEYS
            }
        )

    def _plugin_component(
        self, raw: dict[str, Any], name: str, path: Path, depth: int
    ) -> Any:
        plan = plan_of(PluginComponent)
        provided = self.foreign.provided[name]
        before = self.broken
        values: dict[str, Any] = {"type_name": name, "provided": provided}
        free: dict[str, Any] = {}
        for key, value in raw.items():
            field = plan.fields.get(key)
            if key in COMMON_KEYS:
                continue
            if field is None or key in NOT_WRITTEN:
                free[key] = self._read(value, (path, key), depth + 1)
            elif type(value) is dict or type(value) is list:
                values[key] = self._field(field, value, (path, key), depth + 1)
            else:
                values[key] = value
        values["fields"] = free
        self.identities.give(raw, values, path)
        if self.broken == before:
            written = self._written_out(raw, path)
            if written is None:
                return self._give_up(values)
            values["written"] = written
            before_schema = len(self.problems)
            check_provided(provided, written, plan, path, self.problems)
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

    def _unknown_keys(self, raw: dict[str, Any], plan: Plan, path: Path) -> None:
        # In a file of components each is the outermost object: pyagentspec writes it there.
        if VERSION in raw and not is_supplied(path):
            self.problems.warn(
                (path, VERSION),
                "a document declares its version on its outermost object, and this one is "
                "ignored",
            )
        self.problems.warn_unknown([key for key in raw if key != VERSION], plan.known, path)

    # --- references -----------------------------------------------------------------

    def _reference(self, value: dict[str, Any], path: Path, depth: int) -> Any:
        identity = value[REF]
        if len(value) > 1:
            if DEFINITIONS in value:
                self.references.define(value[DEFINITIONS], (path, DEFINITIONS))
            self.problems.warn_unknown(value, _REFERENCE_KEYS, path)
        if type(identity) is not str:
            self.problems.add(
                (path, REF), f"a reference is the text of an id, not {shown(identity)}"
            )
            return self._give_up()
        definition = self.references.find(identity, (path, REF))
        if definition is None:
            return self._give_up()
        if definition.read:
            if type(definition.value) is Broken:
                self.broken += 1
            return definition.value
        return self._follow(definition, identity, (path, REF), depth)

    def _refuse_depth(self, path: Path) -> None:
        self.problems.add(
            path,
            f"components are nested more than {MAX_NESTING} levels deep",
            "Let fewer flows contain one another.",
        )

    def _follow(self, definition: Definition, identity: str, path: Path, depth: int) -> Any:
        """The value of a definition, read now if it wasn't yet."""
        if not self.references.enter(identity, path):
            return self._give_up()
        if depth > MAX_NESTING:
            self._refuse_depth(path)
            self.references.leave()
            return self._give_up()
        definition.value = self._read_definition(definition, depth)
        self.references.leave()
        definition.read = True
        if isinstance(definition.value, Component):
            self.read[identity] = definition.value
        elif type(definition.value) is dict:
            self.problems.defined[id(definition.value)] = definition.path
        return definition.value

    def _read_definition(self, definition: Definition, depth: int) -> Any:
        raw = definition.raw
        assert definition.path is not None
        if type(raw) is dict and TYPE in raw and "id" not in raw:
            raw = {**raw, "id": definition.path[1]}
        return self._read(raw, definition.path, depth + 1)

    # --- notes ----------------------------------------------------------------------

    def _give_up(self, values: dict[str, Any] | None = None) -> Broken:
        self.broken += 1
        return Broken(values or {})
