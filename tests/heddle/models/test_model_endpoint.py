"""The endpoint made of test code does what the suites rely on, also as a process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from heddle.models import ModelClient, ModelRateLimited
from tests.heddle.models.support import ask, endpoint_at
from tests.support.model_endpoint import canned

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "S"),
        ({"type": "integer"}, 7),
        ({"type": "number"}, 1.5),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": "array", "items": {"type": "integer"}}, [7]),
        ({"type": "object", "properties": {"a": {}}}, {"a": "S"}),
        ({"properties": {"a": {"const": 3}}}, {"a": 3}),
        ({"enum": ["x", "y"]}, "x"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 7),
        ({"type": ["boolean", "null"]}, True),
        (True, "S"),
    ],
)
def test_a_schema_has_a_canned_value(schema: Any, value: Any) -> None:
    assert canned(schema) == value


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.model_endpoint", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_as_a_process_it_prints_its_url_answers_logs_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    log = tmp_path / "asked.jsonl"
    with start("--replies", '[{"status": 429}]', "--log", str(log)) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()

        async def main() -> None:
            async with ModelClient(environ={}) as client:
                with pytest.raises(ModelRateLimited):
                    await client.chat(endpoint_at(url), ask())
                response = await client.chat(endpoint_at(url), ask("you"))
                assert response.content == "ECHO:you"

        trio.run(main)
        process.stdin.close()
        assert process.wait(30) == 0

    asked = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["body"]["messages"][0]["content"] for one in asked] == ["hi", "you"]


def test_as_a_process_it_ends_by_itself() -> None:
    with start("--seconds", "0.1") as process:
        assert process.wait(30) == 0
