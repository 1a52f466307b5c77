"""`retry_policy` of a transport over HTTP: its requests, sent again by a fake clock."""

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from heddle.http import ConnectFailed
from heddle.models.endpoint import Origin, TlsFiles
from heddle.spec import RetryPolicy, StreamableHTTPTransport

httpx2 = pytest.importorskip("httpx2")
POLICY = RetryPolicy(jitter=None)


class Answered:
    """A connection on which an answer has arrived."""

    complete = True

    def __init__(self, status: int, body: bytes = b"", **headers: bytes) -> None:
        self.status = status
        self.headers = {k.replace("_", "-").encode(): v for k, v in headers.items()}
        self.size = len(body)
        self._body = body

    def take(self) -> bytes:
        body, self._body = self._body, b""
        return body


class Client:
    """Answers in turn; None never does. Keeps when it was asked and what it got back."""

    def __init__(self, *answers: Answered | Exception | None) -> None:
        self._answers = iter(answers)
        self.times: list[float] = []
        self.given_back: list[Any] = []
        self.asked: list[Origin] = []

    async def begin(self, _method: str, origin: Origin, *_: Any) -> tuple[Any, Any]:
        self.times.append(trio.current_time())
        self.asked.append(origin)
        answer = next(self._answers)
        if answer is None:
            await trio.sleep_forever()
        if isinstance(answer, Exception):
            raise answer
        return answer, self

    def give_back(self, connection: Any) -> None:
        self.given_back.append(connection)


async def sent(
    client: Client, policy: RetryPolicy | None, url: str = "http://things.example/mcp"
) -> Any:
    from heddle.remote.mcp_transports import OwnConnections

    transport = StreamableHTTPTransport(id="t", name="things", url=url, retry_policy=policy)
    ours = OwnConnections(client, TlsFiles(), transport)  # type: ignore[arg-type]
    async with httpx2.AsyncClient(transport=ours) as http:
        return await http.post(url, content=b"{}")


async def test_a_request_is_sent_again_after_the_waits_of_the_policy(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    refused = ConnectFailed("there is nobody", retryable=True)
    good = Answered(200, b"[]")
    client = Client(Answered(503), refused, good)
    with caplog.at_level(logging.WARNING, "heddle.mcp"):
        response = await sent(client, POLICY)
    assert (response.status_code, response.content) == (200, b"[]")
    assert client.times == [0, 1, 3]
    assert len(client.given_back) == 2
    assert caplog.messages[0] == (
        "things: answered 503; trying again in 1.0 s (attempt 2 of 3, by the retry_policy)"
    )


@pytest.mark.parametrize("policy", [None, RetryPolicy(max_attempts=0)])
async def test_without_leave_a_request_is_sent_once(policy: RetryPolicy | None) -> None:
    client = Client(Answered(503, b"busy"))
    response = await sent(client, policy)
    assert (response.status_code, response.content) == (503, b"busy")
    client = Client(ConnectFailed("there is nobody", retryable=True))
    with pytest.raises(httpx2.ConnectError):
        await sent(client, policy)


async def test_what_the_policy_does_not_name_stands() -> None:
    for status in (400, 401, 404, 501):
        client = Client(Answered(status, b"no"))
        response = await sent(client, POLICY)
        assert (response.status_code, response.content) == (status, b"no")
    untrusted = Client(ConnectFailed("its certificate is not trusted", retryable=False))
    with pytest.raises(httpx2.ConnectError):
        await sent(untrusted, POLICY)
    assert len(untrusted.times) == 1


async def test_a_code_beside_a_status_and_a_wait_that_is_asked_for_count(
    autojump_clock: MockClock,
) -> None:
    policy = RetryPolicy(jitter=None, recoverable_statuses={"418": ("brewing",)})
    brewing = Answered(418, b'{"error": {"code": "brewing"}}', retry_after=b"7")
    client = Client(brewing, Answered(418, b'{"error": {"code": "empty"}}'))
    response = await sent(client, policy)
    assert response.status_code == 418
    assert client.times == [0, 7]


async def test_text_beyond_latin_in_a_header_stops_no_retry(
    autojump_clock: MockClock,
) -> None:
    busy = Answered(503, retry_after=b"2", server="你好".encode())
    client = Client(busy, Answered(200, b"[]"))
    response = await sent(client, POLICY)
    assert response.status_code == 200
    assert client.times == [0, 2]


async def test_each_attempt_has_the_time_that_the_policy_gives_it(
    autojump_clock: MockClock,
) -> None:
    policy = RetryPolicy(jitter=None, request_timeout=5, max_attempts=1)
    client = Client(None, Answered(200))
    assert (await sent(client, policy)).status_code == 200
    assert client.times == [0, 6]
    with pytest.raises(httpx2.ReadTimeout, match="timed out after 5 s"):
        await sent(Client(None, None), policy)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://bücher.example/mcp", Origin("http", "xn--bcher-kva.example", 80)),
        ("https://[::1]:8443/mcp", Origin("https", "::1", 8443)),
    ],
)
async def test_a_host_is_asked_by_the_name_that_goes_over_the_wire(
    url: str, origin: Origin
) -> None:
    client = Client(Answered(200, b"[]"))
    await sent(client, None, url)
    assert client.asked == [origin]


async def test_a_host_that_is_none_is_not_asked() -> None:
    client = Client()
    with pytest.raises(httpx2.ConnectError, match="host name cannot be encoded"):
        await sent(client, POLICY, "http://a..b/mcp")
    assert client.times == []
