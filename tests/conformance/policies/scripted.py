"""Policies that do what a script says, and tell what they were asked: as scripted.mjs.

The settings of each say where its script is, or are one:

    {"script": "/somewhere/script.json"}      looked up by what the policy is shown
    {"script": {"toolCall.before": entry}}    the same answer at that half, always; or a
                                              list, of which the first that fits counts

An entry, every field of which may be absent:

    verdict   the answer, as it is; consent when absent
    set       node, toolCall, modelCall: modify the input, with these keys in their place
    append    modelCall: modify the messages, with this one more of the user
    on        a node's name: it fits nowhere else
    delay     milliseconds to wait before answering
    block     the same, with the whole process standing still
    beat      a log line every so many milliseconds of the delay
    tool      run this tool of the run first, and tell what it returned
    exit      the process ends after so many milliseconds, whatever it is at
    does      throw · die · exit · hang · stubborn (hang, and ignore the cancellation)

What it was asked is told as the event ``asked``, what a tool returned as ``used``.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heddle.plugin import serve

Entry = dict[str, Any]

HALVES = (
    "nodeError.after",
    "node.before",
    "node.after",
    "toolCall.before",
    "toolCall.after",
    "modelCall.before",
    "modelCall.after",
    "agentRound.before",
    "agentRound.after",
)

# Policies of these names wait and run tools; those of the others are plain functions.
ASYNC = "ABCDEFGH"
PLAIN = "PQRS"

# Scripts by their file. They are the same for every run, so a process may keep them.
SCRIPTS: dict[str, dict[str, Entry]] = {}


def script_of(settings: dict[str, Any]) -> dict[str, Entry]:
    """The script that the settings name."""
    script = settings.get("script", {})
    if isinstance(script, dict):
        return script
    if script not in SCRIPTS:
        SCRIPTS[script] = json.loads(Path(script).read_text(encoding="utf-8"))
    return SCRIPTS[script]


def key_of(who: str, event: Any, ctx: Any) -> str:
    """What a script calls a question: made of nothing but what the policy is shown."""
    place = f"{ctx.seam}.{ctx.half}"
    parts = [who, place, event.subject.node_name, ctx.attempt, *detail(place, event)]
    return "|".join(map(str, parts))


def detail(place: str, event: Any) -> list[Any]:
    if place.endswith("after"):
        ok = "ok" if event.outcome.ok else "error"
        if place == "modelCall.after":
            outcome = event.outcome
            return [ok, outcome.value["content"] if outcome.ok else outcome.error.message]
        if place == "agentRound.after":
            return [event.outcome.value["round"]]
        return [ok, event.subject.tool_call_id]
    if place == "toolCall.before":
        return [event.subject.tool_call_id]
    if place == "modelCall.before":
        return [sum(each["role"] != "user" for each in event.input["messages"])]
    if place == "agentRound.before":
        return [event.input["round"]]
    return [event.input.get("n", "")]


def seen(who: str, event: Any, ctx: Any) -> dict[str, Any]:
    """All that a policy is shown, for who compares it with what it should be."""
    shown: dict[str, Any] = {}
    if ctx.half == "before" or ctx.seam == "toolCall":
        shown["input"] = event.input
    if ctx.half == "after":
        outcome = event.outcome
        shown["outcome"] = (
            {"ok": True, "value": outcome.value}
            if outcome.ok
            else {"ok": False, "name": outcome.error.name, "message": outcome.error.message}
        )
    return {
        "who": who,
        "place": f"{ctx.seam}.{ctx.half}",
        "node": event.subject.node_name,
        "type": event.subject.node_type,
        "tool": event.subject.tool_name,
        "attempt": ctx.attempt,
        "maxAttempts": ctx.max_attempts,
        "admits": list(ctx.admits),
        "settings": ctx.component,
        "shown": shown,
    }


def as_list(entries: Any) -> list[Entry]:
    return entries if isinstance(entries, list) else [entries]


def entry_for(who: str, event: Any, ctx: Any) -> Entry:
    """What to do."""
    script = script_of(ctx.component)
    if isinstance(ctx.component.get("script", {}), dict):
        entries: Any = script.get(f"{ctx.seam}.{ctx.half}", [])
        node = event.subject.node_name
        fits = (each for each in as_list(entries) if each.get("on", node) == node)
        return next(fits, {})
    key = key_of(who, event, ctx)
    if key not in script:
        raise KeyError(f"nobody foresaw the question {key}")
    return script[key]


def verdict_of(entry: Entry, event: Any, ctx: Any) -> Any:
    """What to answer."""
    if "set" in entry:
        return {"action": "modify", "input": {**event.input, **entry["set"]}}
    if "append" in entry:
        more = {"role": "user", "content": entry["append"]}
        return {"action": "modify", "input": {"messages": [*event.input["messages"], more]}}
    consent = {"action": "proceed" if ctx.half == "before" else "pass"}
    return entry.get("verdict", consent)


def misbehave(entry: Entry) -> None:
    match entry.get("does"):
        case "throw":
            raise ValueError("scripted trouble")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)


def plain(who: str) -> Callable[[Any, Any], Any]:
    """A policy whose handlers are plain functions."""

    def answer(event: Any, ctx: Any) -> Any:
        ctx.emit_event("asked", seen(who, event, ctx))
        entry = entry_for(who, event, ctx)
        time.sleep(entry.get("block", 0) / 1000)
        misbehave(entry)
        if entry.get("does") in ("hang", "stubborn"):
            time.sleep(600)
        return verdict_of(entry, event, ctx)

    return answer


def waiting(who: str) -> Callable[[Any, Any], Any]:
    """A policy whose handlers wait."""

    async def answer(event: Any, ctx: Any) -> Any:
        ctx.emit_event("asked", seen(who, event, ctx))
        entry = entry_for(who, event, ctx)
        if "exit" in entry:
            asyncio.get_running_loop().call_later(entry["exit"] / 1000, os._exit, 7)
        if "tool" in entry:
            found = await ctx.run_tool(entry["tool"], {"asked_by": who})
            used = {"who": who, "tool": event.subject.tool_name, "found": found}
            ctx.emit_event("used", used)
        if "block" in entry:
            await asyncio.sleep(0.01)  # what was told goes out first
            time.sleep(entry["block"] / 1000)  # noqa: ASYNC251  on purpose
        left = entry.get("delay", 0)
        while left > 0:
            step = min(left, entry.get("beat", left))
            await asyncio.sleep(step / 1000)
            left -= step
            if "beat" in entry:
                ctx.log("info", "still at it")
        misbehave(entry)
        while entry.get("does") in ("hang", "stubborn"):
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                if entry["does"] == "hang":
                    raise
        return verdict_of(entry, event, ctx)

    return answer


def everywhere(function: Callable[[Any, Any], Any]) -> dict[str, dict[str, Any]]:
    """The same function at every half of every seam."""
    handlers: dict[str, dict[str, Any]] = {}
    for place in HALVES:
        seam, _, half = place.partition(".")
        handlers.setdefault(seam, {})[half] = function
    return handlers


if __name__ == "__main__":
    if "--one-by-one" in sys.argv:
        from plugins_host.serving import answers

        answers.FEATURES = ()  # type: ignore[misc, assignment]
    serve(
        {
            **{name: everywhere(waiting(name)) for name in ASYNC},
            **{name: everywhere(plain(name)) for name in PLAIN},
        }
    )
