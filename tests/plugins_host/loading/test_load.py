"""From ``--plugin`` flags to plugins ready to be asked, and what is refused on the way."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from plugins_host.faults import Fault
from plugins_host.loading.installed import (
    InProcess,
    LoadedPlugins,
    OutOfProcess,
    PluginRefused,
)
from plugins_host.loading.load import ALL_CAPABILITIES, load_plugins
from plugins_host.loading.modules import ModuleUnusable
from plugins_host.loading.settings import SettingsError
from plugins_host.manifests.manifest import (
    Capability,
)
from plugins_host.manifests.problems import (
    ManifestError,
)
from plugins_host.program import CAPABILITIES

MODULE = """
from heddle.plugin import pass_, serve

manifest = {
    "name": "audit",
    "version": "1",
    "components": [
        {"componentType": "Audit", "kind": "middleware", "seams": {"node": ["after"]}}
    ],
}
handlers = {"Audit": {"node": {"after": lambda event, ctx: pass_()}}}
if __name__ == "__main__":
    serve(handlers)
"""


def manifest(folder: Path, name: str, *types: str, **keys: Any) -> str:
    """A manifest of middleware beside a program, as ``--plugin`` names it."""
    components = [
        {"componentType": each, "kind": "middleware", "seams": {"node": ["after"]}}
        for each in types
    ]
    whole = {"name": name, "version": "1", "components": components, **keys}
    (folder / f"{name}.json").write_text(json.dumps(whole))
    (folder / f"{name}.py").write_text("raise SystemExit('nobody may start me')")
    return str(folder / f"{name}.json")


def module(folder: Path, text: str = MODULE) -> str:
    path = folder / "audit.py"
    path.write_text(text)
    return str(path)


def refused(*args: Any, **keys: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        load_plugins(*args, **keys)
    return caught.value


def chain(loaded: LoadedPlugins) -> list[str]:
    return [each.component.component_type for each in loaded.middleware]


def test_nothing_is_loaded_from_nothing() -> None:
    assert load_plugins([]) == LoadedPlugins()


def test_the_chain_has_the_order_of_the_flags_and_then_of_the_components(
    tmp_path: Path,
) -> None:
    first = manifest(tmp_path, "first", "B", "A")
    second = manifest(tmp_path, "second", "C")

    assert chain(load_plugins([first, second])) == ["B", "A", "C"]
    assert chain(load_plugins([second, first])) == ["C", "B", "A"]


def test_a_manifest_is_run_in_its_folder_with_a_chosen_environment(tmp_path: Path) -> None:
    source = manifest(tmp_path, "gate", "Gate", capabilities=["log"])
    environment = {"PATH": "/usr/bin", "SECRET": "x", "TOKEN": "y"}

    loaded = load_plugins([source], environment=environment, variables=["TOKEN"])

    home = loaded.plugins[0].home
    assert isinstance(home, OutOfProcess)
    assert home.program is not None
    assert home.program.argv == (sys.executable, str(tmp_path.resolve() / "gate.py"))
    assert home.program.cwd == str(tmp_path.resolve())
    assert home.program.environment == {"PATH": "/usr/bin", "TOKEN": "y"}
    assert home.program.capabilities == {"log"}


def test_settings_reach_their_component_and_are_empty_for_the_others(
    tmp_path: Path,
) -> None:
    source = manifest(tmp_path, "two", "A", "B")

    loaded = load_plugins([source], ['B={"x": 1}'])

    assert [each.settings for each in loaded.middleware] == [{}, {"x": 1}]


def test_settings_that_do_not_fit_stop_the_start(tmp_path: Path) -> None:
    source = manifest(tmp_path, "gate", "Gate")

    assert isinstance(refused([source], ["Gtae={}"]), SettingsError)
    assert isinstance(refused([], ["Gate={}"]), SettingsError)


def test_what_is_odd_in_a_manifest_is_a_warning_that_names_it(tmp_path: Path) -> None:
    source = manifest(tmp_path, "gate", "Gate", versoin="2")

    assert load_plugins([source]).warnings == (
        f"{source} (plugin 'gate'): heddle does not know, and ignores: $.versoin "
        "(did you mean 'version'?)",
    )


def test_a_component_type_provided_twice_is_refused_naming_both(tmp_path: Path) -> None:
    one, two = manifest(tmp_path, "one", "Gate"), manifest(tmp_path, "two", "Gate")

    assert str(refused([one, two])) == (
        f"{two} (plugin 'two'): the component type 'Gate' is also provided by {one}. "
        "Install one of them."
    )


def test_a_plugin_installed_twice_is_refused(tmp_path: Path) -> None:
    one = manifest(tmp_path, "one", "Gate")

    assert refused([one, one]).what == "the plugin is installed twice"


def test_two_plugins_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    one, two = manifest(tmp_path / "a", "gate", "A"), manifest(tmp_path / "b", "gate", "B")

    assert refused([one, two]).what == f"{one} is called 'gate' as well"


def test_a_tool_provided_twice_is_refused_unless_it_says_that_it_shadows(
    tmp_path: Path,
) -> None:
    def with_tool(name: str, **tool: Any) -> str:
        return manifest(tmp_path, name, tools=[{"name": "t", "componentType": "X", **tool}])

    one, two, three = with_tool("one"), with_tool("two"), with_tool("three", shadows=True)

    assert "the tool 't' is also provided" in refused([one, two]).what
    assert len(load_plugins([one, three]).plugins) == 2


def test_a_capability_that_is_not_granted_is_refused_naming_it(tmp_path: Path) -> None:
    source = manifest(tmp_path, "gate", "Gate", capabilities=["log", "runTool"])

    error = refused([source], granted={Capability.LOG})

    assert isinstance(error, PluginRefused)
    assert "'runTool'" in error.what
    assert "'gate'" in error.where


def test_the_capabilities_are_those_that_the_protocol_serves() -> None:
    assert {each.value for each in ALL_CAPABILITIES} == set(CAPABILITIES)


def test_a_component_type_of_agent_spec_is_refused(tmp_path: Path) -> None:
    source = manifest(tmp_path, "gate", "Agent")

    assert isinstance(refused([source], builtin_types={"Agent"}), ManifestError)


# --- Python modules -----------------------------------------------------------------------


def test_a_python_file_becomes_part_of_heddle(tmp_path: Path) -> None:
    loaded = load_plugins([module(tmp_path)])

    assert chain(loaded) == ["Audit"]
    assert isinstance(loaded.plugins[0].home, InProcess)


def test_a_module_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "our_policies"
    package.mkdir()
    (package / "__init__.py").write_text("")
    module(package)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert chain(load_plugins(["our_policies.audit"])) == ["Audit"]


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one = module(tmp_path / "a")
    two = module(tmp_path / "b", MODULE.replace("Audit", "Other").replace("audit", "other"))

    assert chain(load_plugins([one, two])) == ["Audit", "Other"]


def test_a_file_may_import_what_lies_beside_it_but_take_no_name_from_heddle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_audit.py").write_text("NAME = 'Audit'")
    (tmp_path / "json.py").write_text("1 / 0")
    text = MODULE.replace('"Audit"', "NAME")

    loaded = load_plugins([module(tmp_path, f"from beside_the_audit import NAME{text}")])

    assert chain(loaded) == ["Audit"]
    assert sys.path[-1] == str(tmp_path.resolve())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'manifest' is missing, and should be a dict"),
        ("manifest = {}", "'handlers' is missing, and should be a dict"),
        ("manifest = []; handlers = {}", "'manifest' is list, and should be a dict"),
        ("manifest = {}; handlers = {}", "3 things are wrong"),
        (MODULE.replace('{"after"', '{"befor"'), "Audit has no handler for node.after"),
        (
            MODULE + "\nhandlers = {'Audit': type('A', (), {'__init__': None})}",
            "cannot be made",
        ),
        ("def (", "it is not valid Python"),
        ("1 / 0", ".py:1: it cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(3)", "it cannot be imported: SystemExit: 3"),
        ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
        ("from heddle.plugin import serve\nserve({})", "__name__ == '__main__'"),
        ("from heddle.plugin import serve\nserve({})", "audit.py:2: it cannot be imported"),
    ],
)
def test_a_module_that_is_no_plugin_is_refused_saying_why(
    tmp_path: Path, text: str, says: str
) -> None:
    assert says in str(refused([module(tmp_path, text)]))


def test_an_error_of_a_module_names_its_line(tmp_path: Path) -> None:
    error = refused([module(tmp_path, "x = 1\n\n1 / 0\n")])

    assert isinstance(error, ModuleUnusable)
    assert error.where == f"{tmp_path}/audit.py:3"


def test_ctrl_c_while_a_module_is_imported_is_not_the_modules_fault(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_plugins([module(tmp_path, "raise KeyboardInterrupt")])


def test_a_module_without_a_file_is_in_the_folder_at_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = ModuleType("made_of_nothing")
    exec(MODULE, made.__dict__)
    monkeypatch.setitem(sys.modules, "made_of_nothing", made)

    assert chain(load_plugins(["made_of_nothing"])) == ["Audit"]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{folder}", "this is a folder. Name the manifest in it."),
        ("{folder}/gate.mjs", "a program is installed by its manifest"),
        ("{folder}/gate", "there is no such file"),
        ("{folder}/gate.jsn", "Did you mean '{folder}/gate.json'?"),
        ("{folder}/lone.sh", "neither a manifest (.json) nor a Python module"),
        ("{folder}/none.py", "there is no such file"),
        ("{folder}/none.json", "No such file"),
        ("nowhere_at_all", "there is no module 'nowhere_at_all'"),
        ("", "this is"),
    ],
)
def test_what_is_no_plugin_is_refused_with_what_to_write(
    tmp_path: Path, source: str, says: str
) -> None:
    manifest(tmp_path, "gate", "Gate")
    (tmp_path / "gate.py").unlink()
    (tmp_path / "gate.mjs").write_text("")
    (tmp_path / "lone.sh").write_text("")

    error = refused([source.format(folder=tmp_path)])

    assert says.format(folder=tmp_path) in str(error)
