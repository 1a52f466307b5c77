"""Where flows of strangers may go: out, and nowhere inside."""

import json
import select
import socket
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

from heddle.engine.plan import make_plan
from heddle.models import CredentialMissing, ModelUnreachable
from heddle.preparing import prepare
from heddle.server.failures import SubmissionRefused
from heddle.server.submitted.egress import Checker, Reach, SubmittedModels
from heddle.server.submitted.submission import Submitted
from heddle.services import ModelService
from heddle.spec import read_document
from plugins_host.conversation import Message, ModelRequest
from tests.heddle.server.serving import STRAIGHT, server
from tests.support.flows import (
    agent,
    component,
    document,
    end,
    flow,
    llm,
    model,
    prop,
    start,
)
from tests.support.http_stub import Answer, http_stub
from tests.support.model_endpoint import Reply, model_endpoint


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",  # the server of a Teredo tunnel
        "2001:0:4136:e378:8000:63bf:80ff:fffe",  # and its client, 127.0.0.1
        "fec0::1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b:1::7f00:1",
        "nonsense",
    ],
)
def test_what_is_inside_is_out_of_reach(address: str) -> None:
    assert not Reach(()).permits("model.example", address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"]
)
def test_what_is_outside_is_reached(address: str) -> None:
    assert Reach(()).permits("model.example", address)


@pytest.mark.parametrize(
    ("allowed", "host", "address", "permitted"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "anything", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", "127.0.0.2", False),
        ("10.0.0.0/8", "model", "10.9.9.9", True),
        ("10.0.0.0/8", "model", "192.168.0.1", False),
        ("Model.Internal", "model.internal", "10.0.0.1", True),
        ("model.internal", "other.internal", "10.0.0.1", False),
        ("[::1]", "x", "::1", True),
    ],
)
def test_the_operator_can_allow_a_host(
    allowed: str, host: str, address: str, *, permitted: bool
) -> None:
    assert Reach([allowed]).permits(host, address) is permitted


def asking(**config: Any) -> dict[str, Any]:
    """A flow of one model call."""
    return flow(
        [start(), llm("ask", "hi", outputs=[prop("answer")]), end()],
        ["start", "ask", "end"],
        shared=[model(**config)],
    )


def submitted(**config: Any) -> Submitted:
    prepared = prepare(document(asking(**config)), name="flow")
    return Submitted(prepared.name, prepared.plan, prepared.warnings)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"url": "http://127.0.0.1:9/v1"}, "private address"),
        ({"url": "http://localhost:9/v1"}, "private address"),
        ({"url": "http://x.localhost/v1"}, "private address"),
        ({"url": "http://[::1]:9/v1"}, "private address"),
        ({"url": "http://169.254.169.254/v1"}, "private address"),
        ({"url": "http://1.1.1.1/v1", "api_key": "$SECRET"}, "environment"),
        ({"url": "http://1.1.1.1/v1", "api_key": "${SECRET}"}, "environment"),
        ({"url": "https://1.1.1.1/v1", "ca_file": "/etc/passwd"}, "file of the server"),
        ({"url": "https://1.1.1.1/v1", "key_file": "/etc/passwd"}, "file of the server"),
        ({"url": "ftp://1.1.1.1/"}, "scheme"),
    ],
)
def test_a_submitted_flow_asks_for_nothing_of_the_operator_s(
    config: dict[str, Any], words: str
) -> None:
    with pytest.raises(SubmissionRefused, match=words):
        Checker(Reach(())).check(submitted(**config))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"pattern": "(?=x)"}, "bounded time"),
        ({"type": "object", "patternProperties": {"(?!x)": True}}, "bounded time"),
        ({"type": "array", "items": {"anyOf": [{"pattern": r"(a)\1"}]}}, "bounded time"),
        ({"pattern": "x" * 1025}, "at most 1024 characters"),
        ({"anyOf": [{"pattern": f"x{n}"} for n in range(257)]}, "at most 256 patterns"),
    ],
)
def test_a_submitted_flow_has_no_pattern_that_could_take_for_ever(
    schema: dict[str, Any], words: str
) -> None:
    made = flow([start(inputs=[prop("x", None, **schema)]), end()], ["start", "end"])
    prepared = prepare(document(made), name="flow")
    strange = Submitted(prepared.name, prepared.plan, prepared.warnings)
    with pytest.raises(SubmissionRefused, match=words):
        Checker(Reach(())).check(strange)


def test_values_that_look_like_patterns_are_none() -> None:
    schema = {"enum": ["a"], "default": "a", "examples": [{"pattern": "(?=x)"}]}
    made = flow([start(inputs=[prop("x", **schema)]), end()], ["start", "end"])
    prepared = prepare(document(made), name="flow")
    Checker(Reach(())).check(Submitted(prepared.name, prepared.plan, ()))


def test_only_a_flow_that_was_found_well_has_passed() -> None:
    checker = Checker(Reach(()))
    good, bad = submitted(url="http://1.1.1.1/v1"), submitted(url="http://127.0.0.1:9/v1")
    assert not checker.has_passed(good)
    checker.check(good)
    with pytest.raises(SubmissionRefused):
        checker.check(bad)
    assert (checker.has_passed(good), checker.has_passed(bad)) == (True, False)


def test_a_well_behaved_flow_is_looked_through_once() -> None:
    checker = Checker(Reach(()))
    flow_ = submitted(url="http://model.example/v1", api_key="written")
    checker.check(flow_)
    checker.check(flow_)


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "localhost"])
async def test_a_name_is_judged_by_where_it_leads(host: str) -> None:
    async with model_endpoint(Reply("leaked")) as endpoint:
        port = endpoint.url.rsplit(":", 1)[1]
        made = make_plan(
            read_document(document(asking(url=f"http://{host}:{port}")), name="flow")
        )
        operator = ModelService({})
        models = SubmittedModels(Reach(()), operator, ())
        config = made.graph.nodes[1].component.llm_config  # type: ignore[attr-defined]
        request = ModelRequest(model="m", messages=(Message("user", "hi"),))
        with pytest.raises(ModelUnreachable, match="not to be reached"):
            await models.chat(config, request, on_text=None)
        assert not endpoint.requests
        allowed = SubmittedModels(Reach(["127.0.0.0/8", "::1"]), operator, ())
        answer = await allowed.chat(config, request, on_text=None)
        assert answer.content == "leaked"
        # What a policy is configured with is the operator's.
        trusted = SubmittedModels(Reach(()), operator, (config,))
        assert await trusted.chat(config, request, on_text=None)
        for each in (models, allowed, trusted, operator):
            await each.aclose()


async def test_the_models_of_a_submitted_flow_never_see_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where nobody has looked through the flow."""
    monkeypatch.setenv("SECRET", "sesame")
    made = make_plan(
        read_document(document(asking(url="http://m.test", api_key="$SECRET")), name="flow")
    )
    operator = ModelService({"SECRET": "sesame"})
    models = SubmittedModels(Reach(()), operator, ())
    config = made.graph.nodes[1].component.llm_config  # type: ignore[attr-defined]
    request = ModelRequest(model="m", messages=(Message("user", "hi"),))
    with pytest.raises(CredentialMissing):
        await models.chat(config, request, on_text=None)


async def test_a_server_keeps_submitted_flows_out_and_lets_its_own_in(
    tmp_path: Path,
) -> None:
    flows = tmp_path / "flows"
    flows.mkdir()
    async with model_endpoint() as endpoint:
        plain = asking(url=endpoint.url, api_key="$MODEL_KEY")
        (flows / "ask.json").write_text(json.dumps(plain))

        def talk() -> None:
            variables = {"MODEL_KEY": "sesame-sesame"}
            with server(tmp_path, "--flows-root", "flows", variables=variables) as served:
                theirs = served.ask("POST", "/v1/runs", {"flow": plain})
                assert (theirs.status, theirs.error[0]) == (400, "SubmissionRefused")
                assert "sesame" not in theirs.body.decode()
                # Only looking the name up tells where it leads.
                hidden = endpoint.url.replace("127.0.0.1", "0x7f000001")
                assert hidden != endpoint.url
                done = served.ask("POST", "/v1/runs", {"flow": asking(url=hidden)})
                assert done.status == 500
                assert "not to be reached" in done.error[1]
                open_ = asking(url=endpoint.url)
                assert served.ask("POST", "/v1/validate", {"flow": open_}).status == 400
                ours = served.ask("POST", "/v1/runs", {"flowPath": "ask.json"})
                assert ours.status == 200, ours.body
            with server(tmp_path, "--allow-net", "127.0.0.1") as served:
                done = served.ask("POST", "/v1/runs", {"flow": asking(url=endpoint.url)})
                assert done.status == 200, done.body

        await trio.to_thread.run_sync(talk)
        keys = [each.headers.get("authorization") for each in endpoint.requests]
        assert keys == ["Bearer sesame-sesame", None]


async def test_requests_of_a_submitted_flow_stay_out_of_private_networks(
    tmp_path: Path,
) -> None:
    def asking_for(url: str) -> dict[str, Any]:
        node = component("ApiNode", "ask", url=url, http_method="GET")
        return flow([start(), node, end()], ["start", "ask", "end"])

    def called(url: str) -> dict[str, Any]:
        uses = component("RemoteTool", "look", url=url, http_method="GET")
        node = component("ToolNode", "ask", tool=uses)
        return flow([start(), node, end()], ["start", "ask", "end"])

    async with http_stub(lambda asked: Answer({"a": 1})) as stub:
        (tmp_path / "flows").mkdir()
        own = json.dumps(asking_for(f"{stub.url}/own"))
        (tmp_path / "flows" / "own.json").write_text(own)

        def talk() -> None:
            with server(tmp_path, "--flows-root", "flows") as served:
                for plain in (asking_for(stub.url), called(stub.url)):
                    refused = served.ask("POST", "/v1/runs", {"flow": plain})
                    assert (refused.status, refused.error[0]) == (400, "SubmissionRefused")
                    assert "it is a private address" in refused.error[1]
                hidden = stub.url.replace("127.0.0.1", "{{host}}")
                body = {"flow": called(hidden), "inputs": {"host": "127.0.0.1"}}
                failed = served.ask("POST", "/v1/runs", body)
                assert failed.status == 500
                assert "not to be reached" in failed.error[1]
                assert stub.asked == []
                ours = served.ask("POST", "/v1/runs", {"flowPath": "own.json"})
                assert ours.json["state"] == {"response": {"a": 1}}

        await trio.to_thread.run_sync(talk)
    assert [each.path for each in stub.asked] == ["/own"]


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("StdioTransport", {"command": "sh"}, "starts no programs of the server"),
        (
            "StreamableHTTPTransport",
            {"url": "http://127.0.0.1:9/mcp"},
            "may not reach 127.0.0.1: it is a private address",
        ),
        ("SSETransport", {"url": "http://[::1]:9/mcp"}, "may not reach ::1"),
        (
            "StreamableHTTPmTLSTransport",
            {"url": "https://h/", "key_file": "k", "cert_file": "c", "ca_file": "a"},
            "certificates are files of the server",
        ),
    ],
)
def test_a_submitted_flow_uses_no_tool_servers_of_the_inside(
    kind: str, fields: dict[str, Any], words: str
) -> None:
    transport = component(kind, "things", **fields)
    uses = component("MCPTool", "add", client_transport=transport)
    in_node = component("ToolNode", "ask", tool=uses)
    in_agent = agent("ask")
    in_agent["agent"]["toolboxes"] = [
        component("MCPToolBox", "box", client_transport=transport)
    ]
    for node in (in_node, in_agent):
        public = model("http://h/v1")
        plain = flow([start(), node, end()], ["start", "ask", "end"], shared=[public])
        plan = make_plan(read_document(document(plain)))
        with pytest.raises(SubmissionRefused) as caught:
            Checker(Reach(())).check(Submitted("flow", plan, ()))
        assert words in str(caught.value)


def test_a_flow_that_asks_for_too_much_holds_up_nobody_else(tmp_path: Path) -> None:
    names = [f"a{n}" for n in range(30)]
    twice = {
        one: {"anyOf": [{"$ref": f"#/$defs/{other}"}, {"$ref": f"#/$defs/{other}"}]}
        for one, other in pairwise(names)
    }
    endless = prop("x", None, **{"$ref": "#/$defs/a0", "$defs": {**twice, "a29": False}})
    greedy = flow([start(inputs=[endless]), end()], ["start", "end"])
    body = json.dumps({"flow": greedy, "inputs": {"x": "text"}}).encode()
    with server(tmp_path) as served:
        address = ("127.0.0.1", served.port)
        with ExitStack() as stack:
            callers = [
                stack.enter_context(socket.create_connection(address)) for _ in range(4)
            ]
            for each in callers:
                each.sendall(
                    b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                    b"application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
                )
            took = []
            for _ in range(30):
                begun = time.monotonic()
                assert served.ask("POST", "/v1/runs", {"flow": STRAIGHT}).status == 200
                took.append(time.monotonic() - begun)
            # Still at it: neither answered nor in the way.
            assert not select.select(callers, [], [], 0)[0]
        assert sorted(took)[15] < 1
