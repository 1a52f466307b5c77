"""What is secret is in no line of the log and in no error that a caller sees."""

import json
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.heddle.server.serving import STRAIGHT, WAITING, server, write_tools
from tests.heddle.server.test_command import MANIFEST, PROGRAM

TOKEN, KEY, INPUT, SETTING = "tok-5e1", "key-7c2", "inp-9d3", "set-4b4"
SAID: Final = "said-1f0"
"""By a tool that fails: for who ran it, and for nobody else."""


@pytest.mark.parametrize(("workers", "form"), [((), "text"), (("--workers", "2"), "json")])
def test_no_secret_is_logged_or_told(
    tmp_path: Path, workers: tuple[str, ...], form: str
) -> None:
    (tmp_path / "gate.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "gate.py").write_text(PROGRAM)
    (tmp_path / "set.json").write_text(json.dumps({"deny": [SETTING]}))
    tools = Path(write_tools(tmp_path))
    (tools / "wait").write_text(f"#!/bin/sh\necho {SAID} >&2\nexit 3\n")
    flags = ("--plugin", "gate.json", "--plugin-config", "Gate=@set.json")
    with server(
        tmp_path,
        *(*workers, "--tools-dir", str(tools), "--log-format", form, *flags),
        variables={"HEDDLE_AUTH_TOKEN": TOKEN, "OPENAI_API_KEY": KEY},
    ) as served:
        good = {"Authorization": f"Bearer {TOKEN}", "X-Request-ID": "mine-1"}
        told = []
        for body in (
            {"flow": STRAIGHT, "inputs": {"a": INPUT}},
            {"flow": WAITING, "inputs": {"a": INPUT}},
        ):
            answer = served.ask("POST", "/v1/runs", body, good)
            assert answer.headers["x-request-id"] == "mine-1"
            told.append(answer)
        assert [each.status for each in told] == [200, 500]
        assert SAID in told[1].error[1]
        broken = {"flow": {**STRAIGHT, "name": 3}, "inputs": {"a": INPUT}}
        told.append(served.ask("POST", "/v1/runs", broken, good))
        other = {"Authorization": f"Bearer {TOKEN}x"}
        told.append(served.ask("GET", "/v1/runs", headers=other))
        odd = served.ask("POST", "/v1/runs", b"{", {**good, "X-Request-ID": 'a"b'})
        assert odd.headers["x-request-id"] != 'a"b'
        told += [odd, served.ask("GET", "/metrics", headers=good)]
        for end in ("completed", "failed"):
            assert "mine-1" in served.line(end)
        (tmp_path / "set.json").write_text(json.dumps({"deny": SETTING}))
        served.signal(signal.SIGHUP)
        if workers:
            served.line("reload failed")
            served.signal()
        assert served.ended() == 0
        secrets = {TOKEN, KEY, INPUT, SETTING}
        log = "\n".join(served.log)
        assert not {each for each in {*secrets, SAID} if each in log}
        for answer in told[1:]:
            text = answer.body.decode() + str(answer.headers)
            assert not {each for each in secrets if each in text}
