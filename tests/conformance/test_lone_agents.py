"""An agent as a whole document: why it was refused reaches whoever asked for it.

By the command line, in the answer over HTTP and in the stream, the reason is there in the
words of the transform or of the policy that gave it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.heddle.server.serving import Served, server, sse
from tests.support.flows import component, prop

Plain = dict[str, Any]

MANIFEST: Final = {
    "name": "guards",
    "version": "1.0.0",
    "components": [
        {"componentType": "Privacy", "kind": "transform", "phase": "pre"},
        {
            "componentType": "Budget",
            "kind": "middleware",
            "seams": {"modelCall": ["before"], "agentRound": ["before"]},
        },
    ],
}

PROGRAM: Final = """
from heddle.plugin import proceed, reject, serve

def apply(messages, ctx):
    if any("password" in each["content"] for each in messages):
        return {"action": "reject", "reason": "there is a password in it"}
    return {"action": "pass"}

def spend(event, ctx):
    costly = "costly" in str(event.input)
    return reject("nothing is left for models") if costly else proceed()

def begin(event, ctx):
    tired = event.subject.node_name == "tired"
    return reject("it has worked enough") if tired else proceed()

serve({
    "Privacy": {"apply": apply},
    "Budget": {"modelCall": {"before": spend}, "agentRound": {"before": begin}},
})
"""


def lone(name: str, **fields: Any) -> Plain:
    """An agent that answers in one word."""
    return {
        "agentspec_version": "26.1.2",
        **component(
            "Agent",
            name,
            system_prompt="Help with {{topic}}.",
            inputs=[prop("topic")],
            llm_config=component(
                "OpenAiCompatibleConfig",
                "model",
                model_id="m",
                url="scripted:",
                metadata={"script": [{"content": "Fine."}]},
            ),
            transforms=[component("Privacy", "privacy")],
            **fields,
        ),
    }


# The agent, what it is asked, and the words of the one who refused it.
REFUSED: Final[dict[str, tuple[Plain, str, str]]] = {
    "a transform, of an agent with outputs": (
        lone("helper", outputs=[prop("answer")]),
        "my password",
        "transform 'privacy' rejected (pre) and ended its agent: there is a password in it",
    ),
    "a policy at a model call": (
        lone("helper"),
        "costly things",
        "does not let this model call be made (modelCall.before): nothing is left for "
        "models. The flow is not at fault",
    ),
    "a policy at a round": (
        lone("tired"),
        "tea",
        "does not let round 1 begin (agentRound.before): it has worked enough",
    ),
}

REJECTED: Final = {
    "transform_status": "rejected",
    "transform_reason": "there is a password in it",
    "transform_name": "privacy",
    "transform_phase": "pre",
}


@pytest.fixture(scope="module")
def guards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest of the plugin."""
    folder = tmp_path_factory.mktemp("guards")
    (folder / "guards.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "guards.json").write_text(json.dumps(MANIFEST), encoding="utf-8")
    return folder / "guards.json"


@pytest.fixture(scope="module")
def served(guards: Path) -> Iterator[Served]:
    """One server for all."""
    with server(guards.parent, "--plugin", str(guards)) as running:
        yield running


def ran(
    document: Plain, topic: str, guards: Path, folder: Path
) -> "subprocess.CompletedProcess[str]":
    """A run of it by the command line."""
    (folder / "agent.json").write_text(json.dumps(document), encoding="utf-8")
    return subprocess.run(
        [
            *(sys.executable, "-m", "heddle", "run", folder / "agent.json"),
            *("--plugin", guards, "--input", json.dumps({"topic": topic})),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def body(document: Plain, topic: str) -> Plain:
    """What is posted to run it."""
    return {"flow": document, "inputs": {"topic": topic}}


@pytest.mark.parametrize("who", REFUSED)
def test_the_reason_reaches_the_command_line(
    who: str, guards: Path, tmp_path: Path
) -> None:
    document, topic, words = REFUSED[who]
    done = ran(document, topic, guards, tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert words in done.stderr
    assert done.stderr.count("Error: ") == 1


@pytest.mark.parametrize("who", REFUSED)
def test_the_reason_reaches_the_caller_over_http(who: str, served: Served) -> None:
    document, topic, words = REFUSED[who]
    answered = served.ask("POST", "/v1/runs", body(document, topic))
    assert answered.status == 500
    assert words in answered.error[1]
    streamed = served.ask("POST", "/v1/runs?stream=true", body(document, topic))
    last = json.loads(sse(streamed.body)[-1]["data"])
    assert last["type"] == "error"
    assert words in last["error"]["message"]


def test_a_rejection_is_the_result_of_an_agent_without_outputs(
    guards: Path, served: Served, tmp_path: Path
) -> None:
    asked = (lone("helper"), "my password")
    wanted = {"topic": "my password", **REJECTED}
    done = ran(*asked, guards, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == wanted
    answered = served.ask("POST", "/v1/runs", body(*asked))
    assert (answered.status, answered.json["state"]) == (200, wanted)


def test_an_agent_that_nobody_refuses_answers(served: Served) -> None:
    answered = served.ask("POST", "/v1/runs", body(lone("helper"), "tea"))
    assert answered.json["state"]["result"] == "Fine."
