"""Requests on real sockets: what comes back, what goes wrong, what is tried again."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from heddle.engine.requests.request import HttpAnswer, HttpRequest
from heddle.remote import (
    RemoteError,
    RemoteProtocolError,
    RemoteRefused,
    RemoteService,
    RemoteTimedOut,
    RemoteUnreachable,
)
from heddle.remote import client as module
from heddle.spec import RetryPolicy
from tests.support.http_stub import Answer, Asked, Stub, http_stub

SECRET = "hush-hush-0123"


def request_to(stub: Stub, **fields: Any) -> HttpRequest:
    return HttpRequest(
        **{
            "method": "GET",
            "scheme": "http",
            "host": "127.0.0.1",
            "port": stub.port,
            "target": "/x",
            **fields,
        }
    )


async def sent(
    service: RemoteService,
    request: HttpRequest,
    policy: RetryPolicy | None = None,
    warnings: list[str] | None = None,
) -> HttpAnswer:
    warn = ([] if warnings is None else warnings).append
    return await service.send(request, policy, where="ApiNode 'ask'", warn=warn)


async def test_a_request_arrives_as_it_was_described() -> None:
    async with http_stub(lambda asked: Answer({"ok": True})) as stub:
        service = RemoteService({})
        request = request_to(
            stub, method="POST", target="/a?b=c", headers=(("X-H", "v"),), body=b"hello"
        )
        answer = await sent(service, request)
        await service.aclose()
    (asked,) = stub.asked
    assert answer == HttpAnswer(200, b'{"ok": true}')
    assert (asked.method, asked.target, asked.body) == ("POST", "/a?b=c", b"hello")
    assert asked.headers["x-h"] == "v"
    assert asked.headers["host"] == f"127.0.0.1:{stub.port}"
    assert asked.headers["user-agent"].startswith("heddle/")


async def test_connections_are_used_again_and_closed_in_the_end() -> None:
    async with http_stub(lambda asked: Answer(b"x" * 100)) as stub:
        service = RemoteService({})
        for method in ("GET", "POST", "DELETE"):
            await sent(service, request_to(stub, method=method))
        assert stub.connections == 1
        assert service.client.open_connections == 1
        await sent(service, request_to(stub, method="HEAD"))
        await service.aclose()
        assert service.client.open_connections == 0


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_an_answer_that_is_no_success_is_an_error_without_secrets(
    status: int,
) -> None:
    said = {"error": {"message": f"no {SECRET} here: " + "x" * 1000, "code": "nope"}}
    async with http_stub(lambda asked: Answer(said, status)) as stub:
        service = RemoteService({})
        request = request_to(stub, secrets=(f"Bearer {SECRET}",))
        with pytest.raises(RemoteRefused) as caught:
            await sent(service, request)
        await service.aclose()
    words = str(caught.value)
    assert f"ApiNode 'ask' (GET {stub.url}): answered {status}" in words
    assert "no *** here" in words
    assert SECRET not in words
    assert len(words) < 450
    assert (caught.value.status, caught.value.codes) == (status, ("nope",))


async def test_a_secret_that_is_cut_where_words_are_shortened_is_struck_out_whole() -> None:
    text = ("x" * (module.MAX_SAID - 5) + SECRET).encode()
    async with http_stub(lambda asked: Answer(text, 500)) as stub:
        service = RemoteService({})
        with pytest.raises(RemoteRefused) as caught:
            await sent(service, request_to(stub, secrets=(SECRET,)))
        await service.aclose()
    assert SECRET[:4] not in str(caught.value)


async def test_a_redirect_is_an_error_that_says_where_it_leads() -> None:
    moved = Answer(status=302, headers={"location": "http://me:pw@other/place?key=1"})
    async with http_stub(lambda asked: moved) as stub:
        service = RemoteService({})
        with pytest.raises(RemoteRefused) as caught:
            await sent(service, request_to(stub))
        await service.aclose()
    assert "answered 302 Found and points to http://other/place" in str(caught.value)
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer(b"x" * 3000), RemoteProtocolError, "the answer exceeds"),
        (
            Answer(b"x", headers={"content-encoding": "gzip"}),
            RemoteProtocolError,
            "encoded as 'gzip'",
        ),
        (Answer(b"xyz", cut=True), RemoteUnreachable, "before the answer was whole"),
        (
            Answer(hang=True),
            RemoteTimedOut,
            "timed out after 0.2 s. Raise 'request_timeout' of its 'retry_policy', or "
            "--tool-timeout where it has none.",
        ),
    ],
)
async def test_what_comes_badly_is_an_error_and_leaves_no_connection(
    answer: Answer, kind: type[RemoteError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 2000)
    async with http_stub(lambda asked: answer) as stub:
        service = RemoteService({}, patience=0.2 if answer.hang else 60)
        with pytest.raises(kind) as caught:
            await sent(service, request_to(stub))
        assert words in str(caught.value)
        # One whose answer was there to its end is none the worse.
        whole = answer.body != b"xyz" and not answer.hang
        assert service.client.open_connections == int(whole)
        await service.aclose()
        assert service.client.open_connections == 0


async def test_nobody_there_is_an_error_that_says_so() -> None:
    async with http_stub(lambda asked: Answer()) as stub:
        pass
    service = RemoteService({})
    with pytest.raises(RemoteUnreachable, match="no connection to 127.0.0.1") as caught:
        await sent(service, request_to(stub))
    await service.aclose()
    assert caught.value.retryable
    assert "model" not in str(caught.value)


async def test_a_request_that_is_cancelled_leaves_no_connection() -> None:
    async with http_stub(lambda asked: Answer(hang=True)) as stub:
        service = RemoteService({})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent, service, request_to(stub))
            await stub.arrived.wait()
            nursery.cancel_scope.cancel()
        assert service.client.open_connections == 0
        await service.aclose()


async def test_a_private_address_is_not_reached_where_that_is_forbidden() -> None:
    async with http_stub(lambda asked: Answer()) as stub:
        service = RemoteService({}, permit=lambda host, address: False)
        with pytest.raises(RemoteUnreachable, match="it is at a private address"):
            await sent(service, request_to(stub))
        await service.aclose()
    assert stub.asked == []


async def test_a_proxy_gets_the_request_in_absolute_form() -> None:
    async with http_stub(lambda asked: Answer(b"1")) as proxy:
        service = RemoteService({"http_proxy": f"http://me:pw@127.0.0.1:{proxy.port}"})
        request = HttpRequest("GET", "http", "far.example", 80, "/x")
        await sent(service, request)
        await service.aclose()
    assert proxy.asked[0].target == "http://far.example/x"
    assert proxy.asked[0].headers["proxy-authorization"].startswith("Basic ")


async def test_what_the_document_says_may_be_retried_is_and_each_time_is_told() -> None:
    answers: Iterator[Answer] = iter(
        [Answer(b"busy", 503), Answer(b"slow", 429), Answer(b'"well"')]
    )

    def answer(asked: Asked) -> Answer:
        return next(answers)

    policy = RetryPolicy(initial_retry_delay=0.01, max_retry_delay=0.01)
    warnings: list[str] = []
    async with http_stub(answer) as stub:
        service = RemoteService({})
        found = await sent(service, request_to(stub), policy, warnings)
        await service.aclose()
    assert found.body == b'"well"'
    # The port may have the digits of a status in it.
    assert [re.findall(r"\b(?:503|429)\b", each) for each in warnings] == [["503"], ["429"]]
    assert "(attempt 2 of 3, by the retry_policy)" in warnings[0]


@pytest.mark.parametrize(("policy", "times"), [(None, 1), (RetryPolicy(max_attempts=1), 2)])
async def test_without_a_policy_nothing_is_retried_and_with_one_not_for_ever(
    policy: RetryPolicy | None, times: int
) -> None:
    if policy is not None:
        policy = RetryPolicy(max_attempts=1, initial_retry_delay=0)
    async with http_stub(lambda asked: Answer(b"busy", 503)) as stub:
        service = RemoteService({})
        with pytest.raises(RemoteRefused):
            await sent(service, request_to(stub), policy)
        await service.aclose()
    assert len(stub.asked) == times
