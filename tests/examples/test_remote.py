"""The examples of requests and of tool servers, run as their page says."""

import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "remote"


def run(document: str, inputs: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "heddle", "run", document, "--input", json.dumps(inputs)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PATH": path},
    )


def test_the_flow_gets_its_price_though_the_service_is_busy_at_first(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, FOLDER / "service.py", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as service:
        assert service.stdout is not None
        url = service.stdout.readline().strip()
        text = (FOLDER / "item.json").read_text(encoding="utf-8")
        placed = tmp_path / "item.json"
        placed.write_text(text.replace("http://127.0.0.1:8090", url), encoding="utf-8")
        done = run(str(placed), {"id": "tea cup"})
        service.kill()
    assert json.loads(done.stdout) == {"name": "tea cup", "price": 4.5}, done.stderr
    assert "trying again" in done.stderr


def test_the_time_server_is_asked_for_the_time() -> None:
    done = run(str(FOLDER / "time.json"), {"timezone": "Europe/Berlin"})
    assert set(json.loads(done.stdout)) == {"datetime"}, done.stderr
