"""The plugin that the tests of both runtimes ask: the same as contract.mjs."""

import asyncio
from typing import Any

from heddle.plugin import fail, modify, pass_, proceed, reject, replace, retry, serve


def seen_before(event: Any, ctx: Any) -> Any:
    return replace(
        {
            "subject": [
                event.subject.node_name,
                event.subject.node_type,
                event.subject.tool_name,
                event.subject.tool_call_id,
            ],
            "input": event.input,
            **seen_in(ctx),
        }
    )


def seen_after(event: Any, ctx: Any) -> Any:
    error = event.outcome.error
    return replace(
        {
            "input": event.input,
            "ok": event.outcome.ok,
            "value": event.outcome.value,
            "error": error
            and [error.name, error.message, error.status, error.retry_after_ms],
            **seen_in(ctx),
        }
    )


def seen_in(ctx: Any) -> dict[str, Any]:
    return {
        "component": ctx.component,
        "where": [ctx.seam, ctx.half],
        "attempt": [ctx.attempt, ctx.max_attempts],
        "admits": list(ctx.admits),
    }


def gate(event: Any, ctx: Any) -> Any:
    if "rm" in str(event.input.get("cmd")):
        return reject("destructive command")
    return proceed()


def redact(event: Any, ctx: Any) -> Any:
    return modify({**event.input, "secret": "***"})


def vandal(event: Any, ctx: Any) -> Any:
    event.input["cmd"] = "vandalised"
    ctx.component["vandalised"] = True
    return proceed()


def edit(event: Any, ctx: Any) -> Any:
    return modify({"model": "small"})


def edit_as(event: Any, ctx: Any) -> Any:
    return modify(ctx.component["input"])


def throws(event: Any, ctx: Any) -> Any:
    raise ValueError("no luck today")


def prints(event: Any, ctx: Any) -> Any:
    print('{"id": 1, "result": "forged"}')
    return proceed()


def circular(event: Any, ctx: Any) -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return replace(value)


async def slow(event: Any, ctx: Any) -> Any:
    await asyncio.sleep(ctx.component["seconds"])
    return proceed()


async def until_cancelled(event: Any, ctx: Any) -> Any:
    ctx.log("info", "waiting")
    await ctx.signal.wait()
    return proceed()


async def asks(event: Any, ctx: Any) -> Any:
    try:
        found = await ctx.run_tool("lookup", {"key": event.input.get("key")})
    except Exception as error:
        return reject(f"{error.name}: {error}")  # type: ignore[attr-defined]
    return replace({"found": found})


async def asks_model(event: Any, ctx: Any) -> Any:
    answer = await ctx.call_model({"messages": [{"role": "user", "content": "hi"}]})
    return replace(answer)


def tells(event: Any, ctx: Any) -> Any:
    ctx.emit_event("seen", {"tool": event.subject.tool_name})
    ctx.log("warn", "careful")
    return pass_()


def again(event: Any, ctx: Any) -> Any:
    return retry(delay_ms=250)


def ends(event: Any, ctx: Any) -> Any:
    return fail("enough")


def execute(given: Any, ctx: Any) -> Any:
    if given.get("where"):
        return {"output": {"folder": ctx.get_workspace()}}
    text = given["text"].upper() + ctx.node.get("suffix", "")
    return {"output": {"text": text}, "branch": "done"}


def apply(messages: Any, ctx: Any) -> Any:
    last = {**messages[-1], "content": f"[{ctx.phase}] {messages[-1]['content']}"}
    return {"action": "modify", "messages": [*messages[:-1], last]}


async def chat(request: Any, ctx: Any) -> Any:
    content = request["messages"][-1]["content"] + ctx.component.get("suffix", "")
    if not ctx.stream:
        return {"content": content, "finish_reason": "stop"}
    for letter in content:
        ctx.partial({"content": letter})
    return {"content": "", "finish_reason": "stop"}


def encode(event: Any, ctx: Any) -> Any:
    return [{"event": event["type"], "data": ctx.run_id}]


def finish(ctx: Any) -> Any:
    return [{"data": "bye"}]


def read(params: Any, ctx: Any) -> Any:
    return None if params["id"] == "none" else {**params, "config": ctx.component}


def write_checkpoint(params: Any, ctx: Any) -> Any:
    return {"wrote": params["checkpoint"]}


if __name__ == "__main__":
    serve(
        {
            "Seen": {
                "toolCall": {"before": seen_before, "after": seen_after},
                "node": {"before": seen_before, "after": seen_after},
            },
            "Gate": {"toolCall": {"before": gate}},
            "Redactor": {"toolCall": {"before": redact}},
            "Vandal": {"toolCall": {"before": vandal}},
            "Edit": {
                "modelCall": {"before": edit},
                "toolCall": {"before": edit},
                "node": {"before": edit},
            },
            "OtherHalf": {"toolCall": {"before": lambda event, ctx: pass_()}},
            "EditAs": {"modelCall": {"before": edit_as}},
            "SeenModel": {"modelCall": {"before": seen_before}},
            "Throws": {"toolCall": {"before": throws}},
            "Nothing": {"toolCall": {"before": lambda event, ctx: None}},
            "Text": {"toolCall": {"before": lambda event, ctx: "proceed"}},
            "Prints": {"toolCall": {"before": prints}},
            "Circular": {"toolCall": {"before": circular}},
            "Unknown": {"toolCall": {"before": lambda event, ctx: {"action": "aprove"}}},
            "Slow": {"toolCall": {"before": slow}},
            "Waits": {"toolCall": {"before": until_cancelled}},
            "Asks": {"toolCall": {"before": asks}},
            "AsksModel": {"toolCall": {"before": asks_model}},
            "Tells": {"toolCall": {"after": tells}},
            "Again": {"nodeError": {"after": again}},
            "Ends": {"node": {"after": ends}},
            "Upper": {"execute": execute},
            "Prefix": {"apply": apply},
            "Parrot": {"chat": chat},
            "Lines": {"encode": encode, "finish": finish},
            "Wordy": {"encode": lambda event, ctx: "frames"},
            "Silent": {"encode": lambda event, ctx: []},
            "Box": {"read": read, "writeCheckpoint": write_checkpoint},
        },
        tools={
            "add": lambda given, ctx: {"output": {"sum": given["a"] + given["b"]}},
            "broken": lambda given, ctx: {"sum": 1},
        },
        list_tools=lambda: {"tools": [{"name": "add"}]},
        shutdown=lambda: print("goodbye"),
    )
