"""`retry_policy`: what is tried again, how often, after which wait; of models and tools."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from heddle.engine.faults import NodeFailed
from heddle.engine.plan import make_plan
from heddle.engine.retries import (
    MAX_RETRY_AFTER,
    MOST_AGAIN,
    Failure,
    Retries,
    is_retried,
    retry_delay,
)
from heddle.engine.run import Run
from heddle.engine.testing import FakeModels, FakeTools, policies, run_document
from heddle.engine.tool_servers import Offered, ToolAnswer, ToolServerFault
from heddle.engine.walk import Limits
from heddle.engine.work import Services
from heddle.events import Event, TokensDiscarded, Warned
from heddle.models import ModelError
from heddle.spec import DocumentError, RetryPolicy, read_document
from plugins_host import ModelResponse, ToolCall
from tests.support.flows import (
    agent,
    component,
    document,
    end,
    flow,
    llm,
    model,
    ref,
    start,
    tool,
)

Plain = dict[str, Any]
BUSY = ModelError("answered 503", status=503, retryable=True)


def asking(**policy: Any) -> bytes:
    return document(
        flow(
            [start(), llm("ask", "Why?"), end()],
            ["start", "ask", "end"],
            shared=[model(retry_policy=policy)],
        )
    )


@pytest.mark.parametrize(
    ("failure", "policy", "retried"),
    [
        (Failure(500), RetryPolicy(), True),
        (Failure(501), RetryPolicy(), False),
        (Failure(501), RetryPolicy(recoverable_statuses={"501": ()}), True),
        (Failure(503), RetryPolicy(service_error_retry_on_any_5xx=False), False),
        (Failure(409), RetryPolicy(), True),
        (Failure(429), RetryPolicy(), True),
        (Failure(400, retryable=True), RetryPolicy(), False),
        (Failure(401), RetryPolicy(), False),
        (Failure(302), RetryPolicy(), False),
        (Failure(429), RetryPolicy(recoverable_statuses={}), False),
        (
            Failure(418, codes=("x",)),
            RetryPolicy(recoverable_statuses={"418": ("x",)}),
            True,
        ),
        (Failure(418), RetryPolicy(recoverable_statuses={"418": ("x",)}), False),
        (Failure(retryable=True), RetryPolicy(), True),
        (Failure(), RetryPolicy(), False),
    ],
)
def test_the_policy_says_what_is_retried(
    failure: Failure, policy: RetryPolicy, retried: bool
) -> None:
    assert is_retried(failure, policy) is retried


@pytest.mark.parametrize(
    ("jitter", "status", "low", "high"),
    [
        (None, 503, 2, 2),
        ("full", 503, 0, 2),
        ("equal", 503, 1, 2),
        ("full_and_equal_for_throttle", 429, 1, 2),
        ("full_and_equal_for_throttle", 503, 0, 2),
        ("full_and_equal_for_throttle", None, 0, 2),
        ("decorrelated", 503, 2, 3),
    ],
)
def test_each_jitter_picks_within_its_bounds(
    jitter: Any, status: int | None, low: float, high: float
) -> None:
    rng = Random(1)
    policy = RetryPolicy(jitter=jitter, max_retry_delay=8)
    picked = [retry_delay(2, Failure(status), policy, rng=rng) for _ in range(200)]
    assert low <= min(picked) <= low + 0.2
    assert high - 0.2 <= max(picked) <= high


def test_what_is_picked_is_cut_to_the_longest_wait() -> None:
    """With full jitter the whole growth is picked from, as the specification has it."""
    rng = Random(1)
    policy = RetryPolicy(jitter="full", max_retry_delay=8)
    picked = [retry_delay(7, Failure(500), policy, rng=rng) for _ in range(200)]
    assert picked.count(8) > 150
    assert max(picked) == 8
    policy = RetryPolicy(jitter="decorrelated", max_retry_delay=8)
    assert retry_delay(7, Failure(500), policy, rng=rng) == 8


def test_a_service_may_ask_for_a_longer_wait_within_bounds() -> None:
    policy = RetryPolicy(jitter=None)
    rng = Random(1)
    for asked, waited in ((5_000, 5), (10**9, MAX_RETRY_AFTER), (1, 1)):
        failure = Failure(429, retry_after_ms=asked)
        assert retry_delay(1, failure, policy, rng=rng) == waited


def test_delays_grow_up_to_the_longest() -> None:
    policy = RetryPolicy(jitter=None, backoff_factor=10, max_retry_delay=8)
    rng = Random(1)
    delays = [retry_delay(n, Failure(500), policy, rng=rng) for n in (1, 2, 400)]
    assert delays == [1, 8, 8]


def test_a_longest_wait_below_the_first_is_refused() -> None:
    with pytest.raises(DocumentError, match="max_retry_delay"):
        read_document(asking(initial_retry_delay=5, max_retry_delay=1))


# --- model calls ------------------------------------------------------------------------


def models(answers: Iterable[str | Exception]) -> tuple[FakeModels, list[float]]:
    """A model that answers in turn, and when it was asked."""
    left, times = iter(answers), list[float]()

    def answer(_: object) -> str | Exception:
        times.append(trio.current_time())
        return next(left)

    return FakeModels(answer), times


async def test_a_model_call_is_made_again_after_the_waits_of_its_policy(
    autojump_clock: MockClock,
) -> None:
    fake, times = models([BUSY, BUSY, "because"])
    data = asking(max_attempts=2, jitter=None, max_retry_delay=3)
    result, events = await run_document(data, models=fake)
    assert result["generated_text"] == "because"
    assert times == [0, 1, 3]
    warned = [each.message for each in events if isinstance(each, Warned)]
    assert warned == [
        f"node 'ask': answered 503; trying again in {wait} s "
        f"(attempt {attempt} of 3, by the retry_policy)"
        for wait, attempt in (("1.0", 2), ("2.0", 3))
    ]


async def test_a_model_call_is_made_no_more_often_than_its_policy_says(
    autojump_clock: MockClock,
) -> None:
    fake, times = models([BUSY] * 9)
    with pytest.raises(NodeFailed, match="answered 503"):
        await run_document(asking(max_attempts=1, jitter=None), models=fake)
    assert times == [0, 1]
    fake, times = models([BUSY] * 9)
    with pytest.raises(NodeFailed, match="answered 503"):
        await run_document(asking(max_attempts=0), models=fake)
    assert len(times) == 1


async def test_no_policy_of_a_document_raises_the_ceiling_of_model_calls(
    autojump_clock: MockClock,
) -> None:
    fake, times = models([BUSY] * 9)
    events: list[Event] = []
    with pytest.raises(NodeFailed, match="answered 503"):
        await run_document(
            asking(max_attempts=8, jitter=None, backoff_factor=1),
            models=fake,
            events=events,
        )
    assert times == [0, 1, 2]
    told, *warned = [each.message for each in events if isinstance(each, Warned)]
    assert told == (
        "$.$referenced_components.model.retry_policy.max_attempts: it is tried again 2 "
        "times at most, and not 8. Write 2 or less."
    )
    assert [each.rpartition("(")[2][:14] for each in warned[:2]] == [
        "attempt 2 of 3",
        "attempt 3 of 3",
    ]
    assert warned[2:] == [
        "node 'ask': answered 503; not trying again, as its retry_policy would: there are "
        "at most 3 attempts at a model call"
    ]


async def test_a_failure_that_the_policy_does_not_name_stands() -> None:
    fake, times = models([ModelError("answered 400", status=400)] * 2)
    with pytest.raises(NodeFailed, match="answered 400"):
        await run_document(asking(), models=fake)
    assert len(times) == 1


async def test_text_of_an_attempt_that_failed_is_taken_back(
    autojump_clock: MockClock,
) -> None:
    class Breaking(FakeModels):
        async def chat(self, llm: Any, request: Any, *, on_text: Any) -> Any:
            self.requests.append(request)
            on_text("be")
            if len(self.requests) == 1:
                raise ModelError("the stream broke", retryable=True)
            return await super().chat(llm, request, on_text=None)

    _, events = await run_document(asking(), models=Breaking(["because"]), stream=True)
    assert [each.characters for each in events if isinstance(each, TokensDiscarded)] == [2]


async def test_policies_are_asked_about_each_attempt_and_decide_first(
    autojump_clock: MockClock,
) -> None:
    asked: list[tuple[int, int]] = []

    def after(event: Any, ctx: Any) -> Plain:
        asked.append((ctx.attempt, ctx.max_attempts))
        if not event.outcome.ok and ctx.attempt == 3:
            return {"action": "fail", "reason": "enough"}
        return {"action": "pass"}

    fake, times = models([BUSY] * 9)
    data = asking(max_attempts=7, jitter=None, backoff_factor=1)
    events: list[Event] = []
    with pytest.raises(NodeFailed, match="enough"):
        await run_document(
            data,
            models=fake,
            installed=policies(("Enough", {"modelCall": {"after": after}})),
            events=events,
        )
    assert asked == [(1, 3), (2, 3), (3, 3)]
    assert times == [0, 1, 2]


async def test_retries_of_a_policy_and_of_the_document_count_together(
    autojump_clock: MockClock,
) -> None:
    def after(event: Any, ctx: Any) -> Plain:
        return {"action": "retry"} if ctx.attempt == 1 else {"action": "pass"}

    fake, times = models([BUSY] * 9)
    events: list[Event] = []
    with pytest.raises(NodeFailed, match="answered 503"):
        await run_document(
            asking(max_attempts=2, jitter=None),
            models=fake,
            installed=policies(("Again", {"modelCall": {"after": after}})),
            events=events,
        )
    assert times == [0, 0, 1]
    warned = [each.message for each in events if isinstance(each, Warned)]
    assert "attempt 3 of 3, by the retry_policy" in warned[1]
    assert "not trying again, as its retry_policy would" in warned[2]


# --- how often at most ------------------------------------------------------------------


def test_nothing_is_tried_again_more_often_than_there_is_room_for() -> None:
    retries = Retries(RetryPolicy(max_attempts=10**9, initial_retry_delay=0))
    times = 0
    while retries.after(Failure(retryable=True)) is not None:
        times += 1
        assert times <= MOST_AGAIN
    assert times == MOST_AGAIN == 10


def retrying(kind: str, name: str, most: int, **fields: Any) -> Plain:
    return component(kind, name, retry_policy={"max_attempts": most}, **fields)


AT = {"url": "http://127.0.0.1:1/x", "http_method": "GET"}


def test_who_asks_for_more_is_warned_once_and_where() -> None:
    there = retrying("StreamableHTTPTransport", "there", 11, url="http://127.0.0.1:1/mcp")
    busy = component(
        "Agent",
        "busy",
        system_prompt="",
        llm_config=ref("model"),
        tools=[retrying("RemoteTool", "look", 12, **AT)],
        toolboxes=[retrying("MCPToolBox", "box", 13, client_transport=there)],
        transforms=[component("MessageSummarizationTransform", "short", llm=ref("model"))],
    )
    nodes = [
        start(),
        llm("ask", "Why?"),
        retrying("ApiNode", "call", 14, **AT),
        retrying("ApiNode", "fine", 10, **AT),
        component("AgentNode", "work", agent=busy),
        end(),
    ]
    shared = [model(retry_policy={"max_attempts": 3})]
    plain = {
        **flow(nodes, [each["id"] for each in nodes], shared=shared),
        "agentspec_version": "26.3.1",
    }
    warned = make_plan(read_document(document(plain))).graph.warnings
    told = [str(each).removeprefix("$.$referenced_components.") for each in warned]
    middle = ".retry_policy.max_attempts: it is tried again "
    assert [tuple(each.split(middle)) for each in told] == [
        ("model", "2 times at most, and not 3. Write 2 or less."),
        ("call", "10 times at most, and not 14. Write 10 or less."),
        ("work.agent.tools[0]", "10 times at most, and not 12. Write 10 or less."),
        ("work.agent.toolboxes[0]", "10 times at most, and not 13. Write 10 or less."),
        (
            "work.agent.toolboxes[0].client_transport",
            "10 times at most, and not 11. Write 10 or less.",
        ),
    ]


# --- tools of servers -------------------------------------------------------------------


class FakeServers:
    """Sessions that fail so often, and then offer and answer; keeps when it was asked."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked: list[tuple[str, float]] = []

    def _fail(self, what: str) -> None:
        self.asked.append((what, trio.current_time()))
        if self.failures:
            self.failures -= 1
            raise ToolServerFault("it is not there")

    async def offered(self, transport: Any, /, *, where: str) -> list[Offered]:
        self._fail("offered")
        return [Offered("add", "Adds.", {"type": "object"})]

    async def call(self, *_: Any, where: str) -> ToolAnswer:
        self._fail("call")
        return ToolAnswer("3")


async def with_servers(node: Plain, servers: FakeServers, fake: FakeModels) -> Plain:
    class Reaching:
        @asynccontextmanager
        async def sessions(self) -> AsyncIterator[FakeServers]:
            yield servers

    plain = flow([start(), node, end()], ["start", node["id"], "end"], shared=[model()])
    plain["agentspec_version"] = "26.3.1"
    reaching: Any = Reaching()
    services = Services(fake, FakeTools({}), lambda _: None, remote=reaching)
    run = Run(make_plan(read_document(document(plain))), services, Limits())
    return await run.execute({})


THINGS = component("StdioTransport", "things", command="things")
POLICY = {"max_attempts": 2, "jitter": None, "recoverable_statuses": {}}


async def test_a_tool_of_a_server_is_used_again_after_any_failure(
    autojump_clock: MockClock,
) -> None:
    uses = component("MCPTool", "add", client_transport=THINGS, retry_policy=POLICY)
    servers = FakeServers(2)
    result = await with_servers(tool("node", uses=uses), servers, FakeModels())
    assert result == {"result": "3"}
    assert servers.asked == [("call", 0), ("call", 1), ("call", 3)]
    servers = FakeServers(3)
    with pytest.raises(NodeFailed, match="it is not there"):
        await with_servers(tool("node", uses=uses), servers, FakeModels())
    assert len(servers.asked) == 3


@pytest.mark.parametrize("policy", [None, POLICY])
async def test_the_policy_of_a_toolbox_is_that_of_its_tools_and_of_looking_for_them(
    autojump_clock: MockClock, policy: Plain | None
) -> None:
    box = component("MCPToolBox", "box", client_transport=THINGS, retry_policy=policy)
    made = agent("work")
    made["agent"]["toolboxes"] = [box]
    calls = ModelResponse("", "tool_calls", (ToolCall("1", "add", "{}"),))
    servers = FakeServers(1)
    fake = FakeModels([calls, "done"])
    if policy is None:
        with pytest.raises(NodeFailed, match="it is not there"):
            await with_servers(made, servers, fake)
        assert servers.asked == [("offered", 0)]
    else:
        await with_servers(made, servers, fake)
        assert servers.asked == [("offered", 0), ("offered", 1), ("call", 1)]
