"""The files in ``deploy/`` fit the program that they start."""

import re
import shlex
from pathlib import Path

import yaml

from heddle.server.command import TOKEN_VARIABLE, command
from heddle.server.metrics import COUNTERS
from heddle.server.routes.table import BY_PATH
from heddle.server.serve import GRACE
from heddle.server.supervisor import LATE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def options(arguments: list[str]) -> dict[str, object]:
    """What the program makes of its arguments; raises what it would refuse."""
    return command.make_context("heddle-server", list(arguments)).params


def test_the_unit_starts_the_server_and_waits_for_its_drain() -> None:
    lines = (DEPLOY / "heddle-server.service").read_text().splitlines()
    fields = dict(each.split("=", 1) for each in lines if "=" in each and each[0] != "#")
    program, *arguments = shlex.split(fields["ExecStart"])
    assert program.endswith("/heddle-server")
    drain = options(arguments)["drain_timeout"]
    assert isinstance(drain, float)
    assert float(fields["TimeoutStopSec"]) >= drain + GRACE + LATE
    assert (fields["Type"], fields["KillMode"]) == ("notify", "mixed")


def test_the_manifests_fit_the_server() -> None:
    made = list(yaml.safe_load_all((DEPLOY / "kubernetes/heddle.yaml").read_text()))
    assert [each["kind"] for each in made] == [
        "Deployment",
        "Service",
        "PodDisruptionBudget",
    ]
    pod = made[0]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    found = options(container["args"])
    drain = found["drain_timeout"]
    assert isinstance(drain, float)
    assert container["ports"][0]["containerPort"] == found["port"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert {"/readyz", "/healthz"} <= set(BY_PATH)
    assert container["env"][0]["name"] == TOKEN_VARIABLE
    pause = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= pause + drain + GRACE + LATE
    for each in made:
        selector = each["spec"]["selector"]
        labels = made[0]["spec"]["template"]["metadata"]["labels"]
        assert selector.get("matchLabels", selector) == labels


def test_what_the_container_copies_is_there() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    copied = [
        path
        for line in re.findall(r"^COPY (?!--)(.+)$", text, re.MULTILINE)
        for path in line.split()[:-1]
    ]
    assert len(copied) >= 4
    assert all((ROOT / path).exists() for path in copied)
    arguments = re.search(r"^CMD \[(.+)\]$", text, re.MULTILINE)
    assert arguments
    assert options(re.findall(r'"([^"]+)"', arguments[1]))["port"] == 4319
    assert re.search(r"^USER [1-9]", text, re.MULTILINE)


def test_the_page_names_metrics_and_flags_that_are_there() -> None:
    text = (ROOT / "docs/production.md").read_text()
    known = {flag for each in command.params for flag in each.opts}
    flags = set(re.findall(r"`(--[a-z-]+)", text))
    assert len(flags) > 5
    assert flags <= known
    counted = set(re.findall(r"heddle_\w+_total", text))
    ours = {f"{name}_total" for _, name, _ in COUNTERS} | {
        "heddle_worker_restarts_total",
        "heddle_runs_ended_total",
        "heddle_plugin_restarts_total",
        "heddle_middleware_failures_total",
    }
    assert len(counted) > 4
    assert counted <= ours
