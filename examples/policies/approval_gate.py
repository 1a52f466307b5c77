"""Refuses shell commands that destroy things.

Settings: {"tool": "shell", "refuse": ["rm", "sudo"]}, which tool runs commands and the
words that none of them may hold. A word counts where it stands alone: "rm" is not in
"charm".
"""

import re

from heddle.plugin import Before, BeforeVerdict, Context, proceed, reject, serve

REFUSED = ["rm", "sudo", "mkfs", "dd"]


def before(event: Before, ctx: Context) -> BeforeVerdict:
    if event.subject.tool_name != ctx.component.get("tool", "shell"):
        return proceed()
    # All arguments, whatever they are called: a gate must not depend on a name.
    words = re.findall(r"[\w.-]+", str(event.input))
    for word in ctx.component.get("refuse", REFUSED):
        if word in words:
            return reject(f"destructive command: {word}")
    return proceed()


handlers = {"ApprovalGate": {"toolCall": {"before": before}}}

if __name__ == "__main__":
    serve(handlers)
