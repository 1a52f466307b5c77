"""A provider that answers from a script: for demos and tests, without a model.

The script is in the flow. A conversation is given its first entry, then, when the model has
spoken once, the second, and so on; the last one is given again for ever. ``{{name}}`` in it
stands for what the conversation says of it: a value in the newest message that holds a JSON
object with that name. Nothing is kept between calls, as one process serves every run.
"""

import asyncio
import json
import re

from heddle.plugin import ProviderError, serve


async def chat(request, ctx):
    """The next entry of the script, word by word where somebody reads along."""
    script = ctx.component["script"]
    messages = request["messages"]
    spoken = sum(each["role"] == "assistant" for each in messages)
    entry = script[min(spoken, len(script) - 1)]
    if isinstance(entry, str):
        entry = {"content": entry}
    if "fail" in entry:
        raise ProviderError(entry["fail"], status=entry.get("status"))

    known = values(messages)
    content = filled(entry.get("content", ""), known)
    calls = [
        {
            "id": f"call_{spoken}_{number}",
            "name": call["name"],
            "arguments": json.dumps(filled(call.get("arguments", {}), known)),
        }
        for number, call in enumerate(entry.get("tool_calls", []))
    ]
    usage = {
        "inputTokens": sum(len(each["content"].split()) for each in messages),
        "outputTokens": len(content.split()),
    }
    answer = {"content": content, "finish_reason": "stop", "usage": usage}
    if calls:
        answer |= {"tool_calls": calls, "finish_reason": "tool_calls"}
    if ctx.stream:
        for piece in re.findall("[^ ]* |[^ ]+$", content):
            await asyncio.sleep(ctx.component.get("delay_ms", 0) / 1000)
            ctx.partial({"content": piece})
        answer["content"] = ""  # what is returned is the last piece, and adds no text
    return answer


def values(messages):
    """What the messages say by name, the newest last; ``asked`` is the last one itself."""
    known = {}
    for message in messages:
        try:
            said = json.loads(message["content"])
        except ValueError:
            continue
        if isinstance(said, dict):
            known.update(said)
    return {**known, "asked": messages[-1]["content"]}


def filled(value, known):
    """Texts with their placeholders filled in, however deep; unknown ones stay."""
    if isinstance(value, dict):
        return {key: filled(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, known) for inner in value]
    if not isinstance(value, str):
        return value

    def said(found):
        return text(known.get(found[1], found[0]))

    return re.sub(r"\{\{(\w+)\}\}", said, value)


def text(value):
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


serve({"ScriptedLlm": {"chat": chat}})
