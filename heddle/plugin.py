"""What a plugin is written with: ``serve``, the verdicts, and the types of what it sees.

    from heddle.plugin import pass_, retry, serve

    def again(event, ctx):
        if ctx.attempt >= ctx.component.get("maxAttempts", 3):
            return pass_()
        return retry(delay_ms=500 * ctx.attempt)

    serve({"RetryPolicy": {"nodeError": {"after": again}}})

A handler is a plain or an ``async`` function of an event and a ctx. Before something
happens it answers `proceed`, `modify`, `replace` or `reject`; after it happened `pass_`,
`replace`, `retry` or `fail`; ``ctx.admits`` says which of them count here. Nothing else
is a verdict: a handler that returns None has not agreed to anything.

Needs nothing but the standard library and msgspec.
"""

from plugins_host.authoring.surface import (
    After,
    AfterVerdict,
    Before,
    BeforeVerdict,
    Context,
    HostError,
    Outcome,
    Problem,
    ProviderError,
    Signal,
    Subject,
    Verdict,
    fail,
    modify,
    pass_,
    proceed,
    reject,
    replace,
    retry,
)
from plugins_host.serving import serve

__all__ = [
    "After",
    "AfterVerdict",
    "Before",
    "BeforeVerdict",
    "Context",
    "HostError",
    "Outcome",
    "Problem",
    "ProviderError",
    "Signal",
    "Subject",
    "Verdict",
    "fail",
    "modify",
    "pass_",
    "proceed",
    "reject",
    "replace",
    "retry",
    "serve",
]
