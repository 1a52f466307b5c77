"""Publishes that each node ran and how it went; can stand in for types of nodes.

Settings: {"dryRun": ["ToolNode"], "stub": {"report": "…"}}, the node types that are not
run, and the output that they have instead.

It reads who ran and whether it went well, and never what went through: an audit of every
node sees every caller's data, and keeps none.
"""

from heddle.plugin import (
    After,
    AfterVerdict,
    Before,
    BeforeVerdict,
    Context,
    pass_,
    proceed,
    replace,
    serve,
)


class NodeAudit:
    """Around every execution of every node."""

    def before_node(self, event: Before, ctx: Context) -> BeforeVerdict:
        if event.subject.node_type in ctx.component.get("dryRun", []):
            return replace(ctx.component.get("stub", {}))
        return proceed()

    def after_node(self, event: After, ctx: Context) -> AfterVerdict:
        ctx.emit_event("node", {"node": event.subject.node_name, "ok": event.outcome.ok})
        return pass_()


handlers = {"NodeAudit": NodeAudit}

if __name__ == "__main__":
    serve(handlers)
