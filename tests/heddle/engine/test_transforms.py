"""Transforms of agents: of plugins, and Agent Spec's own."""

from pathlib import Path
from typing import Any

import pytest

from heddle.engine.faults import NodeFailed
from heddle.engine.plan import make_plan
from heddle.engine.summaries import MAX_CHARACTERS, Summaries
from heddle.engine.testing import FakeModels, FakeTools, run_document
from heddle.events import TokenDelta, Warned
from heddle.spec import DocumentError
from plugins_host import Message, ModelRequest, ModelResponse, ToolCall
from tests.heddle.kinds_support import HOMES, one, opened, source
from tests.support.flows import (
    agent,
    branching,
    component,
    data,
    document,
    edge,
    end,
    flow,
    model,
    prop,
    server_tool,
    start,
)

Plain = dict[str, Any]


def guarded(*transforms: Plain, **fields: Any) -> Plain:
    """An agent with transforms."""
    node = agent("a", **fields)
    node["agent"]["transforms"] = list(transforms)
    return node


def rewrite(kind: str = "Rewrite", name: str = "t", **phases: Any) -> Plain:
    return component(kind, name, **phases)


def said(text: str, role: str = "assistant", **more: Any) -> Plain:
    return {"role": role, "content": text, **more}


@pytest.mark.parametrize("home", HOMES)
async def test_a_transform_changes_what_is_sent_and_what_is_answered(
    home: str, tmp_path: Path
) -> None:
    async with opened(source(home, tmp_path)) as bench:
        models = FakeModels(["fine"])
        node = guarded(rewrite(pre="shout", post="shout"), system_prompt="Be kind.")
        result, events = await bench.run(
            one(node), {"q": "why"}, models=models, stream=True
        )
        assert models.requests[0].messages == (
            Message("system", "BE KIND."),
            Message("user", '{"Q":"WHY"}'),
        )
        assert result == {"q": "why", "result": "FINE"}
        assert not [each for each in events if isinstance(each, TokenDelta)]
        assert [each.message for each in events if isinstance(each, Warned)] == [
            "agent 'a-agent': its text is not streamed, because it goes through 't' first"
        ]

        # One that looks at requests only leaves the stream alone.
        models = FakeModels(["fine"])
        node = guarded(rewrite("Early", pre="shout", post="shout"))
        result, events = await bench.run(
            one(node), {"q": "why"}, models=models, stream=True
        )
        assert result["result"] == "fine"
        assert [e.delta for e in events if isinstance(e, TokenDelta)] == ["fin", "e"]
        assert not [each for each in events if isinstance(each, Warned)]


@pytest.mark.parametrize("home", HOMES)
async def test_a_transform_that_rejects_ends_the_agents_work(
    home: str, tmp_path: Path
) -> None:
    async with opened(source(home, tmp_path)) as bench:
        models = FakeModels()
        no = {"action": "reject", "reason": "rude"}
        result, _ = await bench.run(
            one(guarded(rewrite(pre=no), rewrite(name="u", pre="shout"))), models=models
        )
        assert result == {
            "transform_status": "rejected",
            "transform_reason": "rude",
            "transform_name": "t",
            "transform_phase": "pre",
        }
        assert models.requests == []

        no = {**no, "messages": [said("I would rather not.")]}
        result, _ = await bench.run(
            one(guarded(rewrite("Late", post=no))), models=FakeModels(["!"])
        )
        assert result["result"] == "I would rather not."
        assert (result["transform_phase"], result["transform_name"]) == ("post", "t")


REJECTS = guarded(
    rewrite(pre={"action": "reject", "reason": "rude"}), outputs=[prop("answer")]
)
NEEDS = component(
    "Agent",
    "needs",
    system_prompt="{{text}}",
    llm_config={"$component_ref": "model"},
    inputs=[prop("text")],
)
UNMADE = {
    "a lone agent": document(
        {**REJECTS["agent"], "$referenced_components": {"model": model()}}
    ),
    "an output of the flow": document(
        flow(
            [start(), REJECTS, end()],
            ["start", "a", "end"],
            shared=[model()],
            outputs=[prop("answer")],
        )
    ),
    "an input of another node": document(
        flow(
            [start(), REJECTS, component("AgentNode", "b", agent=NEEDS), end()],
            ["start", "a", "b", "end"],
            data_edges=[data("a", "answer", "b", "text")],
            shared=[model()],
        )
    ),
}


@pytest.mark.parametrize("name", UNMADE)
async def test_what_is_missing_because_a_transform_rejected_is_said_with_its_reason(
    name: str, tmp_path: Path
) -> None:
    async with opened(source(HOMES[0], tmp_path)) as bench:
        models = FakeModels()
        with pytest.raises(NodeFailed) as caught:
            await bench.run(UNMADE[name], models=models)
    assert "transform 't' rejected (pre) and ended its agent: rude" in str(caught.value)
    assert "Give the output a default, or have the flow go another way" in str(caught.value)
    assert models.requests == []


WRONG: dict[str, tuple[str, Any, str]] = {
    "another action": (
        "pre",
        {"action": "allow"},
        "Rewrite apply $.action: invalid enum value 'allow'. Answer {action: 'pass'}, "
        "{action: 'modify', messages: […]} or {action: 'reject', reason: '…'}.",
    ),
    "no messages": (
        "pre",
        {"action": "modify"},
        "Rewrite apply $.messages: 'modify' leaves no messages.",
    ),
    "no reason": (
        "pre",
        {"action": "reject", "reason": " "},
        "Rewrite apply $.reason: 'reject' has no 'reason'. Say why in a text.",
    ),
    "a message without content": (
        "pre",
        {"action": "modify", "messages": [{"role": "user"}]},
        "Rewrite apply $.messages[0]: there is no 'content'.",
    ),
    "an answer without its call": (
        "pre",
        {"action": "modify", "messages": [said("x", "tool", tool_call_id="c")]},
        "Rewrite apply $.messages: messages[0] answers the call 'c', which is gone.",
    ),
    "two answers": (
        "post",
        {"action": "modify", "messages": [said("x"), said("y")]},
        "Rewrite apply $.messages: these messages are of: assistant, assistant; after the "
        "model there is one, and it is the assistant's.",
    ),
    "an answer of the user": (
        "post",
        {"action": "modify", "messages": [said("x", "user")]},
        "these messages are of: user;",
    ),
}


@pytest.mark.parametrize("home", HOMES)
async def test_what_a_transform_answers_is_checked(home: str, tmp_path: Path) -> None:
    async with opened(source(home, tmp_path)) as bench:
        for name, (phase, wrong, sentence) in WRONG.items():
            with pytest.raises(NodeFailed) as caught:
                await bench.run(
                    one(guarded(rewrite(**{phase: wrong}))), models=FakeModels(["fine"])
                )
            assert sentence in str(caught.value), name
            assert "plugin 'kinds'" in str(caught.value), name


async def test_a_flow_branches_on_what_a_transform_decided(tmp_path: Path) -> None:
    asks = guarded(
        rewrite(pre={"action": "reject", "reason": "no"}), outputs=[prop("answer")]
    )
    branch = branching("b", {"rejected": "no"}, inputs=[prop("status", default="fine")])
    written = document(
        flow(
            [start(), asks, branch, end(), end("refused")],
            ["start", "a", "b"],
            [edge("b", "end", "default"), edge("b", "refused", "no")],
            data_edges=[data("a", "transform_status", "b", "status")],
            shared=[model()],
        )
    )
    async with opened(source("module", tmp_path)) as bench:
        _, events = await bench.run(written)
        assert "refused" in [getattr(each, "node_name", "") for each in events]


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        (component("Scripted", "t"), "'t' is of type Scripted, an LLM configuration of"),
        (
            component("MessageSummarizationTransform", "t", llm=component("Early", "m")),
            "'m' is of type Early, a transform of plugin 'kinds', where an LLM",
        ),
    ],
)
async def test_what_is_no_transform_is_refused(
    transform: Plain, sentence: str, tmp_path: Path
) -> None:
    async with opened(source("module", tmp_path)) as bench:
        with pytest.raises(DocumentError) as caught:
            make_plan(bench.read(one(guarded(transform))))
    assert sentence in str(caught.value)


# --- Agent Spec's own -------------------------------------------------------------------


def summarising(kind: str, **fields: Any) -> Plain:
    return component(
        f"{kind}SummarizationTransform", "s", llm={**model(), "id": "m"}, **fields
    )


class Summariser(FakeModels):
    """Summarises where it is told to; else asks for ``look`` a few times, then ends."""

    def __init__(self, rounds: int, content: str = "") -> None:
        super().__init__(self._reply)
        self.summarised: list[str] = []
        self.sent: list[tuple[Message, ...]] = []
        self._rounds = rounds
        self._content = content

    def _reply(self, request: ModelRequest) -> ModelResponse | str:
        if request.messages[0].content == "SUM":
            self.summarised.append(request.messages[1].content)
            return f"S{len(self.summarised)}"
        self.sent.append(request.messages)
        if len(self.sent) <= self._rounds:
            call = ToolCall(f"c{len(self.sent)}", "look", "{}")
            return ModelResponse(self._content, "tool_calls", (call,))
        return "done"


async def summarised(
    models: Summariser, transform: Plain, look: str = "x", **inputs: Any
) -> tuple[Plain, Any]:
    node = guarded(
        {**transform, "summarization_instructions": "SUM"},
        tools=[server_tool("look")],
        system_prompt="Do as I say.",
    )
    tools = FakeTools({"look": lambda: {"text": look}})
    return await run_document(one(node), inputs, models=models, tools=tools, stream=True)


async def test_long_messages_are_summarised_once_and_instructions_stay() -> None:
    models = Summariser(2)
    transform = summarising(
        "Message", max_message_size=30, summarized_message_template="<{{summary}}>"
    )
    result, events = await summarised(models, transform, look="y" * 40, q="z" * 40)
    assert result["result"] == "done"
    assert [text[:6] for text in models.summarised] == ['{"q":"', '{"text']
    last = models.sent[-1]
    assert [(each.role, each.content) for each in last] == [
        ("system", "Do as I say."),
        ("user", "<S1>"),
        ("assistant", ""),
        ("tool", "<S2>"),
        ("assistant", ""),
        ("tool", "<S2>"),
    ]
    deltas = "".join(each.delta for each in events if isinstance(each, TokenDelta))
    assert deltas == "done", "a summary is no text of the agent's"


async def test_a_long_conversation_is_summarised_and_calls_keep_their_answers() -> None:
    models = Summariser(3)
    transform = summarising(
        "Conversation", max_num_messages=4, min_num_messages=3, max_cache_size=0
    )
    await summarised(models, transform)
    assert [len(each) for each in models.sent] == [2, 4, 6, 6]
    assert [(each.role, each.content) for each in models.sent[-1]][:2] == [
        ("system", "Do as I say."),
        ("user", "Summarized conversation: S2"),
    ]
    assert [each.role for each in models.sent[-1]][2:] == ["assistant", "tool"] * 2
    assert models.summarised[0].startswith("user: {}")
    assert "assistant calls look({})" in models.summarised[1]


async def test_a_conversation_is_long_by_its_characters_too() -> None:
    models = Summariser(1)
    transform = summarising(
        "Conversation", max_num_messages=None, max_num_characters=20, min_num_messages=1
    )
    await summarised(models, transform, look="y" * 40)
    assert len(models.summarised) == 1


def test_summaries_are_bounded_in_number_age_and_size() -> None:
    now = 0.0
    kept = Summaries(2, 10, now=lambda: now)
    for text in "abc":
        kept.put(text, text.upper())
    assert [kept.get(text) for text in "abc"] == [None, "B", "C"]
    now = 10.0
    assert kept.get("c") is None
    kept.put("c", "D")
    assert (kept.get("c"), len(kept)) == ("D", 2)
    kept.put("e", "x" * MAX_CHARACTERS)
    kept.put("f", "y")
    assert (kept.get("e"), kept.get("f")) == (None, "y")
    nothing = Summaries(0, None)
    nothing.put("a", "A")
    assert nothing.get("a") is None
