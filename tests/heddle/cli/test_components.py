"""``--components``: a flow whose models and values are kept in other files."""

import json
from pathlib import Path
from typing import Any

import pytest

from heddle.launch import prepare
from heddle.spec import DocumentError, Supplied, read_supplied
from tests.heddle.cli.conftest import Heddle
from tests.support.flows import component, document, end, flow, llm, ref, start

FLOW = document(
    flow(
        [start(), llm("ask", "hi", llm_config=ref("model")), end()],
        ["start", "ask", "end"],
    )
)
MODEL = component(
    "OpenAiCompatibleConfig",
    "model",
    model_id="m",
    url=ref("model.url"),
    metadata={"script": [{"content": "hello from afar"}]},
)


def holding(**definitions: Any) -> bytes:
    return json.dumps({"$referenced_components": definitions}).encode()


def supplied(*contents: bytes) -> Supplied:
    return read_supplied((f"{n}.json", data) for n, data in enumerate(contents))


def test_a_flow_runs_with_components_and_values_of_other_files(
    heddle: Heddle, tmp_path: Path
) -> None:
    (tmp_path / "flow.json").write_bytes(FLOW)
    (tmp_path / "model.json").write_bytes(holding(model=MODEL))
    (tmp_path / "here.yaml").write_text(
        "$referenced_components:\n  model.url: 'scripted:'\n"
    )
    from_elsewhere = ("--components", "model.json", "--components", "here.yaml")
    done = heddle("run", "flow.json", *from_elsewhere)
    assert (done.status, json.loads(done.stdout)["generated_text"]) == (
        0,
        "hello from afar",
    )
    assert heddle("validate", "flow.json", *from_elsewhere).status == 0
    without = heddle("validate", "flow.json", *from_elsewhere[:2])
    assert without.status == 1
    assert "model.url" in without.stdout + without.stderr


def test_a_reference_that_no_file_defines_is_told_with_its_path() -> None:
    with pytest.raises(DocumentError) as raised:
        prepare(FLOW, name="flow.json", supplied=supplied(holding(other=MODEL)))
    assert "ask.llm_config.$component_ref: 'model' is not defined" in str(raised.value)


def test_plans_are_not_taken_for_those_with_other_components() -> None:
    def url_of(address: str) -> Any:
        there = supplied(holding(model=MODEL), holding(**{"model.url": address}))
        prepared = prepare(FLOW, name="flow.json", supplied=there)
        (node,) = (each for each in prepared.plan.graph.nodes if each.name == "ask")
        return node.component.llm_config.url  # type: ignore[attr-defined]

    assert [url_of("http://a"), url_of("http://b")] == ["http://a", "http://b"]


def test_what_the_document_defines_itself_is_what_counts() -> None:
    own = {**MODEL, "url": "http://own"}
    data = document(
        flow([start(), llm("ask", "hi"), end()], ["start", "ask", "end"], shared=[own])
    )
    other = supplied(holding(model={**MODEL, "url": "http://other"}))
    prepared = prepare(data, name="flow.json", supplied=other)
    nodes = {each.name: each.component for each in prepared.plan.graph.nodes}
    assert nodes["ask"].llm_config.url == "http://own"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("contents", "what"),
    [
        ([b"{}"], "'$referenced_components' is missing"),
        ([b'{"$referenced_components": []}'], "this maps ids to components"),
        ([FLOW], "nothing but '$referenced_components'"),
        ([holding(a=1), holding(a=2)], "the id 'a' is also defined in 0.json"),
        ([b"{broken"], "malformed JSON"),
    ],
)
def test_a_file_of_something_else_is_refused(contents: list[bytes], what: str) -> None:
    with pytest.raises(DocumentError) as raised:
        supplied(*contents)
    assert what in str(raised.value)
