"""Small flows and the outcome that Agent Spec implies: by the command line and by HTTP.

The cases are read from the shared folder. Where the specification leaves the outcome
open (``expect`` is null), ours is pinned here.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from tests.heddle.server.serving import Served, server, sse
from tests.support.cases import CASES, MISSING

PROBES: Final = CASES / "agentspec" / "probes.json"
STUB: Final = "http://127.0.0.1:18083/v1"
SERVICE: Final = "http://127.0.0.1:18083"

pytestmark = pytest.mark.skipif(not PROBES.exists(), reason=MISSING)

# What each tool of the cases does, as the body of a Python program: ``given`` is its
# input, ``value`` what it returns under the name of its one output.
TOOLS: Final = {
    "rep": "value = repr(*given.values())",
    "ident": "value, = given.values()",
    "inc": ("i = given['i'] + 1\nreturned = {'i': i, 'again': 'yes' if i < 3 else 'no'}"),
    "two": "returned = {'p': 'P', 'q': 4}",
    "two_missing": "returned = {'p': 'P'}",
    "objout": "returned = {'z': 1}",
    "boom": "sys.exit('boom')",
    "const_one": "value = 'one'",
    "const_two": "value = 'two'",
    "const_default": "value = 'default'",
    "sq": "x, k = given.values()\nvalue = x * k",
    "tag1": "v, = given.values()\nvalue = f'1:{v}'",
    "tag2": "v, = given.values()\nvalue = f'2:{v}'",
}

# Our outcome where the specification is silent.
OURS: Final[dict[str, dict[str, Any]]] = {
    "tmpl_integer": {"t": "ECHO:[3]"},
    "tmpl_number": {"t": "ECHO:[2.5]"},
    "tmpl_number_whole": {"t": "ECHO:[2.0]"},
    "tmpl_boolean": {"t": "ECHO:[true]"},
    "tmpl_null": {"t": "ECHO:[null]"},
    "tmpl_array": {"t": "ECHO:[[1,2]]"},
    "tmpl_array_str": {"t": 'ECHO:[["a","b"]]'},
    "tmpl_object": {"t": 'ECHO:[{"a":1}]'},
    "cast_bool_to_str": {"r": "'true'"},
    "cast_list_to_str": {"r": "'[1,2]'"},
    "cast_obj_to_str": {"r": "'{\"a\":1}'"},
    "start_extra_input": {"r": "a"},
    "branch_bool": {"o": "one"},
    "api_get": {"path": "/items/a%20b", "n": 5},
}

# Cases that fail here, and what the error says. Nobody can be asked in a run that nobody
# talks to; there is no average of nothing; an answer other than a success is an error.
REFUSED: Final = {
    "MapNode_average_empty": "there were no items",
    "api_404": "answered 404 Not Found",
    "api_allow_list_denied": "which the url_allow_list does not allow",
    "input_message": "there is nobody to ask in this run",
}


def cases() -> list[dict[str, Any]]:
    """All of them."""
    if not PROBES.exists():
        return []
    every: list[dict[str, Any]] = json.loads(PROBES.read_text(encoding="utf-8"))
    return every


class Service(BaseHTTPRequestHandler):
    """Says what it was asked: the path, and the number in the query."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        body = json.dumps({"path": parts.path, "n": int(query["q"][0])}).encode()
        self.send_response(int(query.get("status", ["200"])[0]))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """A service for the cases that ask one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as running:
        thread = Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An echoing model in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.model_endpoint", "--seconds", "600"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=10)


def write_tools(folder: Path, case: dict[str, Any]) -> None:
    """The case's tools as executables, each under the output names that it declares."""
    outputs = {
        component["name"]: [each["title"] for each in component.get("outputs") or ()]
        for component in server_tools(case["spec"])
    }
    for name in case["tools"]:
        program = folder / name
        declared = outputs.get(name, [])
        program.write_text(
            f"#!{sys.executable}\n"
            "import json, sys\n"
            "given = json.load(sys.stdin)\n"
            f"{TOOLS[name]}\n"
            f"named = {{{declared[0]!r}: value}} if 'value' in globals() else returned\n"
            "print(json.dumps(named))\n",
            encoding="utf-8",
        )
        program.chmod(0o755)


def server_tools(plain: object) -> Iterator[dict[str, Any]]:
    """Every ServerTool that a document defines."""
    if isinstance(plain, dict):
        if plain.get("component_type") == "ServerTool":
            yield plain
        for value in plain.values():
            yield from server_tools(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from server_tools(value)


def fails(case: dict[str, Any]) -> bool:
    """Whether the run of this case must fail."""
    return case["kind"] == "error" or case["name"] in REFUSED


def check_outcome(case: dict[str, Any], found: dict[str, Any]) -> None:
    """Hold what came out against the case, in the types of JSON."""
    expected = OURS[case["name"]] if case["expect"] is None else case["expect"]
    assert {name: found.get(name) for name in expected} == expected
    for name, value in expected.items():
        numbers = isinstance(value, int) and isinstance(found[name], float)
        assert numbers or type(found[name]) is type(value)


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["name"]))
def test_the_outcome_is_what_the_specification_implies(
    case: dict[str, Any], endpoint: str, service: str, tmp_path: Path
) -> None:
    document = placed(case, endpoint, service)
    (tmp_path / "flow.json").write_text(document, encoding="utf-8")
    tools = tmp_path / "tools"
    tools.mkdir()
    write_tools(tools, case)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "heddle", "run", tmp_path / "flow.json"),
            *("--tools-dir", tools, "--input", json.dumps(case["inputs"])),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if fails(case):
        assert done.returncode == 1, done.stderr
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert REFUSED.get(case["name"], "") in done.stderr
        return
    assert done.returncode == 0, done.stderr
    check_outcome(case, msgspec.json.decode(done.stdout))


def placed(case: dict[str, Any], endpoint: str, service: str) -> str:
    """The case's document, with the model and the service where they are here."""
    return json.dumps(case["spec"]).replace(STUB, endpoint).replace(SERVICE, service)


def as_served(case: dict[str, Any], endpoint: str, service: str) -> Any:
    """The case's document, its tools under names of its own: one folder has them all."""
    spec = json.loads(placed(case, endpoint, service))
    for component in server_tools(spec):
        component["name"] = tool_name(case, component["name"])
    return spec


def tool_name(case: dict[str, Any], name: str) -> str:
    """The name of a case's tool on the server."""
    return f"{case['name']}-{name}"


@pytest.fixture(scope="module")
def served(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all cases."""
    folder = tmp_path_factory.mktemp("probes")
    tools = folder / "tools"
    tools.mkdir()
    for case in cases():
        own = tmp_path_factory.mktemp("own")
        write_tools(own, case)
        for program in own.iterdir():
            program.rename(tools / tool_name(case, program.name))
    with server(folder, "--tools-dir", "tools", "--allow-net", "127.0.0.1") as running:
        yield running


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["name"]))
def test_the_outcome_over_http_is_the_same(
    case: dict[str, Any], endpoint: str, service: str, served: Served
) -> None:
    body = {"flow": as_served(case, endpoint, service), "inputs": case["inputs"]}
    answered = served.ask("POST", "/v1/runs", body)
    if fails(case):
        assert answered.status >= 400
        assert REFUSED.get(case["name"], "") in answered.error[1]
        return
    assert answered.status == 200, answered.body
    check_outcome(case, answered.json["state"])


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["name"]))
def test_a_stream_of_its_events_ends_with_the_same(
    case: dict[str, Any], endpoint: str, service: str, served: Served
) -> None:
    body = {"flow": as_served(case, endpoint, service), "inputs": case["inputs"]}
    streamed = served.ask("POST", "/v1/runs?stream=true", body)
    if streamed.status >= 400:
        # It never began.
        assert fails(case)
        assert REFUSED.get(case["name"], "") in streamed.error[1]
        return
    events = [json.loads(each["data"]) for each in sse(streamed.body)]
    if fails(case):
        assert events[-1]["type"] == "error"
        assert REFUSED.get(case["name"], "") in events[-1]["error"]["message"]
        return
    assert events[-1]["type"] == "flow_complete"
    check_outcome(case, events[-1]["state"])


def test_there_are_as_many_cases_as_when_they_were_counted() -> None:
    assert len(cases()) == 50
