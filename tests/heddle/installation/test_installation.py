"""What an operator installs: what is refused before anything runs, and policies' models."""

import json
from pathlib import Path
from typing import Any

import pytest

from heddle import preparing
from heddle.installation import NOTHING, NotServedYet, PolicyModelInvalid, install
from heddle.spec import DocumentError, OpenAiCompatibleConfig
from tests.support.flows import component, document, end, flow, start

MIDDLEWARE: dict[str, Any] = {
    "componentType": "Gate",
    "kind": "middleware",
    "seams": {"toolCall": ["before"]},
}


def manifest(folder: Path, *components: Any, **fields: Any) -> str:
    """A manifest beside a program that would run; where it is."""
    path = folder / "gate.json"
    declared = {"name": "gate", "version": "1", "components": list(components), **fields}
    path.write_text(json.dumps(declared), encoding="utf-8")
    (folder / "gate.py").write_text("", encoding="utf-8")
    (folder / "tool.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "tool.sh").chmod(0o755)
    return str(path)


UNSERVED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "a store": ([{"componentType": "Db", "kind": "store"}], {}, "'Db' keeps sessions"),
}


@pytest.mark.parametrize("kind", UNSERVED)
def test_what_is_not_served_yet_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    components, fields, sentence = UNSERVED[kind]
    path = manifest(tmp_path, MIDDLEWARE, *components, **fields)
    with pytest.raises(NotServedYet) as caught:
        install([path])
    assert sentence in str(caught.value)
    assert "plugin 'gate'" in str(caught.value)


def test_middleware_is_installed_and_named_in_no_document(tmp_path: Path) -> None:
    installed = install([manifest(tmp_path, MIDDLEWARE)])
    named = document(
        flow([start(), component("Gate", "gate"), end()], ["start", "gate", "end"])
    )
    with pytest.raises(DocumentError) as caught:
        preparing.prepare(named, name="flow.json", installed=installed)
    assert "middleware is installed by whoever runs heddle and named in no document" in str(
        caught.value
    )


def test_a_document_that_was_fine_without_a_policy_is_read_again_with_it(
    tmp_path: Path,
) -> None:
    """Plans are kept by the document's bytes; what is installed may refuse one of them."""
    plain = document(flow([start(), end()], ["start", "end"]))
    alone = preparing.prepare(plain, name="flow.json", installed=NOTHING)
    beside = preparing.prepare(
        plain, name="flow.json", installed=install([manifest(tmp_path, MIDDLEWARE)])
    )
    assert alone is not beside


def test_a_middleware_is_given_the_model_in_its_settings(tmp_path: Path) -> None:
    llm = {
        "component_type": "OpenAiCompatibleConfig",
        "model_id": "small",
        "url": "http://127.0.0.1:9",
    }
    settings = f"Gate={json.dumps({'llm_config': llm})}"
    (model,) = install([manifest(tmp_path, MIDDLEWARE)], [settings]).models.values()
    assert isinstance(model, OpenAiCompatibleConfig)
    assert model.model_id == "small"


@pytest.mark.parametrize(
    ("llm", "sentence"),
    [
        (7, "7 is no object. Give an LLM configuration"),
        ({"component_type": "OpenAiCompatibleConfig", "model_id": "m"}, "url"),
        ({"component_type": "ServerTool"}, "a ServerTool is no LLM configuration"),
    ],
)
def test_a_model_in_the_settings_that_is_none_is_refused(
    llm: object, sentence: str, tmp_path: Path
) -> None:
    settings = f"Gate={json.dumps({'llm_config': llm})}"
    with pytest.raises(PolicyModelInvalid) as caught:
        install([manifest(tmp_path, MIDDLEWARE)], [settings])
    assert "--plugin-config Gate $.llm_config" in str(caught.value)
    assert sentence in str(caught.value)
