"""Gives an agent fewer rounds than heddle does.

Settings: {"maxRounds": 3}.
"""

from heddle.plugin import (
    After,
    AfterVerdict,
    Before,
    BeforeVerdict,
    Context,
    pass_,
    proceed,
    reject,
    serve,
)


class RoundBudget:
    """Before each round of an agent, and after each that ran tools."""

    def before_agent_round(self, event: Before, ctx: Context) -> BeforeVerdict:
        # Never above the engine's own ceiling, and usually far below it.
        cap = min(ctx.component.get("maxRounds", 3), event.input["maxRounds"])
        if event.input["round"] > cap:
            return reject(f"{cap} rounds is the budget")
        return proceed()

    def after_agent_round(self, event: After, ctx: Context) -> AfterVerdict:
        ctx.emit_event("round", event.outcome.value)
        return pass_()


handlers = {"RoundBudget": RoundBudget}

if __name__ == "__main__":
    serve(handlers)
