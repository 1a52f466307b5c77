"""The scripted provider: both languages give the same, whole and streamed."""

import json
from pathlib import Path
from typing import Any

import pytest

from heddle.engine.faults import NodeFailed
from heddle.events import TokenDelta
from tests.examples.readme import blocks, run, settled
from tests.heddle.kinds_support import NODE, needs_node, one, opened
from tests.support.flows import component, llm

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "scripted-provider"
MANIFESTS = [
    "scripted_provider.json",
    pytest.param("scripted-provider.json", marks=needs_node),
]


def asking(script: list[Any]) -> bytes:
    model = component("ScriptedLlm", "m", script=script)
    return one(llm("ask", "how warm is it", llm_config=model))


@pytest.mark.skipif(NODE is None, reason="there is no node on PATH")
def test_the_commands_print_what_the_readme_says(tmp_path: Path) -> None:
    commands = blocks((EXAMPLE / "README.md").read_text(encoding="utf-8"))
    assert len(commands) == 2
    for block in commands:
        printed = run(block.command, EXAMPLE, tmp_path)
        assert settled(printed) == settled(block.printed)


@pytest.mark.parametrize("manifest", MANIFESTS)
async def test_an_answer_is_the_same_in_pieces(manifest: str) -> None:
    async with opened(str(EXAMPLE / manifest)) as bench:
        written = asking(["You asked  {{asked}}? "])
        whole, _ = await bench.run(written)
        streamed, events = await bench.run(written, stream=True)
        assert whole == streamed == {"generated_text": "You asked  how warm is it? "}
        deltas = [each.delta for each in events if isinstance(each, TokenDelta)]
        assert deltas == ["You ", "asked ", " ", "how ", "warm ", "is ", "it? "]
        with pytest.raises(NodeFailed, match="ProviderError: 429: slow down"):
            await bench.run(asking([{"fail": "slow down", "status": 429}]))


@pytest.mark.skipif(NODE is None, reason="there is no node on PATH")
def test_both_manifests_declare_the_same() -> None:
    first, second = (
        json.loads((EXAMPLE / name).read_text(encoding="utf-8"))
        for name in ("scripted_provider.json", "scripted-provider.json")
    )
    assert first["components"] == second["components"]
