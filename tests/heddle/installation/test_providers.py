"""Model calls that plugins answer, as a module and in processes of both runtimes."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from heddle.engine.faults import NodeFailed
from heddle.engine.testing import FakeTools, policies
from heddle.events import Event, FlowCompleted, TokenDelta
from heddle.installation import NONE_OPEN
from plugins_host import ModelResponse, ToolCall, Usage
from plugins_host.verbs.chatting import MAX_ANSWER, Assembly, Chunk
from plugins_host.verbs.rows import AnswerShape
from tests.heddle.kinds_support import HOMES, PROCESSES, Bench, one, opened, source
from tests.support.flows import agent, component, llm, server_tool

Plain = dict[str, Any]
USAGE = {"inputTokens": 3, "outputTokens": 5}


def provider(kind: str = "Scripted", **script: Any) -> Plain:
    """An LLM configuration that the plugin serves."""
    return component(kind, "p", **script)


def asking(config: Plain) -> bytes:
    return one(llm("ask", "hi", llm_config=config))


def deltas(events: list[Event]) -> list[str]:
    return [each.delta for each in events if isinstance(each, TokenDelta)]


async def told(bench: Bench, config: Plain, *, stream: bool) -> str:
    """What the run says that ends with a failed provider."""
    with pytest.raises(NodeFailed) as caught:
        await bench.run(asking(config), stream=stream)
    return str(caught.value)


@pytest.mark.parametrize("home", HOMES)
async def test_a_provider_answers_whole_and_in_pieces(home: str, tmp_path: Path) -> None:
    async with opened(source(home, tmp_path)) as bench:
        whole = provider(whole={"content": "hello", "finish_reason": "stop"})
        result, events = await bench.run(asking(whole))
        assert result == {"generated_text": "hello"}
        assert deltas(events) == []

        script = provider(
            pieces=[{"content": "hel"}, {"content": None}, {"content": "lo"}],
            last={"content": "!", "finish_reason": "stop", "usage": USAGE},
        )
        result, events = await bench.run(asking(script), stream=True)
        assert result == {"generated_text": "hello!"}
        assert deltas(events) == ["hel", "lo", "!"]
        (over,) = (each for each in events if isinstance(each, FlowCompleted))
        assert over.usage == Usage(3, 5)

        # One that cannot stream is shown whole.
        result, events = await bench.run(asking(provider("Whole", echo=True)), stream=True)
        assert result == {"generated_text": "hi False"}
        assert deltas(events) == ["hi False"]


@pytest.mark.parametrize("home", HOMES)
async def test_an_agent_calls_the_tools_that_a_provider_asks_for(
    home: str, tmp_path: Path
) -> None:
    first = {
        "pieces": [
            {"tool_calls": [{"index": 0, "id": "c1", "name": "look", "arguments": '{"n"'}]},
            {"tool_calls": [{"index": 1, "id": "c2", "name": "look"}]},
            {"tool_calls": [{"index": 0, "arguments": ": 1}"}]},
        ],
        "last": {
            "tool_calls": [{"index": 1, "arguments": '{"n": 2}'}],
            "finish_reason": "tool_calls",
        },
    }
    tools = FakeTools({"look": lambda n: {"seen": n}})
    asked = agent("a", tools=[server_tool("look")], llm_config=provider(**first))
    rounds: list[Any] = []

    def count(event: Any, _ctx: Any) -> Plain:
        rounds.append(event.input["round"])
        if len(rounds) == 2:
            return {"action": "reject", "reason": "seen enough"}
        return {"action": "proceed"}

    async with opened(source(home, tmp_path)) as bench:
        with pytest.raises(NodeFailed, match="seen enough"):
            await bench.run(
                one(asked),
                tools=tools,
                stream=True,
                policies=policies(("Count", {"agentRound": {"before": count}})),
            )
    assert sorted(given["n"] for _, given in tools.calls) == [1, 2]


@pytest.mark.parametrize("home", HOMES)
async def test_a_providers_error_says_what_policies_go_by(
    home: str, tmp_path: Path
) -> None:
    seen: list[Any] = []

    def after(event: Any, _ctx: Any) -> Plain:
        seen.append(event.outcome.error)
        return {"action": "retry"} if len(seen) == 1 else {"action": "pass"}

    watch = policies(("Again", {"modelCall": {"after": after}}))
    busy = {"message": "slow down", "status": 429, "retryAfterMs": 5}
    async with opened(source(home, tmp_path)) as bench:
        with pytest.raises(NodeFailed) as caught:
            await bench.run(asking(provider(fail=busy)), policies=watch)
    assert str(caught.value).endswith(
        "plugin 'kinds': the provider failed with ProviderError: 429: slow down"
    )
    assert [(e.name, e.status, e.retry_after_ms, e.retryable) for e in seen] == [
        ("ProviderFailed", 429, 5, True)
    ] * 2


@pytest.mark.parametrize("home", HOMES)
async def test_a_provider_may_pass_on_what_another_says(home: str, tmp_path: Path) -> None:
    busy = {"message": "slow down", "status": 429, "retryAfterMs": 5, "retryable": False}
    seen: list[Any] = []

    def after(event: Any, _ctx: Any) -> Plain:
        seen.append(event.outcome.error)
        return {"action": "pass"}

    watch = policies(("Watch", {"modelCall": {"after": after}}))
    async with opened(source(home, tmp_path)) as bench:
        inner = component("Scripted", "inner", echo=True)
        result, _ = await bench.run(asking(provider("PassingOn", llm_config=inner)))
        assert result == {"generated_text": "hi False"}
        inner = component("Scripted", "inner", fail=busy)
        with pytest.raises(NodeFailed, match="429: slow down"):
            await bench.run(asking(provider("PassingOn", llm_config=inner)), policies=watch)
    assert [(e.status, e.retry_after_ms, e.retryable) for e in seen] == [
        (429, 5, False)
    ] * 2


async def test_a_run_without_the_plugin_of_its_document_says_so(tmp_path: Path) -> None:
    async with opened(source("module", tmp_path)) as bench:
        written = asking(provider(echo=True))
        bench.plugins = NONE_OPEN
        with pytest.raises(NodeFailed, match="nobody to ask for 'Scripted'. Load plugin"):
            await bench.run(written)


WRONG_PIECES: dict[str, tuple[Plain, str]] = {
    "content that is no text": (
        {"pieces": [{"content": 7}], "last": {}},
        "Scripted chat (partial) $.content: expected 'str | null', got 'int'. Answer "
        "{content?: '…'",
    ),
    "an index below 0": (
        {"pieces": [{"tool_calls": [{"index": -1}]}], "last": {}},
        "Scripted chat (partial) $.tool_calls[0].index: -1 is no index. Count from 0.",
    ),
    "a call without an id": (
        {"pieces": [{"tool_calls": [{"index": 0, "name": "look"}]}], "last": {}},
        "Scripted chat $.tool_calls[0].id: this tool call has no 'id'. Give each call",
    ),
    "a last piece that is none": (
        {"pieces": [], "last": [1]},
        "kinds",
    ),
    "nothing at all": (
        {"pieces": [{}], "last": {"finish_reason": "stop"}},
        "Scripted chat $: there is no 'content'. Answer {content: '…'",
    ),
    "usage of the wrong form": (
        {"pieces": [], "last": {"content": "x", "usage": {"inputTokens": 1}}},
        "Scripted chat $.usage: there is no 'outputTokens'. Answer {content: '…'",
    ),
}


@pytest.mark.parametrize("home", HOMES)
async def test_a_provider_that_answers_wrongly_is_named_with_the_place(
    home: str, tmp_path: Path
) -> None:
    async with opened(source(home, tmp_path)) as bench:
        for name, (script, sentence) in WRONG_PIECES.items():
            said = await told(bench, provider(**script), stream=True)
            assert sentence in said, name
        result, _ = await bench.run(asking(provider("Whole", echo=True)))
        assert result == {"generated_text": "hi False"}, "and the next one is answered"


@pytest.mark.parametrize("home", PROCESSES[:1])
async def test_a_provider_may_answer_for_a_node_of_a_plugin_and_for_a_policy(
    home: str, tmp_path: Path
) -> None:
    async def ask(_event: Any, ctx: Any) -> Plain:
        said = await ctx.call_model({"messages": [{"role": "user", "content": "why"}]})
        return {"action": "reject", "reason": said["content"]}

    async with opened(source(home, tmp_path)) as bench:
        result, _ = await bench.run(
            one(component("Busy", "n", llm_config=provider(echo=True, model_id="m"))),
            {"n": 1},
            tools=FakeTools({"double": lambda n: {"n": n}}),
        )
        assert (result["model"], result["model_id"]) == ("hi False", "m")
        config = bench.read(asking(provider(echo=True))).root.nodes[1].llm_config
        with pytest.raises(NodeFailed, match="why False"):
            await bench.run(
                asking(provider(echo=True)),
                policies=policies(
                    ("Ask", {"modelCall": {"before": ask}}), models={"Ask": config}
                ),
            )


# --- pieces ---------------------------------------------------------------------------


def assembled(*pieces: Plain) -> ModelResponse:
    answer = Assembly()
    for piece in pieces:
        answer.add(msgspec.convert(piece, Chunk))
    return answer.response()


def test_a_whole_answer_is_one_piece() -> None:
    call = {"id": "c", "name": "look", "arguments": "{}"}
    answer = assembled({"content": "", "tool_calls": [call, {**call, "id": "d"}]})
    assert answer == ModelResponse(
        "", "tool_calls", (ToolCall("c", "look", "{}"), ToolCall("d", "look", "{}"))
    )
    assert assembled({"content": "x"}).finish_reason == "stop"


def test_an_answer_without_end_is_stopped() -> None:
    answer = Assembly()
    answer.add(Chunk("x" * (MAX_ANSWER - 1)))
    with pytest.raises(AnswerShape, match="longer than 64 MiB"):
        answer.add(Chunk("xx"))
