"""Plugins that come with a request: checked before anything runs, on every server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from heddle.server.code import MAX_MANIFEST, MAX_PLUGINS, MAX_SOURCE
from tests.heddle.server.serving import STRAIGHT, Served, server

NODE = {"componentType": "Shout", "kind": "node"}
MANIFEST = {"name": "shouter", "version": "1", "components": [NODE]}
PLUGIN = {"name": "p", "manifest": MANIFEST, "source": "serve({})"}
GATE = {
    "name": "gate",
    "version": "1",
    "components": [
        {"componentType": "Gate", "kind": "middleware", "seams": {"node": ["before"]}},
        {"componentType": "Whisper", "kind": "node"},
    ],
}
GATE_SOURCE = """
from heddle.plugin import proceed, serve

serve({
    "Gate": {"node": {"before": lambda event, ctx: proceed()}},
    "Whisper": {"execute": lambda input, ctx: {"output": {}}},
})
"""


@pytest.fixture(scope="module", params=["open", "closed"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "gate.json").write_text(json.dumps(GATE))
    (folder / "gate.py").write_text(GATE_SOURCE)
    flags = ["--allow-request-code"] if request.param == "open" else []
    with server(folder, "--plugin", "gate.json", *flags) as found:
        yield found


def with_manifest(**changes: Any) -> list[dict[str, Any]]:
    return [{**PLUGIN, "manifest": {**MANIFEST, **changes}}]


def ask(served: Served, plugins: Any, path: str = "/v1/runs") -> tuple[int, str, str]:
    done = served.ask("POST", path, {"flow": STRAIGHT, "plugins": plugins})
    if done.status == 200:
        return 200, "", ""
    return done.status, *done.error


MIDDLEWARE = {"componentType": "M", "kind": "middleware", "seams": {"node": ["before"]}}


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/runs?detach=true", "/v1/validate"])
@pytest.mark.parametrize(
    "component",
    [
        MIDDLEWARE,
        {"componentType": "M", "kind": "store"},
        {"componentType": "M", "seams": {"node": ["before"]}},
        {"componentType": "M", "kind": "node", "seams": []},
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_middleware_is_installed_by_whoever_runs_the_server(
    served: Served, path: str, component: Any, *, as_text: bool
) -> None:
    """With and without the flag."""
    manifest: Any = {**MANIFEST, "components": [NODE, component]}
    given = json.dumps(manifest) if as_text else manifest
    status, kind, words = ask(served, [{**PLUGIN, "manifest": given}], path)
    assert (status, kind) == (400, "SubmissionRefused")
    assert "installed by whoever runs the server" in words


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        (with_manifest(command=["sh"]), "what program to run"),
        (with_manifest(files=[{"path": "x", "dest": "y"}]), "brings files"),
        (with_manifest(discoverTools=True), "finds its tools when it runs"),
        (with_manifest(tools=[{"name": "t", "path": "t.sh"}]), "a file of its own"),
        (
            with_manifest(
                components=[
                    {"componentType": "E", "kind": "encoder", "protocol": "e"},
                ]
            ),
            "declares an encoder",
        ),
        (
            with_manifest(components=[{"componentType": "StartNode"}]),
            "Agent Spec ships",
        ),
        (
            with_manifest(components=[{"componentType": "Whisper"}]),
            "'Whisper' is installed here already",
        ),
        (
            with_manifest(components=[{"componentType": "Gate"}]),
            "'Gate' is installed here already",
        ),
        (with_manifest(name="gate"), "'gate' is installed here"),
        (with_manifest(version=3), "version"),
        (with_manifest(capabilities=["root"]), "root"),
        (with_manifest(components=[{**NODE, "schema": {"type": 3}}]), "schema"),
        (
            with_manifest(components=[{**NODE, "schema": {"pattern": "(?=x)"}}]),
            "bounded time",
        ),
        (
            with_manifest(components=[{**NODE, "schema": {"enum": ["x" * MAX_MANIFEST]}}]),
            "longer than",
        ),
        (
            [PLUGIN, {**PLUGIN, "name": "q"}],
            "is called 'shouter' as well",
        ),
        (
            [
                PLUGIN,
                {**PLUGIN, "name": "q", "manifest": {**MANIFEST, "name": "other"}},
            ],
            "'Shout' is also provided",
        ),
        ([PLUGIN, PLUGIN], "two of the name 'p'"),
        ([{**PLUGIN, "name": f"p{n}"} for n in range(MAX_PLUGINS + 1)], "is the most"),
        ([{**PLUGIN, "source": "x" * (MAX_SOURCE + 1)}], "is the most"),
        ([{**PLUGIN, "source": ""}], "is empty"),
        ([{**PLUGIN, "language": "rb"}], "js, py"),
        ([{**PLUGIN, "manifest": 3}], "it is a number"),
        ([{**PLUGIN, "manifest": "{"}], "not JSON"),
        ([{**PLUGIN, "manifest": None}], "null"),
        ([{"name": "p", "source": "x"}], "manifest"),
        ([{**PLUGIN, "env": {}}], "env"),
        ([{**PLUGIN, "name": "../p"}], "no name"),
        ({}, "no array"),
        ([3], "plugins[0]"),
    ],
)
def test_a_plugin_that_can_t_be_used_is_a_400(
    served: Served, plugins: Any, words: str
) -> None:
    code = served.ask("GET", "/v1/capabilities").json["allowRequestCode"]
    status, kind, told = ask(served, plugins)
    assert status == 400
    assert kind != "internal_error"
    if code:
        assert words in told
    else:
        assert "no code that comes with a request" in told or "no array" in told
    assert (status, told) == (ask(served, plugins, "/v1/validate")[0], told)


def test_a_plugin_that_nobody_names_starts_nothing(served: Served) -> None:
    code = served.ask("GET", "/v1/capabilities").json["allowRequestCode"]
    broken = [{**PLUGIN, "source": "this is no program"}]
    assert ask(served, broken)[0] == (200 if code else 400)
    assert ask(served, broken, "/v1/validate")[0] == (200 if code else 400)
