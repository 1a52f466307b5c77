"""Tries a node again when it failed of something that may pass.

Settings: {"maxAttempts": 3}, how many attempts there may be for one arrival at a node.
"""

import re

from heddle.plugin import After, AfterVerdict, Context, pass_, retry, serve

MAY_PASS = re.compile(r"timed out|429|temporarily", re.IGNORECASE)


def after(event: After, ctx: Context) -> AfterVerdict:
    error = event.outcome.error
    if error is None or not MAY_PASS.search(error.message):
        return pass_()
    if ctx.attempt >= ctx.component.get("maxAttempts", 3):
        return pass_()
    return retry(delay_ms=100 * ctx.attempt)


handlers = {"RetryPolicy": {"nodeError": {"after": after}}}

if __name__ == "__main__":
    serve(handlers)
