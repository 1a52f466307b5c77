"""Renders a run as AG-UI events, for frontends that speak that protocol.

heddle run flow.json --plugin agui_encoder.json --protocol ag-ui
POST /v1/runs?stream=true&protocol=ag-ui

    flow_start                RUN_STARTED
    node_start, …_complete    STEP_STARTED, STEP_FINISHED, STATE_SNAPSHOT
    token_delta, message      TEXT_MESSAGE_START, …_CONTENT, …_END
    tool_call, tool_result    TOOL_CALL_START, …_ARGS, …_END, …_RESULT
    flow_complete, error      RUN_FINISHED, RUN_ERROR
    anything else             CUSTOM
"""

import json
from typing import Any

from heddle.plugin import Context, serve

Frames = list[dict[str, Any]]


class Run:
    """What has been said of one run, and is not ended yet."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.messages = 0
        self.text_of: str | None = None
        """The node whose text is being streamed."""
        self.steps: list[str] = []
        self.state: dict[str, Any] = {}
        self.over = False

    @property
    def message_id(self) -> str:
        return f"{self.run_id}-{self.messages}"

    def end_text(self) -> Frames:
        """End the message that is being streamed, if one is."""
        if self.text_of is None:
            return []
        self.text_of = None
        return [event("TEXT_MESSAGE_END", messageId=self.message_id)]

    def end_step(self, name: str) -> Frames:
        """End the execution of a node."""
        if name not in self.steps:
            return []
        self.steps.remove(name)
        return [*self.end_text(), event("STEP_FINISHED", stepName=name)]

    def end_all(self) -> Frames:
        """End whatever is open, the newest first."""
        frames = self.end_text()
        for name in reversed(self.steps):
            frames.append(event("STEP_FINISHED", stepName=name))
        self.steps.clear()
        return frames


def event(kind: str, **fields: Any) -> dict[str, Any]:
    """One AG-UI event as a frame. The protocol's clients read the data alone."""
    return {"data": {"type": kind, **fields}}


class AgUi:
    """The encoder. One process serves many runs at once, so it keeps them apart."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}

    def encode(self, told: dict[str, Any], ctx: Context) -> Frames:
        run = self.runs.setdefault(ctx.run_id, Run(ctx.run_id))
        render = RENDERED.get(told["type"])
        if render is not None:
            return render(run, told)
        value = {key: each for key, each in told.items() if key != "type"}
        return [event("CUSTOM", name=f"heddle.{told['type']}", value=value)]

    def finish(self, ctx: Context) -> Frames:
        """A run that was told to its end needs no more; another one broke off."""
        run = self.runs.pop(ctx.run_id, None)
        if run is None or run.over:
            return []
        return [*run.end_all(), event("RUN_ERROR", message="the run broke off")]


def place(told: dict[str, Any]) -> str:
    """Which node an event is about; nodes of flows inside flows by their whole path."""
    return "/".join(map(str, told.get("nodePath") or [told["nodeName"]]))


def started(run: Run, _: dict[str, Any]) -> Frames:
    return [event("RUN_STARTED", threadId=run.run_id, runId=run.run_id)]


def step_started(run: Run, told: dict[str, Any]) -> Frames:
    name = place(told)
    frames = run.end_step(name)  # it is tried again
    run.steps.append(name)
    return [*frames, event("STEP_STARTED", stepName=name)]


def step_finished(run: Run, told: dict[str, Any]) -> Frames:
    frames = run.end_step(place(told))
    if told.get("nodePath"):
        return frames  # its state is that of a flow inside, and not the run's
    run.state = {**run.state, **told["state"]}
    return [*frames, event("STATE_SNAPSHOT", snapshot=run.state)]


def step_failed(run: Run, told: dict[str, Any]) -> Frames:
    value = {"nodeName": told["nodeName"], "error": told["error"]}
    return [
        *run.end_step(place(told)),
        event("CUSTOM", name="heddle.node_error", value=value),
    ]


def text(run: Run, told: dict[str, Any]) -> Frames:
    frames: Frames = []
    if not told["delta"]:
        return frames
    if run.text_of != place(told):
        frames += run.end_text()
        run.messages += 1
        run.text_of = place(told)
        begin = event("TEXT_MESSAGE_START", messageId=run.message_id, role="assistant")
        frames.append(begin)
    content = event("TEXT_MESSAGE_CONTENT", messageId=run.message_id, delta=told["delta"])
    return [*frames, content]


def text_discarded(run: Run, told: dict[str, Any]) -> Frames:
    """AG-UI takes no text back: the message ends, and what follows is another one."""
    value = {"messageId": run.message_id, "characters": told["characters"]}
    return [
        *run.end_text(),
        event("CUSTOM", name="heddle.token_discard", value=value),
    ]


def message(run: Run, told: dict[str, Any]) -> Frames:
    """A message that comes whole."""
    frames = run.end_text()
    run.messages += 1
    role = "user" if told["sender"] == "user" else "assistant"
    frames.append(event("TEXT_MESSAGE_START", messageId=run.message_id, role=role))
    if told["message"]:
        content = told["message"]
        frames.append(
            event("TEXT_MESSAGE_CONTENT", messageId=run.message_id, delta=content)
        )
    return [*frames, event("TEXT_MESSAGE_END", messageId=run.message_id)]


def tool_called(run: Run, told: dict[str, Any]) -> Frames:
    call = told["toolCallId"]
    arguments = json.dumps(told.get("toolArgs", {}))
    return [
        *run.end_text(),
        event("TOOL_CALL_START", toolCallId=call, toolCallName=told["toolName"]),
        event("TOOL_CALL_ARGS", toolCallId=call, delta=arguments),
        event("TOOL_CALL_END", toolCallId=call),
    ]


def tool_returned(run: Run, told: dict[str, Any]) -> Frames:
    run.messages += 1
    content = json.dumps(
        {"error": told["error"]} if "error" in told else told.get("toolResult", {})
    )
    return [
        event(
            "TOOL_CALL_RESULT",
            messageId=run.message_id,
            toolCallId=told["toolCallId"],
            content=content,
            role="tool",
        )
    ]


def completed(run: Run, told: dict[str, Any]) -> Frames:
    run.over = True
    return [
        *run.end_all(),
        event("RUN_FINISHED", threadId=run.run_id, runId=run.run_id, result=told["state"]),
    ]


def failed(run: Run, told: dict[str, Any]) -> Frames:
    run.over = True
    error = told["error"]
    return [
        *run.end_all(),
        event("RUN_ERROR", message=error["message"], code=error["name"]),
    ]


RENDERED = {
    "flow_start": started,
    "node_start": step_started,
    "node_complete": step_finished,
    "node_error": step_failed,
    "token_delta": text,
    "token_discard": text_discarded,
    "message": message,
    "tool_call": tool_called,
    "tool_result": tool_returned,
    "flow_complete": completed,
    "error": failed,
}

handlers = {"AgUi": AgUi}

if __name__ == "__main__":
    serve(handlers)
