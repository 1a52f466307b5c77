"""Nodes, providers and transforms of plugins on a server, in submitted flows."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.heddle.kinds_support import source
from tests.heddle.server.serving import server, sse
from tests.support.flows import agent, component, end, flow, llm, model, ref, start


def written(*nodes: Any, shared: Any = ()) -> Any:
    names = ["start", *(each["name"] for each in nodes), "end"]
    return {"flow": flow([start(), *nodes, end()], names, shared=list(shared))}


def test_submitted_flows_use_what_plugins_provide(tmp_path: Path) -> None:
    provider = component(
        "Scripted",
        "model",
        pieces=[{"content": "hel"}],
        last={"content": "lo"},
        whole={"content": "HELLO", "finish_reason": "stop"},
    )
    say = component("Say", "n", answer={"output": {"said": 1}})
    asks = written(say, llm("ask", "hi"), shared=[provider])
    with server(tmp_path, "--plugin", source("python", tmp_path)) as served:
        shown = served.ask("GET", "/v1/capabilities").json["components"]
        assert shown["node"] == ["Busy", "Choose", "Say", "Stuck"]
        assert shown["component"] == ["Knob"]
        with ThreadPoolExecutor(8) as pool:
            answers = list(
                pool.map(lambda _: served.ask("POST", "/v1/runs", asks), range(16))
            )
        assert {each.status for each in answers} == {200}, answers[0].body
        assert answers[0].json["state"] == {"said": 1, "generated_text": "HELLO"}

        streamed = served.ask("POST", "/v1/runs?stream=true", asks).body
        told = [json.loads(each["data"]) for each in sse(streamed)]
        deltas = [each["delta"] for each in told if each["type"] == "token_delta"]
        assert deltas == ["hel", "lo"]

        # Wherever a flow names a model of its own, it reaches no private address.
        near = {**model("http://127.0.0.1:9/v1"), "id": "m"}
        knob = component("Knob", "k", level=1, a=ref("m"))
        asking = agent("a", llm_config=provider)
        asking["agent"]["transforms"] = [
            component("MessageSummarizationTransform", "t", llm=ref("m"))
        ]
        for inside in (
            component("Say", "n", answer={}, llm_config=ref("m")),
            component("Say", "n", answer={}, knob=knob),
            asking,
        ):
            refused = served.ask("POST", "/v1/runs", written(inside, shared=[near]))
            assert refused.status == 400
            assert "127.0.0.1" in refused.error[1]
