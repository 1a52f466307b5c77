"""``--components``: a flow whose models and values are kept in other files."""

import json
from pathlib import Path
from typing import Any

import pytest

from heddle.cli.reading.problems import Texts, check, locate
from heddle.installation import NOTHING
from heddle.preparing import prepare, supply
from heddle.spec import FORMATS, DocumentError, Supplied, read_supplied
from tests.heddle.cli.conftest import Heddle
from tests.support.flows import (
    component,
    document,
    end,
    flow,
    llm,
    ref,
    server_tool,
    start,
)

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

TOOL = server_tool("look")
OTHER = {**TOOL, "id": "another"}


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


def test_a_problem_in_a_file_of_components_names_the_file_and_quotes_it(
    heddle: Heddle, tmp_path: Path
) -> None:
    (tmp_path / "flow.json").write_bytes(FLOW)
    (tmp_path / "model.yaml").write_text(
        "$referenced_components:\n"
        "  model:\n"
        "    component_type: OpenAiCompatibleConfig\n"
        "    name: model\n"
        "    model_id: [m]\n"
        "    url: 'scripted:'\n"
        "    extra: 1\n"
    )
    done = heddle("validate", "flow.json", "--components", "model.yaml")
    assert done.status == 1
    assert done.stderr == (
        "x model.yaml $.$referenced_components.model.model_id: this is a list where text "
        "belongs\n"
        "   --> model.yaml:5:5\n"
        "  5 |     model_id: [m]\n"
        "    |     ^^^^^^^^\n"
        "flow.json: 1 problem\n"
    )


def test_programs_are_told_the_file_and_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flow.json").write_bytes(FLOW)
    Path("model.yaml").write_text(
        "$referenced_components:\n"
        "  model: {component_type: OllamaConfig, name: m, url: 'http://a',\n"
        "    model_id: [m]}\n"
    )
    there = supply(["model.yaml"])
    report = check("flow.json", None, NOTHING, supplied=there)
    locate(report, Texts("flow.json", None, FORMATS))
    [problem] = report["problems"]
    assert problem["file"] == "model.yaml"
    assert problem["path"] == "$.$referenced_components.model.model_id"
    assert (problem["line"], problem["column"]) == (3, 5)


def test_a_problem_found_while_compiling_names_its_file_too() -> None:
    twice = component("Agent", "a", llm_config=MODEL, system_prompt="", tools=[TOOL, OTHER])
    nodes = [start(), component("AgentNode", "ask", agent=ref("a")), end()]
    data = document(flow(nodes, ["start", "ask", "end"]))
    there = supplied(holding(a=twice, **{"model.url": "http://a"}))
    with pytest.raises(DocumentError) as raised:
        prepare(data, name="flow.json", supplied=there)
    [problem] = raised.value.problems
    assert (problem.file, problem.path) == ("0.json", "$.$referenced_components.a.tools")
    where = "0.json $.$referenced_components.a.tools"
    assert str(raised.value).startswith(f"{where}: agent 'a' has 2 tools named 'look'")


def test_warnings_about_components_name_their_file() -> None:
    there = supplied(holding(model={**MODEL, "url": "http://a", "extra": 1}))
    [warning] = prepare(FLOW, name="flow.json", supplied=there).warnings
    assert (warning.file, warning.path) == (
        "0.json",
        "$.$referenced_components.model.extra",
    )
    assert str(warning).startswith("0.json $.$referenced_components.model.extra: ")


def test_of_one_id_in_both_the_sentence_says_which_file_has_the_other() -> None:
    model = {**MODEL, "url": "http://a", "id": "ask"}
    with pytest.raises(DocumentError) as raised:
        prepare(FLOW, name="flow.json", supplied=supplied(holding(model=model)))
    assert "0.json $.$referenced_components.model" in str(raised.value)


def test_a_misspelt_key_is_marked_in_the_file_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_bytes(FLOW)
    (tmp_path / "model.yaml").write_text(
        "$referenced_components:\n"
        "  model: {component_type: OpenAiCompatibleConfig, nmae: m}\n"
    )
    flow = str(tmp_path / "flow.json")
    model = str(tmp_path / "model.yaml")
    report = check(flow, None, NOTHING, supplied=supply([model]))
    locate(report, Texts(flow, None, FORMATS))
    first = next(each for each in report["problems"] if "'name'" in each["what"])
    assert (first["file"], first["line"], first["column"]) == (model, 2, 51)
