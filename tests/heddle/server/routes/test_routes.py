"""Every route, over a real server."""

import http.client
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from heddle.engine.graph import RESERVED
from heddle.server.command import command
from heddle.server.routes.openapi import OPERATIONS
from heddle.server.routes.table import ROUTES
from heddle.server.submitted.submission import OPERATOR_ONLY, snake_case
from tests.heddle.server.serving import (
    HANDSHAKE,
    STRAIGHT,
    WAITING,
    Answered,
    Served,
    server,
    sse,
    write_tools,
)
from tests.support.flows import end, flow, prop, start, tool


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """One server for the questions that leave no trace."""
    flows = folder / "flows"
    (flows / "inner").mkdir(parents=True)
    (flows / "straight.json").write_text(json.dumps(STRAIGHT))
    (flows / "inner" / "straight.yaml").write_text(json.dumps(STRAIGHT))
    (flows / ".hidden.json").write_text(json.dumps(STRAIGHT))
    (folder / "outside.json").write_text(json.dumps(STRAIGHT))
    (flows / "link.json").symlink_to(folder / "outside.json")
    os.mkfifo(flows / "pipe.json")
    (flows / "inside.json").symlink_to(flows / "straight.json")
    tools = Path(write_tools(folder))
    (tools / "broken").write_text("#!/nowhere/at/all\n")
    (tools / "broken").chmod(0o755)
    with server(
        folder,
        *("--flows-root", "flows", "--tools-dir", str(tools)),
        *("--max-body", "100000", "--cors-origin", "https://app.example"),
    ) as found:
        yield found


def check(served: Served, method: str, path: str, status: int, body: Any) -> None:
    """Hold an answer to what the description says."""
    description = served.ask("GET", "/openapi.json").json
    described = description["paths"][path][method.lower()]["responses"][str(status)]
    schema = described["content"]["application/json"]["schema"]
    whole = {**schema, "components": description["components"]}
    jsonschema.Draft202012Validator(whole).validate(body)


def test_a_run_is_answered_with_its_state(served: Served) -> None:
    done = served.ask("POST", "/v1/runs", {"flow": STRAIGHT, "inputs": {"a": [1]}})
    assert done.status == 200
    assert done.json == {"flow": "flow", "state": {"a": [1]}, "run": done.json["run"]}
    check(served, "POST", "/v1/runs", 200, done.json)


@pytest.mark.parametrize("query", ["trace=true", "stream=true&trace=true"])
def test_runs_are_traced_where_the_operator_allows_it(served: Served, query: str) -> None:
    done = served.ask("POST", f"/v1/runs?{query}", {"flow": STRAIGHT})
    check(served, "POST", "/v1/runs", 403, done.json)
    assert done.json["error"]["message"] == (
        "runs are not traced here. Whoever runs the server can allow it with --allow-trace."
    )
    untraced = served.ask("POST", "/v1/runs?trace=false", {"flow": STRAIGHT})
    assert untraced.status == 200


@pytest.mark.parametrize("format_", [None, "json", "yaml"])
def test_a_flow_may_come_as_text(served: Served, format_: str | None) -> None:
    body = {"flow": json.dumps(STRAIGHT), **({"format": format_} if format_ else {})}
    assert served.ask("POST", "/v1/runs", body).status == 200


@pytest.mark.parametrize("name", ["straight.json", "inner/straight.yaml", "inside.json"])
def test_a_flow_of_the_server_is_named_by_its_path(served: Served, name: str) -> None:
    assert served.ask("POST", "/v1/runs", {"flowPath": name}).status == 200


@pytest.mark.parametrize(
    "name",
    [
        "nothing.json",
        "../outside.json",
        "inner/../straight.json",
        "/etc/passwd",
        "link.json",
        "pipe.json",
        ".hidden.json",
        "inner",
        "",
        "inner//straight.yaml",
        "./straight.json",
        "%2e%2e/outside.json",
        "..\\outside.json",
        "straight.json\0",
        "x" * 5000,
        "inner/straight.yaml/more",
    ],
)
def test_a_path_that_leads_elsewhere_is_not_there(served: Served, name: str) -> None:
    done = served.ask("POST", "/v1/runs", {"flowPath": name})
    assert done.status == 404
    assert "--flows-root" in done.error[1]
    assert str(served.process.args) not in done.error[1]
    assert "outside" not in done.error[1] or "outside" in name


def test_a_stream_tells_every_event_and_ends(served: Served) -> None:
    done = served.ask(
        "POST", "/v1/runs?stream=true", {"flow": STRAIGHT, "inputs": {"a": 1}}
    )
    assert done.status == 200
    assert done.headers["content-type"].startswith("text/event-stream")
    frames = sse(done.body)
    assert [each["id"] for each in frames] == [str(n + 1) for n in range(len(frames))]
    assert [each["event"] for each in frames] == [
        json.loads(each["data"])["type"] for each in frames
    ]
    assert frames[0]["event"] == "flow_start"
    assert json.loads(frames[-1]["data"]) == {"type": "flow_complete", "state": {"a": 1}}
    again = served.ask("GET", f"/v1/runs/{done.headers['heddle-run']}/events")
    assert again.body == done.body


def test_a_reader_comes_again_where_it_was(served: Served) -> None:
    done = served.ask("POST", "/v1/runs?stream=true", {"flow": STRAIGHT})
    path = f"/v1/runs/{done.headers['heddle-run']}/events"
    frames = sse(done.body)
    rest = served.ask("GET", path, headers={"Last-Event-ID": "2"})
    assert sse(rest.body) == frames[2:]
    assert sse(served.ask("GET", f"{path}?from=4").body) == frames[3:]
    assert served.ask("GET", path, headers={"Last-Event-ID": "x"}).status == 400


def test_a_failure_in_a_stream_is_its_last_frame(served: Served) -> None:
    body = {"flow": WAITING, "inputs": {}}
    with served.opened("POST", "/v1/runs?stream=true", body) as response:
        assert response.status == 200
        run = served.started()
        assert served.ask("DELETE", f"/v1/runs/{run}").status == 202
        frames = sse(response.read())
    assert frames[-1]["event"] == "error"
    told = json.loads(frames[-1]["data"])
    assert told["error"] == {
        "type": "RunCancelled",
        "message": "it was cancelled on request",
    }
    assert "id" not in frames[-1]


@pytest.mark.parametrize("query", ["", "?stream=true", "?detach=true"])
def test_a_bad_flow_is_a_400_before_anything_opens(served: Served, query: str) -> None:
    accepted = served.ask("GET", "/metrics").body
    done = served.ask("POST", f"/v1/runs{query}", {"flow": {"component_type": "Flow"}})
    assert done.status == 400
    assert done.error[0] == "DocumentError"
    assert done.headers["content-type"] == "application/json"
    assert b"heddle_runs_accepted_total" in accepted


@pytest.mark.parametrize("query", ["", "?stream=true"])
def test_inputs_that_heddle_keeps_for_itself_are_a_400(served: Served, query: str) -> None:
    body = {"flow": STRAIGHT, "inputs": {RESERVED: 1}}
    done = served.ask("POST", f"/v1/runs{query}", body)
    assert done.status == 400, done.body


NEEDY = flow([start(inputs=[prop("name")]), end()], ["start", "end"])


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "inputs: the flow needs input 'name', which was not given. Pass"),
        ({"name": 3}, "inputs: wrong type of input 'name': 3 is not text."),
        ({"nam": "Ada"}, "'name', which was not given"),
    ],
)
@pytest.mark.parametrize("query", ["", "?stream=true", "?detach=true"])
def test_inputs_that_the_flow_does_not_take_are_a_400(
    served: Served, query: str, inputs: dict[str, Any], words: str
) -> None:
    """Before the stream opens, and before a run of nobody's goes on."""
    done = served.ask("POST", f"/v1/runs{query}", {"flow": NEEDY, "inputs": inputs})
    assert (done.status, done.error[0]) == (400, "InputsRefused")
    assert words in done.error[1]


@pytest.mark.parametrize("query", ["", "?stream=true"])
def test_a_tool_that_is_not_there_is_a_400(served: Served, query: str) -> None:
    body = {"flow": flow([start(), tool("none"), end()], ["start", "none", "end"])}
    done = served.ask("POST", f"/v1/runs{query}", body)
    assert (done.status, done.error[0]) == (400, "ToolsMissing")


def test_a_detached_run_goes_on_alone(served: Served) -> None:
    done = served.ask(
        "POST", "/v1/runs?detach=true", {"flow": STRAIGHT, "inputs": {"a": 1}}
    )
    assert done.status == 202
    check(served, "POST", "/v1/runs", 202, done.json)
    path = f"/v1/runs/{done.json['run']}"
    assert done.headers["location"] == path
    shown = served.until(
        lambda: (
            found
            if (found := served.ask("GET", path).json)["status"] != "running"
            else None
        )
    )
    check(served, "GET", "/v1/runs/{id}", 200, shown)
    assert (shown["status"], shown["state"], shown["detached"]) == (
        "completed",
        {"a": 1},
        True,
    )


@pytest.mark.parametrize("query", ["", "?stream=true"])
def test_who_leaves_a_detached_run_lets_it_go_on(served: Served, query: str) -> None:
    path = "/v1/runs?stream=true&detach=true" if query else "/v1/runs?detach=true"
    with served.opened("POST", path, {"flow": WAITING}):
        run = served.started()
    served.until(lambda: served.metric("heddle_stream_readers") == 0)
    assert served.started() == run
    assert served.ask("DELETE", f"/v1/runs/{run}").status == 202
    served.until(lambda: not served.runs("running"))


def test_a_run_that_is_cancelled_while_its_caller_waits_is_a_409(served: Served) -> None:
    with ThreadPoolExecutor() as beside:
        answer = beside.submit(served.ask, "POST", "/v1/runs", {"flow": WAITING})
        assert served.ask("DELETE", f"/v1/runs/{served.started()}").status == 202
        done = answer.result()
    assert (done.status, done.error) == (
        409,
        ("RunCancelled", "it was cancelled on request"),
    )


def test_no_more_runs_are_listed_than_are_asked_for(served: Served) -> None:
    newest = [
        served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).json["run"] for _ in range(3)
    ]
    listed = served.ask("GET", "/v1/runs?limit=2&status=completed").json
    check(served, "GET", "/v1/runs", 200, listed)
    assert [each["run"] for each in listed["runs"]] == newest[:0:-1]
    for query in ("limit=0", "limit=-1", "limit=x", "status=lost"):
        assert served.ask("GET", f"/v1/runs?{query}").status == 400


def test_what_looks_odd_in_a_flow_is_told_and_no_fault(served: Served) -> None:
    odd = {**STRAIGHT, "nodez": []}
    done = served.ask("POST", "/v1/validate", {"flow": odd})
    assert (done.status, done.json["valid"]) == (200, True)
    [warning] = done.json["warnings"]
    assert "nodez" in warning["path"]
    assert "nodes" in warning["fix"]


def test_validating_runs_nothing(served: Served) -> None:
    before = len(served.runs())
    good = served.ask("POST", "/v1/validate", {"flow": STRAIGHT})
    assert (good.status, good.json["valid"]) == (200, True)
    check(served, "POST", "/v1/validate", 200, good.json)
    bad = served.ask("POST", "/v1/validate", {"flow": {"component_type": "Flow"}})
    assert (bad.status, bad.json["valid"]) == (400, False)
    assert bad.json["problems"]
    check(served, "POST", "/v1/validate", 400, bad.json)
    assert len(served.runs()) == before


def test_capabilities_say_what_may_be_asked(served: Served) -> None:
    shown = served.ask("GET", "/v1/capabilities").json
    check(served, "GET", "/v1/capabilities", 200, shown)
    assert shown["acceptsFlowPath"] is True
    assert shown["allowRequestCode"] is False
    assert shown["allowTrace"] is False
    assert shown["tools"] == ["broken", "wait"]
    assert shown["middleware"] == []
    assert shown["limits"]["maxBody"] == 100_000


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
def test_it_lives(served: Served, path: str) -> None:
    done = served.ask("GET", path)
    check(served, "GET", path, 200, done.json)
    head = served.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == done.headers["content-length"]


def test_metrics_count(served: Served) -> None:
    served.ask("POST", "/v1/runs", {"flow": STRAIGHT})
    text = served.ask("GET", "/metrics").body.decode()
    values = dict(
        line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")
    )
    assert float(values["heddle_runs_accepted_total"]) >= 1
    assert float(values["heddle_active_runs"]) == 0
    assert float(values["heddle_max_concurrent_runs"]) == 64
    assert float(values["heddle_run_saturation"]) == 0
    assert float(values["heddle_runs_rejected_total"]) == 0
    assert float(values["process_resident_memory_bytes"]) > 1e6
    assert float(values["process_cpu_seconds_total"]) > 0


@pytest.mark.parametrize("name", sorted(OPERATOR_ONLY))
def test_what_only_the_operator_sets_is_refused(served: Served, name: str) -> None:
    for spelling in {name, snake_case(name)}:
        done = served.ask("POST", "/v1/runs", {"flow": STRAIGHT, spelling: 1})
        assert done.status == 400
        assert spelling in done.error[1]


def test_every_flag_is_the_operator_s_or_a_field_of_a_request() -> None:
    flags = {flag for each in command.params for flag in each.opts if flag[:2] == "--"}
    assert "--max-body" in flags
    # A request says in which format its own flow is; the last two start nothing.
    known = {*map(snake_case, OPERATOR_ONLY), "format", "version", "help"}
    assert {flag[2:].replace("-", "_") for flag in flags} <= known


def test_the_same_words_inside_of_inputs_are_data(served: Served) -> None:
    inputs = {"timeout": 1, "tools_dir": {"toolsDir": "/"}}
    done = served.ask("POST", "/v1/runs", {"flow": STRAIGHT, "inputs": inputs})
    assert done.json["state"] == inputs


def test_names_with_line_breaks_are_text_everywhere(served: Served) -> None:
    evil = "x\r\nSet-Cookie: a=b\r\n\r\ndata: evil\n\nevent: evil"
    made = {**flow([start(evil), end()], [evil, "end"]), "name": evil}
    done = served.ask("POST", "/v1/runs?stream=true", {"flow": made, "inputs": {evil: 1}})
    assert done.status == 200
    assert "set-cookie" not in done.headers
    assert "evil" not in {frame.get("event") for frame in sse(done.body)}
    assert json.loads(sse(done.body)[-1]["data"])["state"] == {evil: 1}
    run = served.ask("GET", f"/v1/runs/{done.headers['heddle-run']}")
    assert run.json["flow"] == evil
    line = served.line(run.json["run"])
    assert "evil" in line
    assert not any(each.startswith(("Set-Cookie", "data:")) for each in served.log)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "an array"),
        (b"null", "null"),
        (b'{"flow": {}, "flowPath": "x"}', "both"),
        (b"{}", "no flow"),
        (b'{"flow": 1}', "a number"),
        (b'{"flow": null}', "null"),
        (b'{"flow": {}, "inputs": []}', "an array"),
        (b'{"flow": {}, "input": {}}', "Did you mean 'inputs'"),
        (b'{"flow": {}, "format": "toml"}', "toml"),
        (b'{"flow": "\xff"}', "not UTF-8"),
        (b'{"flow": {}, "inputs": {"a": "\xff"}}', ""),
        (b'{"flow": {}, "inputs": {"a": NaN}}', "not JSON"),
        (b'{"flow": {}, "inputs": ' + b'{"a":' * 300 + b"1" + b"}" * 301, "nested"),
        (b'{"flow": ' + b"[" * 40_000 + b"]" * 40_000 + b"}", ""),
        (b"[" * 90_000, ""),
        (b'{"flowPath": 3}', "a number"),
    ],
)
def test_a_body_that_cannot_be_meant_is_a_400(
    served: Served, body: bytes, words: str
) -> None:
    done = served.ask("POST", "/v1/runs", body)
    assert done.status == 400, done.body
    assert words in done.error[1]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_another_content_type_is_a_415(served: Served, kind: str) -> None:
    done = served.ask("POST", "/v1/runs", b"{}", {"Content-Type": kind})
    assert done.status == 415


@pytest.mark.parametrize(("coding", "status"), [("gzip", 415), ("identity", 200)])
def test_a_compressed_body_is_a_415(served: Served, coding: str, status: int) -> None:
    body = {"flow": STRAIGHT}
    done = served.ask("POST", "/v1/runs", body, {"Content-Encoding": coding})
    assert done.status == status


def test_a_body_over_the_limit_is_a_413(served: Served) -> None:
    assert served.ask("POST", "/v1/runs", b" " * 100_001).status == 413


def test_a_body_may_have_8_mib_and_no_more(tmp_path: Path) -> None:
    head, last = b'{"flow":%b,"inputs":{"a":"' % json.dumps(STRAIGHT).encode(), b'"}}'
    whole = head + b"x" * (8 * 1024 * 1024 - len(head) - len(last)) + last
    with server(tmp_path) as own:
        assert own.ask("POST", "/v1/validate", whole).status == 200
        assert own.ask("POST", "/v1/validate", whole + b" ").status == 413


@pytest.mark.parametrize("route", ["/v1/runs", "/v1/validate"])
def test_more_values_than_there_may_be_are_a_413(tmp_path: Path, route: str) -> None:
    def said(answer: Answered) -> str:
        assert answer.status == 413
        return str(answer.json["error"]["message"])

    flow = json.dumps(STRAIGHT).encode()
    inputs = b'{"flow":%b,"inputs":{"a":[%b]}}' % (flow, b",".join([b"0"] * 1_000_000))
    with server(tmp_path) as own:
        assert said(own.ask("POST", route, inputs)) == (
            "'inputs' has more than 1,000,000 values. Send large data as text."
        )
        wide = b'{"flow":{"a":[%b]}}' % b",".join([b"0"] * 250_000)
        assert said(own.ask("POST", route, wide)) == ("'flow' has more than 250,000 values")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/runs", "POST, GET, HEAD, OPTIONS"),
        ("GET", "/v1/validate", "POST, OPTIONS"),
        ("POST", "/v1/runs/x", "GET, HEAD, DELETE, OPTIONS"),
        ("PATCH", "/healthz", "GET, HEAD, OPTIONS"),
    ],
)
def test_another_method_is_told_which_are_allowed(
    served: Served, method: str, path: str, allow: str
) -> None:
    done = served.ask(method, path)
    assert (done.status, done.headers["allow"]) == (405, allow)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1"),
        ("GET", "/v1/runs/"),
        ("GET", "/v1/runs/x"),
        ("GET", "/v1/runs/%7Bid%7D"),
        ("GET", "/v1/runs/x/events"),
        ("DELETE", "/v1/runs/x"),
        ("GET", "/v1/runs/x/else"),
        ("GET", "//v1/runs"),
    ],
)
def test_what_is_not_there_is_a_404(served: Served, method: str, path: str) -> None:
    done = served.ask(method, path)
    assert (done.status, done.error[0]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/runs/x"), ("GET", "/v1/runs/x/events"), ("DELETE", "/v1/runs/x")],
)
def test_a_run_that_is_not_there_says_which_ones_are(
    served: Served, method: str, path: str
) -> None:
    assert served.ask(method, path).error[1] == (
        "no such run is in memory. GET /v1/runs lists those that are. Of runs that have "
        "ended the last 1,000 are kept, until the server stops."
    )


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            b"{'flowPath': 'flow.json'}",
            "the body is not JSON: line 1, column 2: expecting property name enclosed in "
            "double quotes. Put names and texts in double quotes.",
        ),
        (
            b'{"flow": None}',
            "the body is not JSON: line 1, column 10: expecting value. Write null, which "
            "JSON has in place of None.",
        ),
        (
            b'{"flow": "' + b"x" * 70_000,
            "the body is not JSON: Input data was truncated",
        ),
    ],
)
def test_a_body_that_is_no_json_says_where_and_what_to_do(
    served: Served, body: bytes, says: str
) -> None:
    done = served.ask("POST", "/v1/runs", body)
    assert (done.status, done.error[1]) == (400, says)


def test_a_run_that_has_ended_cannot_be_cancelled(served: Served) -> None:
    run = served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).json["run"]
    assert served.ask("DELETE", f"/v1/runs/{run}").status == 409


@pytest.mark.parametrize(
    "query", ["?stream=maybe", "?detach=2", "?protocol=other", "?protocol="]
)
def test_parameters_are_not_guessed(served: Served, query: str) -> None:
    assert served.ask("POST", f"/v1/runs{query}", {"flow": STRAIGHT}).status == 400


def test_pages_of_allowed_origins_may_read_answers_and_others_may_not(
    served: Served,
) -> None:
    allowed = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    asked = served.ask("OPTIONS", "/v1/runs", headers=allowed)
    assert asked.status == 204
    assert asked.headers["access-control-allow-origin"] == "https://app.example"
    assert "POST" in asked.headers["access-control-allow-methods"]
    refusal = served.ask("GET", "/v1/nothing", headers=allowed)
    assert refusal.headers["access-control-allow-origin"] == "https://app.example"
    assert "Heddle-Run" in refusal.headers["access-control-expose-headers"]
    # What one origin was told must not be kept for another.
    assert served.ask("GET", "/healthz").headers["vary"] == "Origin"
    other = {**allowed, "Origin": "https://evil.example"}
    assert (
        "access-control-allow-origin"
        not in served.ask("OPTIONS", "/v1/runs", headers=other).headers
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/runs"), ("GET", "/"), ("GET", "/v1/stream"), ("OPTIONS", "/v1/runs")],
)
def test_a_page_that_has_its_name_point_here_is_refused(
    served: Served, method: str, path: str
) -> None:
    host = f"evil.example:{served.port}"
    rebound = {"Host": host, "Origin": f"http://{host}", **HANDSHAKE}
    done = served.ask(method, path, {"flow": STRAIGHT}, rebound)
    assert done.status == 403
    assert done.error == (
        "forbidden",
        "this server does not go by the name 'evil.example'. Ask for localhost, or have "
        "whoever runs the server allow the name: --cors-origin http://evil.example.",
    )


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST.:80", "app.localhost", "127.0.0.1", "127.9.9.9:1"),
        *("[::1]:4319", "192.168.0.1", "app.example", ""),
    ],
)
def test_it_is_called_by_an_address_a_local_name_or_an_allowed_one(
    served: Served, host: str
) -> None:
    assert served.ask("GET", "/healthz", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["localhost.evil.example", "notlocalhost", "127.0.0.1.evil.example", "1.2.3"]
)
def test_a_name_that_only_looks_local_is_refused(served: Served, host: str) -> None:
    assert served.ask("GET", "/healthz", headers={"Host": host}).status == 403


def test_the_client_s_request_id_comes_back(served: Served) -> None:
    done = served.ask("GET", "/healthz", headers={"X-Request-ID": "abc-1"})
    assert done.headers["x-request-id"] == "abc-1"


@pytest.mark.parametrize("field", ["tools", "plugins"])
def test_submitted_code_is_refused(served: Served, field: str) -> None:
    body = {"flow": STRAIGHT, field: [{"name": "x", "source": "echo", "interpreter": "sh"}]}
    done = served.ask("POST", "/v1/runs", body)
    assert (done.status, done.error[0]) == (400, "SubmissionRefused")
    assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT, field: []}).status == 200


@pytest.mark.parametrize("as_text", [False, True])
def test_submitted_middleware_is_refused_by_its_own_reason(
    served: Served, as_text: bool
) -> None:
    manifest: Any = {
        "name": "p",
        "version": "1",
        "components": [
            {"componentType": "X", "kind": "middleware", "seams": {"node": ["before"]}}
        ],
    }
    given = json.dumps(manifest) if as_text else manifest
    body = {"flow": STRAIGHT, "plugins": [{"name": "p", "manifest": given, "source": ""}]}
    done = served.ask("POST", "/v1/runs", body)
    assert done.status == 400
    assert "installed by whoever runs the server" in done.error[1]


def test_errors_name_no_folder_of_the_server(served: Served, folder: Path) -> None:
    broken = flow([start(), tool("broken"), end()], ["start", "broken", "end"])
    done = served.ask("POST", "/v1/runs", {"flow": broken})
    assert done.status == 500
    assert "…/broken" in done.error[1]
    streamed = served.ask("POST", "/v1/runs?stream=true", {"flow": broken})
    missing = served.ask("POST", "/v1/runs", {"flowPath": "link.json"})
    for answer in (done, streamed, missing):
        assert str(folder) not in answer.body.decode()


def test_the_description_and_the_routes_are_the_same() -> None:
    assert {(each.method, each.path): each.open for each in ROUTES} == {
        key: (each.open or key == ("GET", "/v1/stream")) for key, each in OPERATIONS.items()
    } | {("GET", "/v1/stream"): True}


def test_what_the_head_decides_is_decided_anew_for_another_head(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port)

    def ask(method: str, path: str, **headers: str) -> int:
        body = json.dumps({"flow": STRAIGHT}) if method == "POST" else None
        kind = {"Content-Type": "application/json"}
        connection.request(method, path, body, kind | headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    for _ in range(2):
        assert ask("POST", "/v1/runs") == 200
        assert ask("POST", "/v1/runs") == 200
        assert ask("POST", "/v1/runs", Host="evil.example") == 403
        assert ask("POST", "/v1/runs", **{"Content-Type": "text/plain"}) == 415
        assert ask("POST", "/v1/runs", **{"Content-Encoding": "gzip"}) == 415
        assert ask("POST", "/v1/runz") == 404
        assert ask("PUT", "/v1/runs") == 405
        assert ask("OPTIONS", "/v1/runs") == 204
        assert ask("OPTIONS", "/v1/runs") == 204
    connection.close()
