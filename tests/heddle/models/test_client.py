"""The client gives an answer or a typed error, whatever the other side does."""

import json
import socket
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio

from heddle import __version__
from heddle.models import (
    HttpEndpoint,
    ModelClient,
    ModelError,
    ModelProtocolError,
    ModelRateLimited,
    ModelRefused,
    ModelServerError,
    ModelTimedOut,
    ModelUnreachable,
    RequestInvalid,
    Timeouts,
)
from heddle.models.client import room_for_calls
from plugins_host.conversation import Message, ModelRequest, ModelResponse, ToolCall, Usage
from tests.heddle.models.support import KEY, ask, endpoint_at
from tests.support.model_endpoint import Call, ModelEndpoint, Reply, model_endpoint

TEXT = "Hello, brave new world. "
CALLS = [Call("add", '{"a": 2, "b": 3}'), Call("list", '{"deep": true}')]
ANSWER = ModelResponse(
    content=TEXT,
    finish_reason="tool_calls",
    tool_calls=(
        ToolCall("call_1", "add", '{"a": 2, "b": 3}'),
        ToolCall("call_2", "list", '{"deep": true}'),
    ),
    usage=Usage(3, 5),
)


@asynccontextmanager
async def client_and(
    *replies: Reply, timeouts: Timeouts | None = None, max_calls: int | None = None
) -> AsyncIterator[tuple[ModelClient, HttpEndpoint, ModelEndpoint]]:
    """A client, a server with ``replies``, and the endpoint between them."""
    async with (
        model_endpoint(*replies) as server,
        ModelClient(environ={}, timeouts=timeouts, max_calls=max_calls) as client,
    ):
        yield client, endpoint_at(server.url), server


async def answer_to(
    reply: Reply, *, streamed: bool, timeouts: Timeouts | None = None, **fields: Any
) -> tuple[ModelResponse, list[str]]:
    """What one call makes of one reply, and the pieces of text it handed on."""
    pieces: list[str] = []
    async with client_and(reply, timeouts=timeouts) as (client, endpoint, _):
        response = await client.chat(
            endpoint, ask(**fields), on_text=pieces.append if streamed else None
        )
    return response, pieces


async def error_of(
    reply: Reply, *, streamed: bool = False, timeouts: Timeouts | None = None
) -> ModelError:
    """The error that one call makes of one reply."""
    with pytest.raises(ModelError) as caught:
        await answer_to(reply, streamed=streamed, timeouts=timeouts)
    return caught.value


def connections(client: ModelClient) -> int:
    """How many connections the client holds, idle ones included."""
    return client.open_connections


both = pytest.mark.parametrize("streamed", [False, True], ids=["buffered", "streamed"])


# Good answers, in every disguise


@pytest.mark.parametrize(
    "disguise",
    [
        {},
        {"newline": "\r\n"},
        {"newline": "\r"},
        {"comments": True},
        {"done": False},
        {"piece": 1},
        {"choices": 2},
        {"fragments": "cut"},
        {"fragments": "backwards"},
        {"framing": "length"},
        {"framing": "chunked"},
        {"framing": "close"},
        {"framing": "close", "done": False, "newline": "\r\n"},
        {"interim": True},
        {"cut": 1},
        {"cut": 7, "newline": "\r\n", "comments": True, "fragments": "backwards"},
        {"delay": 0.02},
        {
            "headers": {
                "Content-Type": "Text/Event-Stream; charset=utf-8",
                "X-Long": "x" * 9000,
            }
        },
    ],
    ids=str,
)
async def test_a_streamed_answer_is_the_same_in_every_disguise(disguise: Any) -> None:
    reply = Reply(TEXT, CALLS, **disguise)

    response, pieces = await answer_to(reply, streamed=True)

    assert response == ANSWER
    assert "".join(pieces) == TEXT
    assert len(pieces) >= 4


@pytest.mark.parametrize(
    "disguise",
    [
        {},
        {"choices": 2},
        {"framing": "chunked"},
        {"framing": "close"},
        {"interim": True},
        {"cut": 1},
        {"delay": 0.02},
        {"headers": {"Content-Type": "text/plain"}},
    ],
    ids=str,
)
async def test_a_whole_answer_is_the_same_in_every_disguise(disguise: Any) -> None:
    response, _ = await answer_to(Reply(TEXT, CALLS, **disguise), streamed=False)

    assert response == ANSWER


@both
async def test_no_content_is_empty_text(streamed: bool) -> None:
    response, pieces = await answer_to(Reply(None, CALLS), streamed=streamed)

    assert response.content == ""
    assert len(response.tool_calls) == 2
    assert pieces == []


@both
async def test_unknown_usage_is_absent(streamed: bool) -> None:
    response, _ = await answer_to(Reply("x", usage=None), streamed=streamed)

    assert response.usage is None


@both
async def test_a_megabyte_goes_either_way(streamed: bool) -> None:
    text = "long " * 200_000

    async with client_and(Reply(text, piece=400)) as (client, endpoint, server):
        response = await client.chat(
            endpoint, ask(text), on_text=(lambda piece: None) if streamed else None
        )

    assert response.content == text
    assert server.requests[0].body["messages"][0]["content"] == text


async def test_a_whole_answer_to_a_streamed_request_is_handed_on_in_one_piece() -> None:
    whole = json.dumps(
        {"choices": [{"message": {"content": "a b"}, "finish_reason": "stop"}]}
    )
    reply = Reply(body=whole, headers={"content-type": "application/json"})

    response, pieces = await answer_to(reply, streamed=True)

    assert response.content == "a b"
    assert pieces == ["a b"]


async def test_a_stream_that_was_not_asked_for_is_read_all_the_same() -> None:
    event = '{"choices": [{"delta": {"content": "a b"}, "finish_reason": "stop"}]}'
    reply = Reply(body=f"data: {event}\n\n", headers={"content-type": "text/event-stream"})

    response, _ = await answer_to(reply, streamed=False)

    assert response.content == "a b"


@both
async def test_the_responses_protocol_is_spoken_too(streamed: bool) -> None:
    pieces: list[str] = []
    async with client_and(Reply(TEXT, CALLS)) as (client, _, server):
        response = await client.chat(
            endpoint_at(server.url, "responses"),
            ask(),
            on_text=pieces.append if streamed else None,
        )

    assert response == ANSWER
    assert server.requests[0].target == "/v1/responses"
    assert "".join(pieces) == (TEXT if streamed else "")


async def test_a_request_says_who_asks_and_for_whom() -> None:
    async with client_and() as (client, endpoint, server):
        await client.chat(endpoint, ask())
        await client.chat(endpoint_at(server.url, api_key=None), ask())

    first, second = server.requests
    assert first.method == "POST"
    assert first.target == "/v1/chat/completions"
    assert {name: first.headers.get(name) for name in ("host", "user-agent")} == {
        "host": server.url.removeprefix("http://").removesuffix("/v1"),
        "user-agent": f"heddle/{__version__}",
    }
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.headers["content-type"] == "application/json"
    assert "authorization" not in second.headers


async def test_structured_output_is_asked_for_and_comes_back() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "list": {"type": "array"}},
    }

    async with client_and() as (client, endpoint, _):
        response = await client.chat(
            endpoint, ask(response_format="json", response_schema=schema)
        )

    assert json.loads(response.content) == {"n": 7, "list": ["S"]}


# Refusals


async def test_a_refusal_tells_status_message_and_when_to_come_back() -> None:
    error = await error_of(Reply(status=429, headers={"Retry-After": "7"}), streamed=True)

    assert type(error) is ModelRateLimited
    assert (error.status, error.retry_after_ms, error.retryable) == (429, 7000, True)
    assert "429" in str(error)
    assert "llm_config 'model' (http://127.0.0.1:" in str(error)


@both
async def test_a_failing_gateway_is_told_from_a_limited_rate(streamed: bool) -> None:
    page = "<html><head><title>502 Bad Gateway</title></head>" + "x" * 1_000_000
    reply = Reply(status=502, body=page, headers={"Content-Type": "text/html"})

    error = await error_of(reply, streamed=streamed)

    assert type(error) is ModelServerError
    assert error.provider_message == "an HTML page titled '502 Bad Gateway'"
    assert error.retryable


@pytest.mark.parametrize("end", ["close", "reset", "hang"])
async def test_an_error_that_breaks_off_is_still_that_error(end: Any) -> None:
    reply = Reply(status=503, body="overloaded " * 50, cut=100, end=end, after=150)

    error = await error_of(reply, timeouts=Timeouts(silence=0.1))

    assert type(error) is ModelServerError
    assert error.status == 503
    assert end == "reset" or error.provider_message.startswith("overloaded over")


async def test_a_redirect_is_not_followed() -> None:
    reply = Reply(status=307, headers={"Location": "http://127.0.0.1:1/v1?key=x"}, body="")

    error = await error_of(reply)

    assert type(error) is ModelRefused
    assert "points to http://127.0.0.1:1/v1. Redirects are not followed" in str(error)


async def test_an_error_in_the_middle_of_a_stream_is_the_providers() -> None:
    event = '{"error": {"message": "overloaded", "code": 529}}'

    error = await error_of(Reply(events=[event]), streamed=True)

    assert type(error) is ModelServerError
    assert (error.status, error.provider_message) == (529, "overloaded")


@both
async def test_a_page_instead_of_an_answer_is_no_answer(streamed: bool) -> None:
    reply = Reply(
        body="<html><title>Log in</title></html>", headers={"Content-Type": "text/html"}
    )

    error = await error_of(reply, streamed=streamed)

    assert type(error) is ModelProtocolError
    assert "the answer is an HTML page titled 'Log in', not JSON. Check the url" in str(
        error
    )


async def test_an_encoding_that_was_not_asked_for_is_refused() -> None:
    error = await error_of(Reply("x", headers={"Content-Encoding": "gzip"}))

    assert type(error) is ModelProtocolError
    assert "encoded as 'gzip'" in str(error)
    response, _ = await answer_to(
        Reply("x", headers={"Content-Encoding": "identity"}), streamed=False
    )
    assert response.content == "x"


async def test_what_is_no_json_is_quoted() -> None:
    error = await error_of(Reply(body="Not Found"))

    assert type(error) is ModelProtocolError
    assert "'Not Found'" in str(error)


async def test_a_stream_without_a_finish_reason_is_an_error() -> None:
    error = await error_of(Reply("Hel", finish=""), streamed=True)

    assert type(error) is ModelProtocolError
    assert "the stream ended without a finish reason" in str(error)
    assert error.retryable


@both
async def test_an_endless_answer_is_refused(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heddle.models.call.MAX_BODY", 100_000)

    error = await error_of(Reply("x " * 200_000, piece=100, cut=50_000), streamed=streamed)

    assert type(error) is ModelProtocolError
    assert "the answer exceeds" in str(error)


async def test_endless_headers_are_refused() -> None:
    error = await error_of(Reply("x", headers={"X-Long": "x" * 300_000}))

    assert type(error) is ModelProtocolError
    assert "the headers of the answer exceed" in str(error)


async def test_a_request_that_json_cannot_hold_is_told() -> None:
    async with client_and() as (client, endpoint, server):
        for request in (ask("\ud800"), ask(parameters={"x": object()})):
            with pytest.raises(RequestInvalid, match="cannot be written as JSON"):
                await client.chat(endpoint, request)

    assert server.requests == []


# Broken connections


@both
@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize(
    ("after", "point"),
    [(0, "before an answer"), (20, "in the middle"), (300, "in the middle of the answer")],
)
async def test_a_connection_that_breaks_is_told_with_where_it_was(
    streamed: bool, end: Any, after: int, point: str
) -> None:
    reply = Reply(TEXT * 20, end=end, after=after)

    error = await error_of(reply, streamed=streamed)

    assert type(error) is ModelUnreachable
    assert point in str(error)
    assert error.retryable


async def test_what_arrived_before_a_stream_broke_was_handed_on() -> None:
    pieces: list[str] = []
    async with client_and(Reply("Hel lo", end="close", after=500)) as (client, endpoint, _):
        with pytest.raises(ModelUnreachable, match="in the middle of the answer"):
            await client.chat(endpoint, ask(), on_text=pieces.append)

    assert pieces
    assert "Hel lo".startswith("".join(pieces))


async def test_an_answer_that_is_whole_counts_though_the_connection_breaks() -> None:
    whole = len(
        b"".join(
            [
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n",
                b"transfer-encoding: chunked\r\n\r\n",
            ]
        )
    )
    event = '{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}'
    size = len(f"data: {event}\n\n")
    after = whole + len(f"{size:x}\r\n") + size + 2

    reply = Reply(events=[event], end="close", after=after)
    response, _ = await answer_to(reply, streamed=True)

    assert response == ModelResponse("x")


async def test_nobody_there_is_told_with_what_to_check() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with ModelClient(environ={}) as client:
            with pytest.raises(ModelUnreachable) as caught:
                await client.chat(endpoint_at(f"http://127.0.0.1:{port}"), ask())

    assert str(caught.value) == (
        f"llm_config 'model' (http://127.0.0.1:{port}): no connection to "
        f"127.0.0.1:{port}: Connection refused. Check the url, and that the model server "
        "runs."
    )
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("code", "retryable"), [(socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)]
)
async def test_a_name_without_an_address_is_told(
    code: int, retryable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_address(*_: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(code, "Name or service not known")

    monkeypatch.setattr(trio, "open_tcp_stream", no_address)
    async with ModelClient(environ={}) as client:
        with pytest.raises(
            ModelUnreachable, match="no address for nowhere.invalid"
        ) as caught:
            await client.chat(endpoint_at("http://nowhere.invalid"), ask())

    assert caught.value.retryable is retryable


async def test_a_machine_without_room_for_files_is_told() -> None:
    for failure in (OSError(24, "any words"), OSError("Too many open files")):

        async def no_room(*_: Any, failure: OSError = failure) -> None:
            await trio.lowlevel.checkpoint()
            raise failure

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trio, "open_tcp_stream", no_room)
            async with ModelClient(environ={}) as client:
                with pytest.raises(ModelUnreachable, match="host: Too many open files"):
                    await client.chat(endpoint_at("http://host"), ask())


async def test_of_several_addresses_the_last_says_why() -> None:
    async def several(*_: Any) -> None:
        await trio.lowlevel.checkpoint()
        failures = [OSError(113, "one"), OSError(111, "two")]
        raise OSError("all attempts failed") from ExceptionGroup("all", failures)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trio, "open_tcp_stream", several)
        async with ModelClient(environ={}) as client:
            with pytest.raises(ModelUnreachable, match="host.example: Connection refused"):
                await client.chat(endpoint_at("http://host.example"), ask())


async def test_a_last_event_without_its_end_counts() -> None:
    event = '{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}'
    reply = Reply(
        body=f"data: {event}",
        headers={"content-type": "text/event-stream"},
        framing="close",
    )

    response, pieces = await answer_to(reply, streamed=True)

    assert response.content == "x"
    assert pieces == ["x"]


def test_the_open_files_decide_how_many_calls_run_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import resource

    for soft, expected in ((1024, 768), (4, 8), (resource.RLIM_INFINITY, 1_000_000)):
        limits = (soft, soft)
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        assert room_for_calls() == expected


@asynccontextmanager
async def server_of(
    serve: Callable[[trio.SocketStream], Any],
) -> AsyncIterator[str]:
    """The URL of a TCP server that is not HTTP."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def test_a_server_that_speaks_something_else_is_told() -> None:
    async def ssh(stream: trio.SocketStream) -> None:
        await stream.send_all(b"SSH-2.0-OpenSSH_9.6\r\n")
        await trio.sleep_forever()

    async with server_of(ssh) as url, ModelClient(environ={}) as client:
        with pytest.raises(ModelProtocolError, match="the answer is not HTTP"):
            await client.chat(endpoint_at(url), ask())


async def test_an_answer_before_the_request_was_read_is_an_answer() -> None:
    async def impatient(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(
            b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"
        )
        await stream.send_eof()
        # Reads on, so that the answer is not lost in a reset.
        while await stream.receive_some(100_000):
            pass

    async with server_of(impatient) as url, ModelClient(environ={}) as client:
        with pytest.raises(ModelRefused, match="answered 413.*big"):
            await client.chat(endpoint_at(url), ask("x" * 5_000_000))


# Time


async def test_a_slow_first_byte_times_out() -> None:
    error = await error_of(Reply("x", delay=30), timeouts=Timeouts(first_byte=0.1))

    assert type(error) is ModelTimedOut
    assert "timed out after 0.1 s waiting for the first byte of the answer" in str(error)
    assert error.retryable
    assert error.status is None


@both
@pytest.mark.parametrize("after", [30, 300])
async def test_silence_inside_the_answer_times_out(streamed: bool, after: int) -> None:
    reply = Reply(TEXT * 20, end="hang", after=after)

    error = await error_of(reply, streamed=streamed, timeouts=Timeouts(silence=0.1))

    assert type(error) is ModelTimedOut
    assert "timed out after 0.1 s waiting for the next piece of the answer" in str(error)


async def test_an_answer_that_keeps_coming_does_not_time_out() -> None:
    reply = Reply("x" * 300, cut=40, pause=0.03)

    response, _ = await answer_to(
        reply, streamed=False, timeouts=Timeouts(first_byte=10, silence=0.25)
    )

    assert response.content == "x" * 300


async def test_a_request_timeout_bounds_the_whole_call() -> None:
    async with client_and(Reply("x" * 300, cut=10, pause=0.05)) as (client, _, server):
        with pytest.raises(
            ModelTimedOut, match="timed out after 0.2 s waiting for the end"
        ):
            await client.chat(endpoint_at(server.url, timeout=0.2), ask())


async def test_a_request_timeout_bounds_even_what_never_stops_coming() -> None:
    async def torrent(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while True:
            await stream.send_all(b": nothing but comments\n" * 3000)

    async with server_of(torrent) as url, ModelClient(environ={}) as client:
        with pytest.raises(ModelError) as caught:
            await client.chat(endpoint_at(url, timeout=0.1), ask(), on_text=print)
        assert connections(client) == 0

    assert type(caught.value) in (ModelTimedOut, ModelProtocolError)


async def test_bytes_without_end_behind_done_are_left_behind() -> None:
    async def torrent(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        event = b'{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}'
        await stream.send_all(b"data: " + event + b"\n\ndata: [DONE]\n\n")
        with suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"x" * 200_000)

    async with server_of(torrent) as url, ModelClient(environ={}) as client:
        response = await client.chat(endpoint_at(url), ask(), on_text=lambda piece: None)
        assert response.content == "x"
        assert connections(client) == 0


async def test_a_tls_handshake_that_is_never_answered_times_out() -> None:
    async def silent(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    timeouts = Timeouts(connect=0.1)
    async with (
        server_of(silent) as url,
        ModelClient(environ={}, timeouts=timeouts) as client,
    ):
        secure = url.replace("http:", "https:")
        with pytest.raises(ModelTimedOut, match=r"after 0\.1 s waiting for a connection"):
            await client.chat(endpoint_at(secure), ask())
        assert connections(client) == 0


async def test_a_server_that_does_not_read_times_out() -> None:
    async def deaf(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    timeouts = Timeouts(first_byte=0.1)
    async with server_of(deaf) as url, ModelClient(environ={}, timeouts=timeouts) as client:
        with pytest.raises(ModelTimedOut, match=r"timed out after 0\.1 s"):
            await client.chat(endpoint_at(url), ask("x" * 50_000_000))
        assert connections(client) == 0


async def test_usage_that_never_comes_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("heddle.models.call._USAGE_PATIENCE", 0.1)
    event = '{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}'
    reply = Reply(events=[event, event.replace("stop", "late")], end="hang", after=180)

    response, _ = await answer_to(reply, streamed=True)

    assert response.content == "x"
    assert response.usage is None


async def test_an_answer_that_is_whole_counts_though_the_call_is_out_of_time() -> None:
    event = '{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}'
    reply = Reply(events=[event, event.replace("stop", "late")], end="hang", after=180)

    async with client_and(reply) as (client, _, server):
        hurried = endpoint_at(server.url, timeout=0.2)
        response = await client.chat(hurried, ask(), on_text=lambda piece: None)
        assert response.content == "x"
        assert connections(client) == 0


async def test_a_body_that_never_ends_behind_done_is_left_behind() -> None:
    reply = Reply("x", end="hang", framing="close")

    async with client_and(reply) as (client, endpoint, server):
        response = await client.chat(endpoint, ask(), on_text=lambda piece: None)
        assert response.content == "x"
        assert connections(client) == 0
        await client.chat(endpoint, ask())
        assert server.connections == 2


# Connections are kept


@both
async def test_calls_one_after_the_other_share_a_connection(streamed: bool) -> None:
    async with client_and(Reply("a"), Reply(status=500), Reply("c")) as (
        client,
        endpoint,
        server,
    ):
        for _ in range(5):
            try:
                await client.chat(
                    endpoint, ask(), on_text=(lambda piece: None) if streamed else None
                )
            except ModelServerError:
                continue
        assert server.connections == 1
        assert len(server.requests) == 5
        assert connections(client) == 1


async def test_endpoints_of_one_origin_share_connections() -> None:
    async with client_and() as (client, endpoint, server):
        await client.chat(endpoint, ask())
        await client.chat(endpoint_at(server.url, api_key=None), ask())

        assert server.connections == 1


async def test_connections_to_one_origin_expire_while_another_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with client_and() as (client, endpoint, _), model_endpoint() as other:
        await client.chat(endpoint, ask())
        assert connections(client) == 1
        monkeypatch.setattr("heddle.models.client._IDLE_PATIENCE", 0.0)

        await client.chat(endpoint_at(other.url), ask())

        assert connections(client) == 1


async def test_many_calls_at_once_are_kept_apart() -> None:
    async with client_and() as (client, endpoint, server), trio.open_nursery() as nursery:

        async def call(number: int) -> None:
            for turn in range(5):
                text = f"{number}.{turn}"
                pieces: list[str] = []
                response = await client.chat(
                    endpoint, ask(text), on_text=pieces.append if turn % 2 else None
                )
                assert response.content == f"ECHO:{text}"

        for number in range(100):
            nursery.start_soon(call, number)

    assert len(server.requests) == 500
    assert server.connections <= 100


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("trusted", [0.0, 60.0])
async def test_a_kept_connection_that_the_server_closed_is_replaced_unseen(
    end: Any, trusted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heddle.http.wires.SocketWire.trusted", trusted)
    async with client_and(Reply("a", end=end), Reply("b")) as (
        client,
        endpoint,
        server,
    ):
        assert (await client.chat(endpoint, ask())).content == "a"
        await server.reached(lambda: server.open_connections == 0)
        assert connections(client) == 1

        assert (await client.chat(endpoint, ask())).content == "b"

        assert server.connections == 2
        assert len(server.requests) == 2


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("after", [0, 30])
async def test_a_request_that_was_delivered_is_not_sent_again(end: Any, after: int) -> None:
    async with client_and(Reply("a"), Reply("b", end=end, after=after)) as (
        client,
        endpoint,
        server,
    ):
        await client.chat(endpoint, ask())

        with pytest.raises(ModelUnreachable):
            await client.chat(endpoint, ask())

        assert len(server.requests) == 2
        assert connections(client) == 0


async def test_a_kept_connection_on_which_nobody_answers_times_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As where the network lost the request.
    monkeypatch.setattr("heddle.http.wires._acknowledged", lambda sock: 0)
    async with client_and(
        Reply("a"), Reply("b", delay=30), timeouts=Timeouts(first_byte=1.0)
    ) as (client, endpoint, server):
        await client.chat(endpoint, ask())

        with pytest.raises(ModelTimedOut, match="waiting for the first byte"):
            await client.chat(endpoint, ask())

        assert len(server.requests) == 2
        assert server.connections == 1


async def test_where_the_system_does_not_tell_nothing_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("heddle.http.wires._acknowledged", lambda sock: None)
    monkeypatch.setattr("heddle.http.wires.SocketWire.trusted", 60.0)
    async with client_and(Reply("a", end="close")) as (client, endpoint, server):
        await client.chat(endpoint, ask())
        await server.reached(lambda: server.open_connections == 0)

        with pytest.raises(ModelUnreachable):
            await client.chat(endpoint, ask())

        assert (await client.chat(endpoint, ask())).content == "ECHO:hi"


async def test_an_answer_that_says_close_is_the_last_on_its_connection() -> None:
    async with client_and(Reply("a", framing="close"), Reply("b")) as (
        client,
        endpoint,
        server,
    ):
        await client.chat(endpoint, ask())
        assert connections(client) == 0
        await client.chat(endpoint, ask())
        assert server.connections == 2


async def test_more_calls_than_allowed_wait_their_turn() -> None:
    most = 0
    async with client_and(max_calls=3) as (client, endpoint, server):
        server.respond = lambda asked: Reply("x", delay=0.01)

        async def call() -> None:
            nonlocal most
            await client.chat(endpoint, ask())
            most = max(most, server.open_connections)

        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(call)

    assert most <= 3
    assert server.connections == 3
    assert len(server.requests) == 12


async def test_a_call_that_gave_up_waiting_takes_nobodys_turn() -> None:
    async with client_and(max_calls=1) as (client, endpoint, server):
        server.respond = lambda asked: Reply("x", delay=0.05)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.chat, endpoint, ask("first"))
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(0):
                await client.chat(endpoint, ask("gave up"))

        assert (await client.chat(endpoint, ask("later"))).content == "x"
        said = [asked.body["messages"][0]["content"] for asked in server.requests]
        assert said == ["first", "later"]


async def test_more_endpoints_than_are_kept_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("heddle.models.client._MAX_ROUTES", 2)
    async with client_and() as (client, _, server):
        for number in range(5):
            await client.chat(endpoint_at(f"{server.url}?n={number}"), ask())
        assert connections(client) == 1
        assert server.connections == 3


# The end of a call


async def test_an_error_of_the_listener_ends_the_call() -> None:
    def listener(piece: str) -> None:
        raise ZeroDivisionError(piece)

    async with client_and(Reply("a b c", end="hang", after=500)) as (client, endpoint, _):
        with pytest.raises(ZeroDivisionError):
            await client.chat(endpoint, ask(), on_text=listener)
        assert connections(client) == 0


@both
async def test_a_call_can_be_cancelled_at_every_schedule_point(streamed: bool) -> None:
    finished = 0
    async with client_and() as (client, endpoint, server):
        server.respond = lambda asked: Reply(TEXT * 2, CALLS, cut=150)
        for steps in range(120):

            async def call() -> None:
                nonlocal finished
                await client.chat(
                    endpoint, ask(), on_text=(lambda piece: None) if streamed else None
                )
                finished += 1

            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            assert connections(client) <= 1

        assert 0 < finished < 120
        server.respond = lambda asked: Reply("still well")
        assert (await client.chat(endpoint, ask())).content == "still well"
        await server.reached(lambda: server.open_connections == 1)


@both
@pytest.mark.parametrize("after", [0, 10, 100, 200, 500])
async def test_a_cancelled_call_leaves_nothing_behind(streamed: bool, after: int) -> None:
    reply = Reply(TEXT * 50, end="hang", after=after)
    async with client_and(reply) as (client, endpoint, server):
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                await client.chat(
                    endpoint, ask(), on_text=(lambda piece: None) if streamed else None
                )

            nursery.start_soon(call)
            await server.reached(lambda: bool(server.requests))
            await trio.testing.wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()

        assert connections(client) == 0
        assert (await client.chat(endpoint, ask("again"))).content == "ECHO:again"


async def test_a_call_can_be_cancelled_while_it_sends() -> None:
    async def deaf(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with server_of(deaf) as url, ModelClient(environ={}) as client:
        with trio.move_on_after(0.1):
            await client.chat(endpoint_at(url), ask("x" * 50_000_000))
        assert connections(client) == 0


async def test_a_call_can_be_cancelled_while_it_connects() -> None:
    async def silent(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with server_of(silent) as url, ModelClient(environ={}) as client:
        with trio.move_on_after(0.1):
            await client.chat(endpoint_at(url.replace("http:", "https:")), ask())
        assert connections(client) == 0


async def test_closing_the_client_ends_open_calls_and_refuses_new_ones() -> None:
    async with client_and(Reply("a", delay=30), Reply("b")) as (client, endpoint, server):
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                with pytest.raises(ModelUnreachable, match="closed by this side"):
                    await client.chat(endpoint, ask())

            nursery.start_soon(call)
            await server.reached(lambda: bool(server.requests))
            await client.aclose()

        assert connections(client) == 0
        with pytest.raises(ModelUnreachable, match="the client is closed"):
            await client.chat(endpoint, ask())


@both
@pytest.mark.parametrize("disguise", [{}, {"done": False}, {"status": 500}], ids=str)
async def test_the_client_can_be_closed_at_every_schedule_point_of_a_call(
    streamed: bool, disguise: Any
) -> None:
    ended: list[ModelError | None] = []
    async with model_endpoint() as server:
        server.respond = lambda asked: Reply(TEXT * 2, cut=150, **disguise)
        for steps in range(120):
            async with ModelClient(environ={}) as client, trio.open_nursery() as nursery:

                async def call(client: ModelClient = client) -> None:
                    try:
                        await client.chat(
                            endpoint_at(server.url),
                            ask(),
                            on_text=(lambda piece: None) if streamed else None,
                        )
                    except ModelError as error:
                        ended.append(error)
                    else:
                        ended.append(None)

                nursery.start_soon(call)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                await client.aclose()
            assert connections(client) == 0

    assert len(ended) == 120
    unreachable = [error for error in ended if type(error) is ModelUnreachable]
    assert 0 < len(unreachable) < 120
    assert all("closed" in str(error) for error in unreachable)


# Secrets


@both
@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=401, body=json.dumps({"error": {"message": f"bad key {KEY}"}})),
        Reply(status=403, body=f"<html><title>{KEY}</title>"),
        Reply(status=307, headers={"Location": f"http://host/{KEY}"}, body=""),
        Reply(status=500, body=f"{'x' * 480} {KEY}"),
        Reply(body=json.dumps({"error": {"message": KEY}})),
        Reply(body=f"not json {KEY}"),
        Reply(body=f"{'x' * 178} {KEY}"),
        Reply(body=f"<title>{KEY}</title>", headers={"Content-Type": "text/html"}),
        Reply(headers={"Content-Encoding": KEY}),
        Reply(
            body=f"data: {KEY}\n\ndata: x\n\n",
            headers={"content-type": "text/event-stream"},
        ),
        Reply(
            body=f"event: error\ndata: {KEY}\n\n",
            headers={"content-type": "text/event-stream"},
        ),
    ],
    ids=lambda reply: str(reply.status),
)
async def test_the_key_is_in_no_text_even_when_the_provider_repeats_it(
    reply: Reply, streamed: bool
) -> None:
    error = await error_of(reply, streamed=streamed)

    told = [str(error), repr(error), error.provider_message, repr(error.args)]
    told += traceback.format_exception(error)
    assert KEY not in "".join(told)
    assert KEY[:20] not in "".join(told)


async def test_the_conversation_reaches_the_provider_in_order() -> None:
    call = ToolCall("c1", "add", "{}")
    request = ModelRequest(
        model="m",
        messages=(
            Message("system", "s"),
            Message("user", "u"),
            Message("assistant", "", (call,)),
            Message("tool", "{}", tool_call_id="c1"),
        ),
    )

    async with client_and() as (client, endpoint, server):
        await client.chat(endpoint, request)

    roles = [message["role"] for message in server.requests[0].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
