"""Reading a manifest: JSON in, a `Manifest` out, or everything that is wrong with it.

Each field of the JSON is converted on its own by its type, so that everything that is wrong
is told at once. What a type cannot say (one seam table, unique names, files inside the
folder) is checked here by name. Starts nothing.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from plugins_host.faults import one_of
from plugins_host.json_faults import json_flaw
from plugins_host.json_schemas import schema_problem
from plugins_host.manifests.fields import (
    KIND_FIELDS,
    MANIFEST_FIELDS,
    FieldReading,
    known_fields,
    missing,
)
from plugins_host.manifests.manifest import (
    KINDS,
    Component,
    EncoderComponent,
    FileEntry,
    Kind,
    Manifest,
    ToolEntry,
    known_name,
)
from plugins_host.manifests.paths import ManifestPaths
from plugins_host.manifests.problems import ManifestError, ManifestProblem
from plugins_host.manifests.schemas import find_schema_problem
from plugins_host.manifests.words import kind_of, shown
from plugins_host.near_files import near_file
from plugins_host.seams import SEAMS, Half, Seam, SubscriptionError, read_subscription

# A manifest with hundreds of tools and their schemas fits; a wrong file named by mistake
# is not read whole.
MAX_MANIFEST: Final = 8 * 1024 * 1024

MAX_FILES: Final = 64

_TYPE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROTOCOL_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")


def read_manifest(path: Path, *, builtin_types: Collection[str] = ()) -> Manifest:
    """Read and check the manifest in a file. Starts nothing.

    Args:
        path: The file.
        builtin_types: Component types that no plugin may take.

    Raises:
        ManifestError: It cannot be used; says everything that is wrong.
    """
    file = str(path)

    def refuse(what: str, fix: str) -> ManifestError:
        return ManifestError([ManifestProblem("", what, fix)], file=file, plugin="")

    try:
        if path.is_dir():
            raise refuse("this is a folder", "Name the manifest in it.")
        with path.open("rb") as opened:
            data = opened.read(MAX_MANIFEST + 1)
    except OSError as error:
        raise refuse(
            f"cannot read it: {error.strerror or error}",
            near_file(file, (".json", ".py")),
        ) from error
    if len(data) > MAX_MANIFEST:
        raise refuse(
            f"it is larger than {MAX_MANIFEST // 1024 // 1024} MiB, which no manifest is",
            "Name the right file.",
        )
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        flaw = json_flaw(data, error)
        raise refuse(
            f"it is not valid JSON: {flaw.what}", flaw.fix or "A manifest is a JSON object."
        ) from error
    if isinstance(raw, dict) and "component_type" in raw and "components" not in raw:
        raise refuse(
            "this is a document of Agent Spec, and no manifest of a plugin",
            "Name the manifest here, and the document where the flow belongs.",
        )
    return check_manifest(
        raw, file=file, folder=path.resolve().parent, builtin_types=builtin_types
    )


def check_manifest(
    raw: object,
    *,
    file: str,
    folder: Path,
    builtin_types: Collection[str] = (),
    provides: bool = False,
) -> Manifest:
    """Check a manifest that is at hand as objects.

    Args:
        raw: As decoded from JSON.
        file: What errors call it.
        folder: The plugin's folder, in which its files are looked for.
        builtin_types: Component types that no plugin may take.
        provides: The plugin provides something that no manifest declares.

    Raises:
        ManifestError: It cannot be used; says everything that is wrong.
    """
    reading = _Reading(folder, frozenset(builtin_types), provides=provides)
    manifest = reading.manifest(raw)
    if manifest is None or reading.problems:
        name = raw.get("name") if isinstance(raw, Mapping) else None
        plugin = name if isinstance(name, str) else ""
        raise ManifestError(reading.problems, file=file, plugin=plugin)
    return manifest


class _Reading:
    """One reading of one manifest."""

    def __init__(
        self, folder: Path, builtin_types: frozenset[str], *, provides: bool
    ) -> None:
        self._provides = provides
        self._read = FieldReading()
        self._paths = ManifestPaths(folder, self._read.refuse)
        self._builtin_types = builtin_types

    @property
    def problems(self) -> list[ManifestProblem]:
        """What is wrong so far."""
        return self._read.problems

    def manifest(self, raw: object) -> Manifest | None:
        """The manifest, or None when there are problems."""
        if not isinstance(raw, Mapping):
            self._read.refuse("", f"it is {kind_of(raw)}", "A manifest is a JSON object.")
            return None
        self._read.note_unknown(raw, "$", MANIFEST_FIELDS)
        own = {
            name: info
            for name, info in MANIFEST_FIELDS.items()
            if name not in {"components", "tools", "files"}
        }
        values = self._read.values(raw, "$", own)
        components = self._components(raw.get("components", []))
        tools = self._tools(raw.get("tools", []))
        files = self._files(raw.get("files", []))
        provided = ("components", "tools", "discoverTools")
        if not self._provides and not any(raw.get(name) for name in provided):
            what = missing("this plugin provides nothing", raw, *provided)
            self._read.refuse("$", what, _PROVIDE)
        if self._read.problems:
            return None
        return Manifest(
            **values,
            components=components,
            tools=tools,
            files=files,
            warnings=self._read.warnings(),
        )

    # --- components --------------------------------------------------------------------

    def _components(self, raw: object) -> tuple[Component, ...]:
        seen: dict[str, str] = {}
        protocols: dict[str, str] = {}
        found = []
        for path, each in self._read.items(raw, "$.components"):
            component = self._component(each, path)
            if isinstance(component, EncoderComponent):
                first = protocols.setdefault(component.protocol, path)
                if first != path:
                    self._read.refuse(
                        f"{path}.protocol",
                        f"{component.protocol!r} is the protocol of {first} already",
                        "Give each encoder a protocol of its own.",
                        component.component_type,
                    )
            name = each.get("componentType")
            if isinstance(name, str) and name in seen:
                self._read.refuse(
                    f"{path}.componentType",
                    f"{name!r} is declared twice, first at {seen[name]}",
                    "Give each component a type of its own.",
                    name,
                )
            elif isinstance(name, str):
                seen[name] = path
            if component is not None:
                found.append(component)
        return tuple(found)

    def _component(self, raw: Mapping[str, Any], path: str) -> Component | None:
        name = raw.get("componentType")
        component = name if isinstance(name, str) else ""
        kind = self._kind(raw, path, component)
        if isinstance(name, str) and name:
            self._check_type_name(name, f"{path}.componentType", component)
        if kind is None:
            return None
        known = KIND_FIELDS[kind]
        for key in raw:
            readers = [other.value for other in Kind if key in KIND_FIELDS[other]]
            if key not in known and key != "kind" and readers:
                self._read.refuse(
                    f"{path}.{key}",
                    f"{key!r} is never read on a component of kind {kind.value!r}",
                    f"Remove it, or set 'kind' to one that reads it: {', '.join(readers)}.",
                    component,
                )
        every = {key for each in KIND_FIELDS.values() for key in each}
        self._read.note_unknown(raw, path, {**known, "kind": None}, but=every)
        before = len(self._read.problems)
        values = self._read.values(raw, path, known, component)
        if kind is Kind.MIDDLEWARE and "seams" in raw:
            values["seams"] = self._seams(raw["seams"], f"{path}.seams", component)
        if kind is Kind.ENCODER:
            self._check_encoder(values, path, component)
        if isinstance(values.get("schema"), dict):
            self._check_schema(values["schema"], f"{path}.schema", component)
        return KINDS[kind](**values) if len(self._read.problems) == before else None

    def _kind(self, raw: Mapping[str, Any], path: str, component: str) -> Kind | None:
        written = raw.get("kind", Kind.NODE.value)
        if isinstance(written, str) and written in set(Kind):
            return Kind(written)
        self._read.refuse(
            f"{path}.kind",
            f"{shown(written)} is not a kind of component",
            one_of(str(written), [each.value for each in Kind]),
            component,
        )
        return None

    def _check_type_name(self, name: str, path: str, component: str) -> None:
        if not _TYPE_NAME.fullmatch(name):
            self._read.refuse(
                path,
                f"{shown(name)} is not the name of a component type",
                "Use letters, digits and underscores, and no digit first.",
                component,
            )
        elif name in self._builtin_types:
            self._read.refuse(
                path,
                f"{name!r} is a component type that Agent Spec ships",
                "Give the component a name of its own.",
                component,
            )

    def _seams(
        self, raw: object, path: str, component: str
    ) -> Mapping[Seam, frozenset[Half]]:
        """The subscription, each seam read on its own so that every mistake is told."""
        if not isinstance(raw, Mapping) or not raw:
            self._subscribe({} if isinstance(raw, Mapping) else raw, path, component)
            return {}
        found: dict[Seam, frozenset[Half]] = {}
        for name, halves in raw.items():
            read = self._subscribe({name: halves}, path, component)
            found.update(read)
            known = set(halves) if isinstance(halves, list) and read else set()
            if known and len(known) != len(halves):
                self._read.refuse(
                    f"{path}.{name}", "a half is written twice", "Name it once.", component
                )
        return found

    def _subscribe(
        self, raw: object, path: str, component: str
    ) -> Mapping[Seam, frozenset[Half]]:
        try:
            return read_subscription(raw, where=path)
        except SubscriptionError as error:
            fix = error.fix
            listed = ", ".join(SEAMS)
            if error.where == path and "is not a seam" in error.what and listed not in fix:
                fix = f"{fix} heddle has: {listed}."
            self._read.refuse(error.where, error.what, fix, component)
            return {}

    def _check_encoder(self, values: Mapping[str, Any], path: str, component: str) -> None:
        protocol = values.get("protocol")
        if protocol == "heddle":
            self._read.refuse(
                f"{path}.protocol",
                "'heddle' is the protocol that heddle speaks itself",
                "Name yours differently.",
                component,
            )
        elif isinstance(protocol, str) and not _PROTOCOL_NAME.fullmatch(protocol):
            self._read.refuse(
                f"{path}.protocol",
                f"{shown(protocol)} is not the name of a protocol",
                "Use small letters, digits and '-', and no '-' first.",
                component,
            )
        content_type = values.get("content_type")
        if isinstance(content_type, str) and not content_type.isprintable():
            self._read.refuse(
                f"{path}.contentType",
                f"{shown(content_type)} is not a content type",
                "Write it like text/event-stream.",
                component,
            )

    def _check_schema(self, schema: dict[str, Any], path: str, component: str) -> None:
        problem = schema_problem(schema)
        if problem is not None:
            where, what = problem
            self._read.refuse(
                f"{path}{where}",
                f"this is no JSON Schema: {what}",
                "Correct it.",
                component,
            )

    # --- tools and files ---------------------------------------------------------------

    def _tools(self, raw: object) -> tuple[ToolEntry, ...]:
        known = known_fields(ToolEntry)
        seen: dict[str, str] = {}
        found = []
        for path, each in self._read.items(raw, "$.tools"):
            self._read.note_unknown(each, path, known)
            before = len(self._read.problems)
            values = self._read.values(each, path, known)
            name = values.get("name")
            if isinstance(name, str) and name in seen:
                self._read.refuse(
                    f"{path}.name",
                    f"there are two tools {name!r}, the first at {seen[name]}",
                    "Give each tool a name of its own.",
                )
            elif isinstance(name, str):
                seen[name] = path
            given = [key for key in ("path", "componentType") if each.get(key) is not None]
            if len(given) != 1:
                have = "both" if given else "neither of"
                self._read.refuse(
                    path,
                    f"the tool has {have} 'path' and 'componentType'",
                    "Write 'path' for an executable in the plugin's folder, or "
                    "'componentType' for one that the plugin serves.",
                )
            elif isinstance(values.get("path"), str):
                self._paths.check_executable(values["path"], f"{path}.path")
            elif isinstance(values.get("component_type"), str):
                self._check_type_name(values["component_type"], f"{path}.componentType", "")
            for key in ("input_schema", "output_schema"):
                if isinstance(values.get(key), dict):
                    where = f"{path}.{known_name(ToolEntry, key)}"
                    self._check_tool_schema(values[key], where)
            if len(self._read.problems) == before:
                found.append(ToolEntry(**values))
        return tuple(found)

    def _check_tool_schema(self, schema: dict[str, Any], path: str) -> None:
        found = find_schema_problem(schema)
        if found is not None:
            inner, what, fix = found
            self._read.refuse(f"{path}{inner}", what, fix)

    def _files(self, raw: object) -> tuple[FileEntry, ...]:
        known = known_fields(FileEntry)
        items = list(self._read.items(raw, "$.files"))
        if len(items) > MAX_FILES:
            self._read.refuse(
                "$.files", f"{len(items)} files are declared, and {MAX_FILES} may be", ""
            )
            return ()
        found = []
        for path, each in items:
            self._read.note_unknown(each, path, known)
            before = len(self._read.problems)
            values = self._read.values(each, path, known)
            if isinstance(values.get("path"), str):
                self._paths.check_file(values["path"], f"{path}.path")
            if isinstance(values.get("dest"), str):
                self._paths.check_destination(values["dest"], f"{path}.dest")
            if len(self._read.problems) == before:
                found.append(FileEntry(**values))
        return tuple(found)


_PROVIDE: Final = "Declare 'components' or 'tools', or set 'discoverTools'."
