"""Reading manifests: what is accepted, and every refusal with its place and its remedy."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins_host.manifests.manifest import (
    KINDS,
    Capability,
    EncoderComponent,
    Kind,
    Manifest,
    MiddlewareComponent,
    NodeComponent,
    Phase,
    ProviderComponent,
    TransformComponent,
)
from plugins_host.manifests.problems import (
    ManifestError,
    ManifestProblem,
)
from plugins_host.manifests.reading import (
    MAX_FILES,
    MAX_MANIFEST,
    check_manifest,
    read_manifest,
)
from plugins_host.manifests.schemas import (
    MAX_SCHEMA_BYTES,
)
from plugins_host.seams import SEAMS, Half, Seam

RETRY = {
    "name": "retry-policy",
    "version": "1.0.0",
    "capabilities": [],
    "components": [
        {
            "componentType": "RetryPolicy",
            "kind": "middleware",
            "seams": {"nodeError": ["after"]},
            "schema": {"type": "object", "properties": {"maxAttempts": {"type": "number"}}},
        }
    ],
}


def read(raw: object, folder: Path = Path("/nowhere"), **keys: Any) -> Manifest:
    return check_manifest(raw, file="plugin.json", folder=folder, **keys)


def refused(raw: object, folder: Path = Path("/nowhere"), **keys: Any) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        read(raw, folder, **keys)
    return caught.value


def only(raw: object, folder: Path = Path("/nowhere"), **keys: Any) -> ManifestProblem:
    error = refused(raw, folder, **keys)
    assert len(error.problems) == 1, str(error)
    return error.problems[0]


def plugin(**changes: Any) -> dict[str, Any]:
    return {"name": "p", "version": "1", "discoverTools": True, **changes}


def with_component(**component: Any) -> dict[str, Any]:
    return plugin(components=[{"componentType": "Mine", **component}])


def middleware(**component: Any) -> dict[str, Any]:
    return with_component(kind="middleware", **component)


# --- what is accepted ------------------------------------------------------------------


def test_the_manifest_of_the_published_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "retry-policy.json"
    path.write_text(json.dumps(RETRY))

    manifest = read_manifest(path)

    (component,) = manifest.middleware
    assert component.component_type == "RetryPolicy"
    assert component.seams == {Seam.NODE_ERROR: frozenset({Half.AFTER})}
    assert manifest.warnings == ()


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(RETRY).encode())

    assert read_manifest(path).name == "retry-policy"


def test_a_component_without_a_kind_is_a_node() -> None:
    (component,) = read(with_component(inputs=[{"title": "a"}], branches=["x"])).components

    assert component == NodeComponent("Mine", inputs=({"title": "a"},), branches=("x",))


@pytest.mark.parametrize(
    ("written", "component"),
    [
        (
            {"kind": "transform", "phase": "pre"},
            TransformComponent("Mine", phase=Phase.PRE),
        ),
        ({"kind": "provider", "stream": True}, ProviderComponent("Mine", stream=True)),
        (
            {"kind": "encoder", "protocol": "ag-ui", "contentType": "text/event-stream"},
            EncoderComponent("Mine", protocol="ag-ui", content_type="text/event-stream"),
        ),
        (
            {"kind": "middleware", "seams": {"toolCall": ["before", "after"]}},
            MiddlewareComponent(
                "Mine", seams={Seam.TOOL_CALL: frozenset({Half.BEFORE, Half.AFTER})}
            ),
        ),
    ],
)
def test_each_kind_has_its_own_fields(written: dict[str, Any], component: object) -> None:
    assert read(with_component(**written)).components == (component,)


def test_every_kind_has_a_struct() -> None:
    assert set(KINDS) == set(Kind)


@pytest.mark.parametrize("seam", SEAMS)
def test_every_half_of_every_seam_can_be_subscribed_to(seam: Seam) -> None:
    halves = [half.value for half in SEAMS[seam].halves]

    (component,) = read(middleware(seams={seam.value: halves})).middleware

    assert component.seams == {seam: frozenset(SEAMS[seam].halves)}


def test_capabilities_are_the_four_reverse_calls() -> None:
    written = ["runTool", "callModel", "emitEvent", "log"]

    assert read(plugin(capabilities=written)).capabilities == tuple(Capability)


# --- odd, and no reason to refuse -------------------------------------------------------


def test_unknown_fields_are_one_warning_with_the_nearest_known_ones() -> None:
    written = middleware(seams={"node": ["after"]}, schemas={}, colour="red")
    written["componentTypes"] = []
    written["capabilitys"] = []

    (warning,) = read(written).warnings

    assert warning == (
        "heddle does not know, and ignores: $.componentTypes (did you mean 'components'?), "
        "$.capabilitys (did you mean 'capabilities'?), "
        "$.components[0].schemas (did you mean 'schema'?), $.components[0].colour"
    )


def test_a_seam_spelt_as_seam_is_missing_and_not_only_unknown() -> None:
    problem = only(middleware(seam={"node": ["after"]}))

    assert problem.path == "$.components[0].seams"
    assert (
        problem.fix
        == "Name at least one of: nodeError, node, toolCall, modelCall, agentRound."
    )


# --- the file ---------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file") as caught:
        read_manifest(tmp_path / "gone.json")

    assert caught.value.where == str(tmp_path / "gone.json")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="this is a folder. Name the manifest in it"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", [b"{", b"", b'{"a": 1,}', b"[" * 100_000, b'"\xff"'])
def test_what_is_not_json_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(text)

    with pytest.raises(ManifestError, match="not valid JSON"):
        read_manifest(path)


def test_malformed_json_is_told_with_its_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(b'{\n  "name": "gate",\n}')

    with pytest.raises(ManifestError, match="line 3, column 1: expecting property name"):
        read_manifest(path)


def test_an_endless_file_is_refused_and_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    with path.open("wb") as file:
        file.truncate(MAX_MANIFEST * 1000)

    with pytest.raises(ManifestError, match="larger than 8 MiB"):
        read_manifest(path)


@pytest.mark.parametrize("raw", [None, [], "text", 5, True])
def test_what_is_no_object_is_refused(raw: object) -> None:
    assert only(raw).fix == "A manifest is a JSON object."


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (None, "null"),
        (True, "true or false"),
        ("text", "a text"),
        (5, "a number"),
        ([], "an array"),
        (object(), "a Python object"),
    ],
)
def test_what_stands_in_the_place_of_an_object_is_told(raw: object, says: str) -> None:
    assert only(raw).what == f"it is {says}"


@pytest.mark.parametrize(
    ("field", "written", "wanted"),
    [
        ("command", "x", "an array"),
        ("command", [], "an array that is not empty"),
        ("capabilities", "log", "an array"),
        ("discoverTools", 1, "true or false"),
    ],
)
def test_what_should_stand_there_is_told_in_words(
    field: str, written: object, wanted: str
) -> None:
    assert only(plugin(**{field: written})).fix == f"It should be {wanted}."


def test_a_module_may_hold_what_json_cannot_and_is_told_so() -> None:
    error = refused(plugin(version={1, 2}, command=[object]))

    assert [each.path for each in error.problems] == ["$.version", "$.command[0]"]
    assert only(plugin(components=[[object]])).what == "an array is not an object"
    assert "…" in only(plugin(name=["x" * 100])).what


# --- the top level ----------------------------------------------------------------------


def test_everything_that_is_wrong_is_told_at_once() -> None:
    error = refused(
        {
            "name": "",
            "capabilities": ["runTools"],
            "components": [
                {
                    "componentType": "A",
                    "kind": "middleware",
                    "seams": {"toolcall": ["before"]},
                },
                {"componentType": "A", "kind": "midleware"},
            ],
        }
    )

    assert str(error) == (
        "plugin.json: 6 things are wrong\n"
        "  $.name: this is ''. It should be a text that is not empty.\n"
        "  $.version: 'version' is missing. Add it.\n"
        "  $.capabilities[0]: 'runTools' is not a capability. Did you mean 'runTool'?\n"
        "  $.components[0].seams (component 'A'): 'toolcall' is not a seam. Did you mean "
        "'toolCall'? heddle has: nodeError, node, toolCall, modelCall, agentRound.\n"
        "  $.components[1].kind (component 'A'): 'midleware' is not a kind of component. "
        "Did you mean 'middleware'?\n"
        "  $.components[1].componentType (component 'A'): 'A' is declared twice, first at "
        "$.components[0]. Give each component a type of its own."
    )


def test_one_problem_is_told_with_the_plugin_and_the_component() -> None:
    raw = json.loads(json.dumps(RETRY))
    raw["components"][0]["seams"] = {"toolcall": ["before"]}

    assert str(refused(raw)) == (
        "plugin.json $.components[0].seams (plugin 'retry-policy', component "
        "'RetryPolicy'): 'toolcall' is not a seam. Did you mean 'toolCall'? heddle has: "
        "nodeError, node, toolCall, modelCall, agentRound."
    )


@pytest.mark.parametrize(
    ("raw", "path", "says"),
    [
        ({"version": "1", "discoverTools": True}, "$.name", "missing"),
        ({"name": "p", "discoverTools": True}, "$.version", "missing"),
        (plugin(name=5), "$.name", "this is 5"),
        (plugin(name=None), "$.name", "this is null"),
        (plugin(version=""), "$.version", "this is ''"),
        (plugin(command=[]), "$.command", "this is []"),
        (plugin(command="run"), "$.command", "this is 'run'"),
        (plugin(command=["run", 5]), "$.command[1]", "this is 5"),
        (plugin(command=[""]), "$.command[0]", "this is ''"),
        (plugin(capabilities="log"), "$.capabilities", "this is 'log'"),
        (plugin(capabilities=["log", 5]), "$.capabilities[1]", "this is 5"),
        (plugin(discoverTools="yes"), "$.discoverTools", "this is 'yes'"),
        (plugin(components={}), "$.components", "{} is not an array"),
        (plugin(components=[5]), "$.components[0]", "5 is not an object"),
        (plugin(tools="x"), "$.tools", "'x' is not an array"),
        (plugin(files=[[]]), "$.files[0]", "[] is not an object"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(raw: object, path: str, says: str) -> None:
    problem = only(raw)

    assert problem.path == path
    assert says in problem.what


@pytest.mark.parametrize("extra", [{}, {"components": []}, {"discoverTools": False}])
def test_a_plugin_that_provides_nothing_is_refused(extra: dict[str, Any]) -> None:
    problem = only({"name": "p", "version": "1", **extra})

    assert problem.fix == "Declare 'components' or 'tools', or set 'discoverTools'."


# --- components -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["9Lives", "My-Policy", "a b", "é", "Gate\n"])
def test_a_component_type_is_an_identifier(name: str) -> None:
    problem = only(plugin(components=[{"componentType": name}]))

    assert problem.path == "$.components[0].componentType"


def test_a_component_needs_a_type() -> None:
    assert only(plugin(components=[{}])).what == "'componentType' is missing"


def test_a_component_type_of_agent_spec_is_refused() -> None:
    problem = only(
        plugin(components=[{"componentType": "LlmNode"}]), builtin_types={"LlmNode"}
    )

    assert problem.what == "'LlmNode' is a component type that Agent Spec ships"


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do() -> None:
    assert only(with_component(kind="zebra")).fix == (
        "Choose from: node, transform, component, provider, middleware, encoder, store."
    )


@pytest.mark.parametrize("kind", [5, None, ["node"], {}])
def test_a_kind_is_a_text(kind: object) -> None:
    assert only(with_component(kind=kind)).path == "$.components[0].kind"


@pytest.mark.parametrize(
    ("component", "field"),
    [
        ({"seams": {"node": ["after"]}}, "seams"),
        ({"kind": "middleware", "seams": {"node": ["after"]}, "inputs": []}, "inputs"),
        ({"kind": "provider", "phase": "pre"}, "phase"),
        ({"kind": "store", "branches": []}, "branches"),
        (
            {"kind": "encoder", "protocol": "x", "contentType": "y/z", "schema": {}},
            "schema",
        ),
        ({"kind": "component", "stream": True}, "stream"),
    ],
)
def test_a_field_that_the_kind_never_reads_is_refused(
    component: dict[str, Any], field: str
) -> None:
    problem = only(with_component(**component))

    assert problem.path == f"$.components[0].{field}"
    assert "is never read on a component of kind" in problem.what
    assert problem.component == "Mine"


def test_a_phase_that_does_not_exist_is_refused() -> None:
    assert only(with_component(kind="transform", phase="before")).fix == (
        "Choose from: pre, post, both."
    )


@pytest.mark.parametrize(
    ("seams", "path", "says"),
    [
        ([], "$.components[0].seams", "is not an object of seams"),
        ("toolCall", "$.components[0].seams", "is not an object of seams"),
        ({}, "$.components[0].seams", "subscribes to no seam"),
        ({"toolResult": ["after"]}, "$.components[0].seams", "'toolResult' is not a seam"),
        ({"toolCall": []}, "$.components[0].seams.toolCall", "names no half"),
        ({"toolCall": "before"}, "$.components[0].seams.toolCall", "not an array"),
        (
            {"nodeError": ["before"]},
            "$.components[0].seams.nodeError[0]",
            "no half 'before'",
        ),
        (
            {"node": ["after", "during"]},
            "$.components[0].seams.node[1]",
            "no half 'during'",
        ),
        ({"node": ["after", "after"]}, "$.components[0].seams.node", "written twice"),
    ],
)
def test_a_subscription_to_what_does_not_exist_is_refused(
    seams: object, path: str, says: str
) -> None:
    problem = only(middleware(seams=seams))

    assert problem.path == path
    assert says in problem.what
    assert problem.component == "Mine"


def test_each_wrong_seam_is_told() -> None:
    error = refused(middleware(seams={"tools": ["before"], "nodeError": ["before"]}))

    assert len(error.problems) == 2


def test_an_unknown_seam_is_answered_with_the_seams_there_are() -> None:
    assert only(middleware(seams={"toolResult": ["after"]})).fix.endswith(
        "nodeError, node, toolCall, modelCall, agentRound."
    )


@pytest.mark.parametrize("protocol", ["heddle", "AG UI", "-x", ""])
def test_an_encoder_has_a_protocol_name_of_its_own(protocol: str) -> None:
    problem = only(with_component(kind="encoder", protocol=protocol, contentType="a/b"))

    assert problem.path == "$.components[0].protocol"


def test_a_content_type_is_one_line() -> None:
    problem = only(
        with_component(kind="encoder", protocol="x", contentType="a/b\r\nX-Evil: 1")
    )

    assert problem.path == "$.components[0].contentType"


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "objekt"}, ".type"),
        ({"properties": {"a": {"minimum": "x"}}}, ".properties.a.minimum"),
        ({"required": "a"}, ".required"),
    ],
)
def test_a_schema_that_is_none_is_refused(schema: dict[str, Any], path: str) -> None:
    problem = only(middleware(seams={"node": ["after"]}, schema=schema))

    assert problem.path == f"$.components[0].schema{path}"
    assert problem.what.startswith("this is no JSON Schema")


# --- tools and files --------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "plugin"
    (inside / "bin").mkdir(parents=True)
    (inside / "bin" / "tool").write_text("#!/bin/sh\n")
    (inside / "bin" / "tool").chmod(0o755)
    (inside / "bin" / "notes").write_text("")
    (tmp_path / "outside").write_text("#!/bin/sh\n")
    (tmp_path / "outside").chmod(0o755)
    (inside / "bin" / "link").symlink_to(tmp_path / "outside")
    (inside / "bin" / "circle").symlink_to("round")
    (inside / "bin" / "round").symlink_to("circle")
    return inside


def tools(**tool: Any) -> dict[str, Any]:
    return {"name": "p", "version": "1", "tools": [{"name": "t", **tool}]}


def test_a_plugin_of_executables_needs_no_program(folder: Path) -> None:
    manifest = read(tools(path="bin/tool", inputSchema={"type": "object"}), folder)

    assert manifest.tools[0].path == "bin/tool"
    assert not manifest.needs_program


def test_a_tool_that_the_plugin_serves_needs_a_program(folder: Path) -> None:
    assert read(tools(componentType="Mine"), folder).needs_program


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("../outside", "not inside the plugin's folder"),
        ("/bin/sh", "not inside the plugin's folder"),
        ("bin/link", "not inside the plugin's folder"),
        (".", "not inside the plugin's folder"),
        ("bin", "there is no file"),
        ("bin/none", "there is no file"),
        ("bin/notes", "not executable"),
        ("bin/\0", "not a path"),
    ],
)
def test_a_tool_is_an_executable_inside_the_folder(
    folder: Path, path: str, says: str
) -> None:
    problem = only(tools(path=path), folder)

    assert problem.path == "$.tools[0].path"
    assert says in problem.what


def test_a_tool_of_the_plugins_own_is_served_by_a_type_that_can_be() -> None:
    problem = only(plugin(tools=[{"name": "t", "componentType": "not a name"}]))
    assert problem.path == "$.tools[0].componentType"
    assert problem.what == "'not a name' is not the name of a component type"


@pytest.mark.parametrize("tool", [{}, {"path": "bin/tool", "componentType": "Mine"}])
def test_a_tool_is_either_a_file_or_served(folder: Path, tool: dict[str, Any]) -> None:
    assert only(tools(**tool), folder).path == "$.tools[0]"


def test_two_tools_of_one_name_are_refused(folder: Path) -> None:
    raw = tools(path="bin/tool")
    raw["tools"].append(raw["tools"][0])

    assert only(raw, folder).what == "there are two tools 't', the first at $.tools[0]"


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "array"}, "'array' is not the type of an object"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "may take 65536"),
        (nested(17), "nested 17 levels deep"),
        ({"type": "object", "required": 5}, "no JSON Schema"),
    ],
)
@pytest.mark.parametrize("field", ["inputSchema", "outputSchema"])
def test_a_tools_schema_is_a_small_one_of_an_object(
    folder: Path, field: str, schema: dict[str, Any], says: str
) -> None:
    problem = only(tools(path="bin/tool", **{field: schema}), folder)

    assert problem.path.startswith(f"$.tools[0].{field}")
    assert says in problem.what


def test_sixteen_levels_of_schema_are_accepted(folder: Path) -> None:
    assert read(tools(path="bin/tool", inputSchema=nested(16)), folder).tools


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ({"path": "bin/none", "dest": "a"}, "$.files[0].path"),
        ({"path": "../outside", "dest": "a"}, "$.files[0].path"),
        ({"path": "bin/link", "dest": "a"}, "$.files[0].path"),
        ({"path": "bin/circle", "dest": "a"}, "$.files[0].path"),
        ({"path": "bin", "dest": "a"}, "$.files[0].path"),
        ({"path": "bin/notes", "dest": "/etc/passwd"}, "$.files[0].dest"),
        ({"path": "bin/notes", "dest": "a/../../b"}, "$.files[0].dest"),
        ({"path": "bin/notes", "dest": "."}, "$.files[0].dest"),
        ({"path": "bin/notes"}, "$.files[0].dest"),
        ({"dest": "a"}, "$.files[0].path"),
    ],
)
def test_files_come_from_the_folder_and_go_into_the_workspace(
    folder: Path, file: dict[str, Any], path: str
) -> None:
    assert only(plugin(files=[file]), folder).path == path


def test_two_files_on_one_destination_are_refused(folder: Path) -> None:
    files = [{"path": "bin/notes", "dest": "a/b"}, {"path": "bin/tool", "dest": "a//b"}]

    assert only(plugin(files=files), folder).what == (
        "'a//b' is the destination of $.files[0] already"
    )


@pytest.mark.parametrize("dests", [("a", "a/b"), ("a/b/c", "a/b")])
def test_no_file_lies_inside_another(folder: Path, dests: tuple[str, str]) -> None:
    files = [{"path": "bin/notes", "dest": each} for each in dests]

    found = only(plugin(files=files), folder)
    assert found.path == "$.files[1].dest"
    assert "lie inside each other" in found.what


def test_two_encoders_of_one_protocol_are_refused() -> None:
    encoders = [
        {"componentType": n, "kind": "encoder", "protocol": "x", "contentType": "a/b"}
        for n in ("One", "Other")
    ]

    found = only(plugin(components=encoders))
    assert found.path == "$.components[1].protocol"


def test_there_are_at_most_so_many_files(folder: Path) -> None:
    files = [{"path": "bin/notes", "dest": str(n)} for n in range(MAX_FILES + 1)]

    assert only(plugin(files=files), folder).path == "$.files"
    assert len(read(plugin(files=files[1:]), folder).files) == MAX_FILES


# --- anything ---------------------------------------------------------------------------

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def mutated(draw: Callable[[st.SearchStrategy[Any]], Any], value: Any) -> Any:
    """``value`` with something in it replaced by anything."""
    if draw(st.integers(0, 4)) == 0:
        return draw(json_values)
    if isinstance(value, dict):
        return {key: mutated(draw, each) for key, each in value.items()}
    if isinstance(value, list):
        return [mutated(draw, each) for each in value]
    return value


@st.composite
def nearly_manifests(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    whole = {
        **RETRY,
        "command": ["x"],
        "tools": [{"name": "t", "path": "bin/tool", "inputSchema": {"type": "object"}}],
        "files": [{"path": "a", "dest": "b"}],
        "discoverTools": False,
    }
    return mutated(draw, whole)


@given(nearly_manifests())
def test_any_json_is_a_manifest_or_a_manifest_error(raw: object) -> None:
    with suppress(ManifestError):
        assert read(raw).name


# --- what was probably meant -------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (
            {"name": "p", "version": "1", "componnts": [{"componentType": "A"}]},
            "this plugin provides nothing; is 'componnts' a misspelling of 'components'?",
        ),
        (
            middleware(seam={"node": ["before"]}),
            "a middleware subscribes to seams; is 'seam' a misspelling of 'seams'?",
        ),
        (
            {"name": "p", "verson": "1", "discoverTools": True},
            "'version' is missing; is 'verson' a misspelling of 'version'?",
        ),
        ({"name": "p", "discoverTools": True, "author": "me"}, "'version' is missing"),
    ],
)
def test_what_is_missing_may_be_there_misspelt(raw: dict[str, Any], what: str) -> None:
    assert only(raw).what == what


@pytest.mark.parametrize("where", ["tools", "files"])
def test_a_name_longer_than_the_file_system_takes_is_no_path(
    where: str, tmp_path: Path
) -> None:
    entries = {
        "tools": {"name": "t", "path": "x" * 5000},
        "files": {"path": "x" * 5000, "dest": "there"},
    }
    problem = only(plugin(**{where: [entries[where]]}), tmp_path)
    assert problem.path == f"$.{where}[0].path"
    assert problem.what.endswith("… is not a path: File name too long")
