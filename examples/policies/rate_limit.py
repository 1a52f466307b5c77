"""Waits and asks a model again when it says that it is asked too much.

Settings: {"delayMs": 1000}, how long to wait when the provider does not say. heddle itself
bounds the attempts at three.
"""

import re

from heddle.plugin import After, AfterVerdict, Context, pass_, retry, serve


def after(event: After, ctx: Context) -> AfterVerdict:
    error = event.outcome.error
    if error is None:
        return pass_()
    if error.status != 429 and not re.search("429|timed out", error.message):
        return pass_()
    if error.retry_after_ms is not None:
        return retry(delay_ms=error.retry_after_ms)
    return retry(delay_ms=ctx.component.get("delayMs", 1000))


handlers = {"RateLimitPolicy": {"modelCall": {"after": after}}}

if __name__ == "__main__":
    serve(handlers)
