"""A plugin of every kind that documents name, whose components do what they are told.

A module of heddle's (``manifest`` and ``handlers``), or a process (``serve``).
``kinds.mjs`` says the same in JavaScript.
"""

import asyncio
import os
import sys

from heddle.plugin import HostError, ProviderError, serve

ANY = {"type": "object"}
manifest = {
    "name": "kinds",
    "version": "1.0.0",
    "capabilities": ["runTool", "callModel", "emitEvent", "log"],
    "components": [
        {"componentType": "Say", "schema": ANY},
        {
            "componentType": "Choose",
            "inputs": [{"title": "text", "type": "string"}],
            "outputs": [{"title": "size", "type": "integer"}],
            "branches": ["left", "right"],
            "schema": {
                "type": "object",
                "properties": {"answer": {}, "knob": {"type": "object"}},
                "additionalProperties": False,
            },
        },
        {"componentType": "Busy"},
        {"componentType": "Stuck"},
        {
            "componentType": "Knob",
            "kind": "component",
            "schema": {"properties": {"level": {"type": "integer"}}, "required": ["level"]},
        },
        {"componentType": "Rewrite", "kind": "transform", "phase": "both"},
        {"componentType": "Late", "kind": "transform", "phase": "post"},
        {"componentType": "Early", "kind": "transform", "phase": "pre"},
        {"componentType": "Scripted", "kind": "provider", "stream": True},
        {"componentType": "Whole", "kind": "provider"},
        {"componentType": "PassingOn", "kind": "provider"},
    ],
}


def say(given, ctx):
    """The answer in the node's own fields."""
    return ctx.node["answer"]


async def busy(given, ctx):
    """All that a node may ask for."""
    doubled = await ctx.run_tool("double", {"n": given["n"]})
    try:
        said = await ctx.call_model({"messages": [{"role": "user", "content": "hi"}]})
    except HostError as error:
        if given.get("stubborn"):
            await asyncio.sleep(10)
            return {"output": {"went on": error.name}}
        raise
    ctx.emit_event("seen", {"n": given["n"]})
    ctx.log("warn", "busy")
    return {
        "output": {
            "tool": doubled,
            "model": said["content"],
            "workspace": ctx.get_workspace(),
            "model_id": ctx.node["llmConfig"]["model_id"],
        }
    }


async def stuck(given, ctx):
    """Nothing, ever; or the end of the process."""
    if given.get("die"):
        os._exit(7)
    await asyncio.sleep(60)


def rewrite(messages, ctx):
    """What the component says for this phase; "shout" is said louder."""
    decided = ctx.component.get(ctx.phase, {"action": "pass"})
    if decided != "shout":
        return decided
    louder = [{**each, "content": each["content"].upper()} for each in messages]
    return {"action": "modify", "messages": louder}


async def passing_on(request, ctx):
    """What the configuration's own model answers."""
    return await ctx.call_model({"messages": request["messages"]})


def chat(request, ctx):
    """The script in the configuration."""
    script = ctx.component
    if "fail" in script:
        told = script["fail"]
        raise ProviderError(
            told["message"],
            status=told.get("status"),
            retry_after_ms=told.get("retryAfterMs"),
            retryable=told.get("retryable"),
        )
    if script.get("echo"):
        said = request["messages"][-1]["content"]
        return {"content": f"{said} {ctx.stream}", "finish_reason": "stop"}
    for piece in script.get("pieces", []) if ctx.stream else []:
        ctx.partial(piece)
    return script["last"] if ctx.stream else script["whole"]


handlers = {
    "Say": {"execute": say},
    "Choose": {"execute": say},
    "Busy": {"execute": busy},
    "Stuck": {"execute": stuck},
    "Rewrite": {"apply": rewrite},
    "Late": {"apply": rewrite},
    "Early": {"apply": rewrite},
    "Scripted": {"chat": chat},
    "Whole": {"chat": chat},
    "PassingOn": {"chat": passing_on},
}

if __name__ == "__main__":
    if "--deaf" in sys.argv:
        handlers = {"Say": {}}
    serve(handlers)
