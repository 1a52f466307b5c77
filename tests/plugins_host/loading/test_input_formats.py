"""Formats that a module declares: read, or refused with what to write."""

from pathlib import Path
from typing import Any

import pytest

from plugins_host import Fault, load_plugins
from plugins_host.loading.input_formats import FormatInvalid, read_formats


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "'formats' is list"),
        ({1: {}}, "1 is not the name of a format"),
        ({"TOML": {}}, "'TOML' is not the name"),
        ({"toml": len}, "format 'toml' is builtin_function_or_method"),
        ({"toml": {}}, "no function 'read'"),
        ({"toml": {"read": 1}}, "no function 'read'"),
        ({"toml": {"read": len, "extension": ".x"}}, "'extension', which says nothing"),
        ({"toml": {"read": len, "extensions": ".x"}}, "are no list"),
        ({"toml": {"read": len, "extensions": ["toml"]}}, "'toml' is not an extension"),
        ({"toml": {"read": len, "extensions": [1]}}, "1 is not an extension"),
    ],
)
def test_a_wrong_declaration_is_refused_with_an_example(raw: Any, said: str) -> None:
    with pytest.raises(FormatInvalid) as caught:
        read_formats(raw, where="my.py")

    assert said in caught.value.what
    assert "Declare formats = {'toml'" in caught.value.fix


def module(folder: Path, name: str, formats: str) -> str:
    file = folder / f"{name}.py"
    file.write_text(
        f"manifest = {{'name': '{name}', 'version': '1'}}\n"
        f"handlers = {{}}\nformats = {formats}\n"
    )
    return str(file)


def test_a_module_may_provide_nothing_but_a_format(tmp_path: Path) -> None:
    source = module(tmp_path, "a", "{'x': {'extensions': ['.x'], 'read': eval}}")

    (plugin,) = load_plugins((source,)).plugins

    assert [(each.name, each.extensions) for each in plugin.formats] == [("x", (".x",))]
    with pytest.raises(Fault, match="provides nothing"):
        load_plugins((module(tmp_path, "b", "{}"),))


def test_two_plugins_with_one_format_are_refused(tmp_path: Path) -> None:
    sources = [module(tmp_path, name, "{'x': {'read': eval}}") for name in "ab"]

    with pytest.raises(Fault, match=r"the format 'x' is also provided by .*a\.py"):
        load_plugins(sources)
