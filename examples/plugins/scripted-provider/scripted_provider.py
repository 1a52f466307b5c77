"""A provider that answers from a script: for demos and tests, without a model.

The script is in the flow. A conversation is given its first entry, then, when the model has
spoken once, the second, and so on; the last one is given again for ever. Nothing is kept
between calls, as one process serves every run.
"""

import asyncio
import json

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

    content = entry.get("content", "").replace("{{asked}}", messages[-1]["content"])
    calls = [
        {
            "id": f"call_{spoken}_{number}",
            "name": call["name"],
            "arguments": json.dumps(call.get("arguments", {})),
        }
        for number, call in enumerate(entry.get("calls", []))
    ]
    usage = {
        "inputTokens": sum(len(each["content"].split()) for each in messages),
        "outputTokens": len(content.split()),
    }
    answer = {"content": content, "finish_reason": "stop", "usage": usage}
    if calls:
        answer |= {"tool_calls": calls, "finish_reason": "tool_calls"}
    if ctx.stream:
        for piece in pieces(content):
            await asyncio.sleep(ctx.component.get("delay_ms", 0) / 1000)
            ctx.partial({"content": piece})
        answer["content"] = ""  # what is returned is the last piece, and adds no text
    return answer


def pieces(content):
    """Each word with the blanks after it."""
    rest = content
    while rest:
        word, blank, rest = rest.partition(" ")
        yield word + blank


serve({"ScriptedLlm": {"chat": chat}})
