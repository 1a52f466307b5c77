"""What the server of a campaign has on board: two policies, a tool and flows, all echoing.

Each run has a nonce in its inputs. The policies write the nonce that they see into the
state and tell it as an event, the tool answers with it, the model repeats it, and so do
the programs that requests bring along: data of another run would be seen by its nonce.
What a run wants of them is in its inputs too, and in the prompt.

    who, does    which policy ("Py", "Js") does what: see `Does`
    mode         what the model does: see `tests.pressure.models`
"""

import json
import re
import shutil
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.support.flows import (
    agent,
    component,
    end,
    flow,
    llm,
    model,
    prop,
    server_tool,
    start,
    tool,
)

NONCE: Final = re.compile(rb"nonce-[0-9a-z]+-[0-9]+-z")
"""A run's mark. It ends in a letter so that a mark cut short is not another's."""


class Does(StrEnum):
    """What a policy does when it is asked about a run."""

    GOES_ON = "go on"
    SLOW = "slow"
    CALLS = "call"
    """Has heddle run the tool for it, for this run."""

    THROWS = "throw"
    GARBAGE = "garbage"
    HANGS = "hang"


PYTHON: Final = """
import asyncio
from heddle.plugin import modify, proceed, serve

async def node(event, ctx):
    given = event.input
    nonce, does = given["nonce"], given["does"]
    ctx.emit_event("met", {"nonce": nonce})
    if given["who"] == "Py":
        if does == "slow":
            await asyncio.sleep(0.1)
        elif does == "call":
            said = await ctx.run_tool("echo", {"nonce": nonce})
            ctx.emit_event("called", said)
        elif does == "hang":
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass
        elif does == "throw":
            raise RuntimeError(f"{nonce} throws")
        elif does == "garbage":
            return {"action": f"garbage-{nonce}"}
    return modify({**given, "py": nonce})

async def tool(event, ctx):
    ctx.emit_event("tool", event.input)
    return proceed()

async def asked(event, ctx):
    ctx.emit_event("asked", {"messages": [m["content"] for m in event.input["messages"]]})
    return proceed()

serve({"Py": {"node": {"before": node}, "toolCall": {"before": tool},
              "modelCall": {"before": asked}}})
"""

JAVASCRIPT: Final = """
serve({ Js: {
  node: { async before(event, ctx) {
    const given = event.input;
    const { nonce, does } = given;
    ctx.emitEvent("met", { nonce });
    if (given.who === "Js") {
      if (does === "slow") await new Promise((on) => setTimeout(on, 100));
      if (does === "call") ctx.emitEvent("called", await ctx.runTool("echo", { nonce }));
      if (does === "hang") await new Promise(() => setInterval(() => {}, 60000));
      if (does === "throw") throw new Error(`${nonce} throws`);
      if (does === "garbage") return { action: `garbage-${nonce}` };
    }
    return { action: "modify", input: { ...given, js: nonce } };
  } },
  modelCall: { after({ outcome }, ctx) {
    if (!outcome.ok && [429, 500].includes(outcome.error.status)
        && ctx.attempt < ctx.maxAttempts) return { action: "retry", delayMs: 20 };
    return { action: "pass" };
  } },
} });
"""

SEAMS: Final = {
    "py": {"node": ["before"], "toolCall": ["before"], "modelCall": ["before"]},
    "js": {"node": ["before"], "modelCall": ["after"]},
}

# The second process outlives the first one when nobody ends the whole group, and the file
# is what a workspace may be too full for.
ECHO: Final = """#!/bin/sh
sleep 30 </dev/null >/dev/null 2>&1 &
given=$(cat)
echo "$given" > given.json || exit 3
printf '{"echoed":%s}' "$given"
"""

SUBMITTED_TOOL: Final = """
import json, sys
given = json.load(sys.stdin)
with open("given.json", "w") as file:
    file.write("x" * 65536)
print(json.dumps({"echoed": given}))
"""

SUBMITTED_PLUGIN: Final = {
    "py": """
from heddle.plugin import serve
serve({"Echo": {"execute": lambda input, ctx: {"output": {"echoed": input}}}})
""",
    "js": "serve({ Echo: { execute: (input) => ({ output: { echoed: input } }) } });",
}


def has_node() -> bool:
    """Whether there can be a policy in JavaScript."""
    return shutil.which("node") is not None


def languages() -> list[str]:
    """Those that plugins are written in here."""
    return ["py", "js"] if has_node() else ["py"]


def policies() -> list[str]:
    """The component types of the policies."""
    return [each.capitalize() for each in languages()]


def write_cast(folder: Path, model_url: str) -> list[str]:
    """Write all of it; the flags of the server that has it."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "echo").write_text(ECHO)
    (tools / "echo").chmod(0o755)
    flows = folder / "flows"
    flows.mkdir()
    for name, document in made_flows(model_url).items():
        (flows / f"{name}.json").write_text(json.dumps(document))
    flags = ["--tools-dir", str(tools), "--flows-root", str(flows)]
    for language in languages():
        flags += ["--plugin", _write_policy(folder, language)]
    return flags


def _write_policy(folder: Path, language: str) -> str:
    name = language.capitalize()
    source, suffix = (PYTHON, "py") if language == "py" else (JAVASCRIPT, "mjs")
    (folder / f"{language}.{suffix}").write_text(source)
    manifest = {
        "name": language,
        "version": "1",
        "capabilities": ["emitEvent", "runTool"],
        "components": [
            {"componentType": name, "kind": "middleware", "seams": SEAMS[language]}
        ],
    }
    path = folder / f"{language}.json"
    path.write_text(json.dumps(manifest))
    return str(path)


def made_flows(model_url: str) -> dict[str, dict[str, Any]]:
    """The flows by name. ``brought`` and ``plugin`` are for requests that bring code."""
    nonce, said = prop("nonce"), prop("echoed", None)
    endpoint = model(model_url)
    prompt = "{{nonce}} mode={{mode}}."
    wanted = [prop("nonce"), prop("mode")]
    echo = server_tool("echo", inputs=[nonce], outputs=[said])
    plain = tool("echo", inputs=[nonce], outputs=[said])
    brought = tool("brought", inputs=[nonce], outputs=[said])
    plugin = component("Echo", "plugin", inputs=[nonce], outputs=[said])
    asked = agent("agent", tools=[echo], system_prompt=prompt, inputs=wanted)
    asked["agent"]["inputs"] = wanted
    return {
        "straight": flow([start(), end()], ["start", "end"]),
        "tool": flow([start(), plain, end()], ["start", "echo", "end"]),
        "agent": flow(
            [start(), asked, end()], ["start", "agent", "end"], shared=[endpoint]
        ),
        "llm": flow(
            [start(), llm("llm", prompt), end()], ["start", "llm", "end"], shared=[endpoint]
        ),
        "brought": flow([start(), brought, end()], ["start", "brought", "end"]),
        "plugin": flow([start(), plugin, end()], ["start", "plugin", "end"]),
    }


def brought_tool() -> dict[str, str]:
    """A tool as a request brings it."""
    return {"name": "brought", "interpreter": "python3", "source": SUBMITTED_TOOL}


def brought_plugin(language: str) -> dict[str, Any]:
    """A plugin as a request brings it."""
    return {
        "name": "echo",
        "language": language,
        "source": SUBMITTED_PLUGIN[language],
        "manifest": {
            "name": "echoing",
            "version": "1",
            "components": [{"componentType": "Echo", "kind": "node"}],
        },
    }
