"""docs/plugins/middleware.md: every policy on it runs, and both languages say the same."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from plugins_host.loading.entry_point import RUNTIME
from plugins_host.manifests.reading import (
    check_manifest,
)
from plugins_host.seams import SEAMS, Half, Seam
from plugins_host.verdicts import read_verdict
from tests.plugins_host.driver import Driver, question

PAGE = (Path(__file__).parents[2] / "docs" / "plugins" / "middleware.md").read_text()
FENCES = re.findall(r"```(js|python|json)\n(.*?)```", PAGE, re.DOTALL)
NODE = shutil.which("node")

Case = tuple[str, str, dict[str, Any], dict[str, Any]]


def failed(message: str) -> dict[str, Any]:
    return {"outcome": {"ok": False, "error": {"name": "Error", "message": message}}}


def ran(value: Any) -> dict[str, Any]:
    return {"outcome": {"ok": True, "value": value}}


PASS = {"action": "pass"}
PROCEED = {"action": "proceed"}
OTHER_TOOL = {"subject": {"nodeName": "a", "nodeType": "b", "toolName": "search"}}
OMITTED = {"action": "replace", "value": {"note": "result too large, omitted"}}
DRY = {"component": {"dryRun": ["AgentNode"], "stub": {"x": 1}}}

# Component type: the questions put to it, and what it says.
CASES: dict[str, list[Case]] = {
    "RetryPolicy": [
        ("nodeError", "after", failed("timed out"), {"action": "retry", "delayMs": 500}),
        (
            "nodeError",
            "after",
            {**failed("429"), "attempt": 2},
            {"action": "retry", "delayMs": 1000},
        ),
        ("nodeError", "after", {**failed("429"), "attempt": 3}, PASS),
        (
            "nodeError",
            "after",
            {**failed("429"), "attempt": 3, "component": {"maxAttempts": 5}},
            {"action": "retry", "delayMs": 1500},
        ),
        ("nodeError", "after", failed("no such key"), PASS),
    ],
    "ApprovalGate": [
        ("toolCall", "before", {"input": {"cmd": "ls"}}, PROCEED),
        (
            "toolCall",
            "before",
            {"input": {"cmd": "sudo ls"}},
            {"action": "reject", "reason": "destructive command"},
        ),
        ("toolCall", "before", {"input": {"cmd": "sudo"}, **OTHER_TOOL}, PROCEED),
    ],
    "Auditor": [
        ("toolCall", "after", {"input": {}, **ran({"text": "x" * 10_000})}, OMITTED),
        ("toolCall", "after", {"input": {}, **ran({"text": "short"})}, PASS),
        ("toolCall", "after", {"input": {}, **failed("x" * 10_001)}, PASS),
    ],
    "RateLimitPolicy": [
        ("modelCall", "after", failed("429"), {"action": "retry", "delayMs": 1000}),
        ("modelCall", "after", failed("bad request"), PASS),
        ("modelCall", "after", ran({"content": "429", "finish_reason": "stop"}), PASS),
    ],
    "NodeAudit": [
        ("node", "before", {"input": {}}, PROCEED),
        ("node", "before", {"input": {}, **DRY}, {"action": "replace", "value": {"x": 1}}),
        ("node", "after", ran({}), PASS),
    ],
    "RoundBudget": [
        ("agentRound", "before", {"input": {"round": 3, "maxRounds": 10}}, PROCEED),
        (
            "agentRound",
            "before",
            {"input": {"round": 4, "maxRounds": 10}},
            {"action": "reject", "reason": "3 rounds is the budget"},
        ),
        (
            "agentRound",
            "before",
            {"input": {"round": 2, "maxRounds": 1}, "component": {"maxRounds": 5}},
            {"action": "reject", "reason": "1 rounds is the budget"},
        ),
        ("agentRound", "after", ran({"round": 1, "toolCalls": ["a"]}), PASS),
    ],
}
EVENTS = {
    "NodeAudit": {"name": "node", "data": {"node": "ask", "ok": True}},
    "RoundBudget": {"name": "round", "data": {"round": 1, "toolCalls": ["a"]}},
}


def snippet(language: str, component_type: str) -> str:
    """The policy of this name in this language."""
    (found,) = (
        text for fence, text in FENCES if fence == language and component_type in text
    )
    return found


def test_the_page_has_each_policy_in_both_languages() -> None:
    fences = [fence for fence, _ in FENCES]

    assert fences.count("js") == fences.count("python") == len(CASES)


def test_the_manifest_on_the_page_is_one() -> None:
    ((_, text),) = [each for each in FENCES if each[0] == "json"]

    manifest = check_manifest(json.loads(text), file="page", folder=Path("/"))

    assert manifest.warnings == ()


@pytest.mark.parametrize("component_type", CASES)
@pytest.mark.parametrize(
    "language",
    [
        "python",
        pytest.param(
            "js", marks=pytest.mark.skipif(NODE is None, reason="there is no node on PATH")
        ),
    ],
)
def test_a_policy_of_the_page_runs_as_it_stands(
    tmp_path: Path, language: str, component_type: str
) -> None:
    suffix, argv = {
        "python": (".py", [sys.executable]),
        "js": (".mjs", [str(NODE), "--import", RUNTIME.as_uri()]),
    }[language]
    program = tmp_path / f"policy{suffix}"
    program.write_text(snippet(language, component_type))

    with Driver([*argv, str(program)], tmp_path) as plugin:
        plugin.greet()
        for seam, half, keys, wanted in CASES[component_type]:
            call = plugin.start(half, question(component_type, seam, **keys))
            frame = plugin.receive()
            if "method" in frame:
                said = {key: frame["params"][key] for key in ("name", "data")}
                assert (frame["method"], said) == ("emitEvent", EVENTS[component_type])
                frame = plugin.receive()

            assert frame == {"id": call, "result": wanted}
            read_verdict(frame["result"], Seam(seam), Half(half), where="")


def test_every_seam_is_on_the_page() -> None:
    asked = {seam for cases in CASES.values() for seam, *_ in cases}

    assert asked == {seam.value for seam in SEAMS}
