"""docs/plugins: the examples on the pages of kinds run, the same in both languages."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio

from heddle import launch, preparing
from heddle.cli.plugin_new import KINDS
from heddle.engine.faults import NodeFailed
from heddle.engine.testing import FakeModels
from heddle.events import PluginLogged, TokenDelta
from heddle.installation import install, open_plugins
from plugins_host import encode_all
from plugins_host.checking.check import Finding, Outcome, check_plugin
from plugins_host.loading.load import load_plugins
from tests.heddle.cli.conftest import document, tool_node
from tests.heddle.kinds_support import needs_node, one, opened
from tests.support.flows import agent, llm

PAGES = Path(__file__).parents[2] / "docs" / "plugins"
LANGUAGES = ["python", pytest.param("js", marks=needs_node)]
SUFFIXES = {"python": "py", "js": "mjs"}


def placed(page: str, language: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """The example of a page in a folder: what to load, and its component in a flow."""
    text = (PAGES / page).read_text(encoding="utf-8")
    manifest, *others = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    component = others[0] if others else "{}"
    (program,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    name = json.loads(manifest)["name"]
    assert f"`{name}.json`" in text
    assert f"`{name}.{SUFFIXES[language]}`" in text
    (folder / f"{name}.json").write_text(manifest, encoding="utf-8")
    (folder / f"{name}.{SUFFIXES[language]}").write_text(program, encoding="utf-8")
    read: dict[str, Any] = json.loads(component)
    return str(folder / f"{name}.json"), read


async def has_no_faults(plugin: str) -> None:
    found: list[Finding] = []
    assert await check_plugin(load_plugins([plugin]), found.append)
    assert {each.outcome for each in found} == {Outcome.OK}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_node_routes_by_its_words(language: str, tmp_path: Path) -> None:
    plugin, node = placed("nodes.md", language, tmp_path)
    node["id"] = node["name"]
    async with opened(plugin) as bench:
        written = one(node, "found", "none")
        result, events = await bench.run(written, {"text": "an invoice, please"})
        assert result["word"] == "invoice"
        assert [e.message for e in events if isinstance(e, PluginLogged)] == [
            "found invoice"
        ]
        result, _ = await bench.run(written, {"text": "hello"})
        assert result["word"] == ""
    await has_no_faults(plugin)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_transform_strikes_out_and_refuses(language: str, tmp_path: Path) -> None:
    plugin, transform = placed("transforms.md", language, tmp_path)
    node = agent("a")
    node["agent"]["transforms"] = [transform]
    models = FakeModels(["fine"])
    async with opened(plugin) as bench:
        await bench.run(one(node), {"card": "5500 12345678"}, models=models)
        assert models.requests[0].messages[0].content == '{"card":"#### ####"}'
        result, _ = await bench.run(one(node), {"my": "password"}, models=models)
        assert result["transform_reason"] == "there is a password in it"
    await has_no_faults(plugin)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_provider_says_it_backwards(language: str, tmp_path: Path) -> None:
    plugin, config = placed("providers.md", language, tmp_path)
    asking = one(llm("ask", "one two {{three}}", llm_config=config))
    async with opened(plugin) as bench:
        result, events = await bench.run(asking, {"three": "3"}, stream=True)
        assert result["generated_text"] == "3 two one"
        assert [e.delta for e in events if isinstance(e, TokenDelta)] == [
            "3 ",
            "two ",
            "one",
        ]
        with pytest.raises(NodeFailed, match="ProviderError: 429: too many words"):
            await bench.run(asking, {"three": "3 4 5 6"})
    await has_no_faults(plugin)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_component_is_read_by_its_node(language: str, tmp_path: Path) -> None:
    plugin, node = placed("components.md", language, tmp_path)
    node["id"] = node["name"]
    async with opened(plugin) as bench:
        result, _ = await bench.run(one(node), {"name": "Ada"})
        assert result["text"] == "Good morning, Ada"
    await has_no_faults(plugin)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_encoder_shows_text_and_the_end(language: str, tmp_path: Path) -> None:
    plugin, _ = placed("encoders.md", language, tmp_path)
    said: list[Any] = []

    async def sink(frames: Any) -> None:
        await trio.lowlevel.checkpoint()
        said.extend((each.event, json.loads(bytes(each.data))) for each in frames)

    events = [
        b'{"type":"flow_start"}',
        b'{"type":"token_delta","nodeName":"ask","delta":"Hi"}',
        b'{"type":"flow_complete","state":{}}',
    ]
    batches = [events]

    async def source() -> Any:
        await trio.lowlevel.checkpoint()
        return batches.pop() if batches else ()

    async with (
        open_plugins(install([plugin]), log=print, patience=30) as plugins,
        plugins.encoders["livetext"].encoding("run") as encoding,
    ):
        await encode_all(encoding, source, sink)
    assert said == [("text", "Hi"), ("end", {"by": "flow_complete"})]
    await has_no_faults(plugin)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_tools_count_and_list(language: str, tmp_path: Path) -> None:
    text = (PAGES / "tools.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```sh\n(#!.*?)```", text, re.DOTALL)
    (tmp_path / "list-files").write_text(script, encoding="utf-8")
    (tmp_path / "list-files").chmod(0o755)
    (tmp_path / "stop-words.txt").write_text("the", encoding="utf-8")
    plugin, counts = placed("tools.md", language, tmp_path)
    nodes = [tool_node(counts["name"]), tool_node("list_files")]
    prepared = preparing.prepare(json.dumps(document(*nodes)).encode(), name="flow.json")
    options = launch.RunOptions(inputs={"text": "three short words"}, plugins=(plugin,))

    state = await launch.run(prepared, options, lambda _: None)

    assert (state["words"], state["files"]) == (3, "stop.txt")
    await has_no_faults(plugin)


def test_the_format_is_the_example_that_ships(tmp_path: Path) -> None:
    text = (PAGES / "formats.md").read_text(encoding="utf-8")
    (module,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "toml_format.py").write_text(module, encoding="utf-8")
    flow = PAGES.parents[1] / "examples" / "plugins" / "toml-format" / "greeting.toml"

    installed = install([str(tmp_path / "toml_format.py")])

    assert preparing.load(str(flow), installed=installed).plan.graph.name == "greeting"


def test_every_kind_has_a_page() -> None:
    pages = {f"{kind}s.md" for kind in KINDS if kind not in ("middleware", "tools")}

    there = {each.name for each in PAGES.iterdir()}
    assert {*pages, "middleware.md", "tools.md", "formats.md"} <= there
