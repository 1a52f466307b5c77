"""Keeps large results of tools out of the conversation with the model.

Settings: {"maxLength": 10000}, in characters of JSON.
"""

import json

from heddle.plugin import After, AfterVerdict, Context, pass_, replace, serve


def after(event: After, ctx: Context) -> AfterVerdict:
    if not event.outcome.ok:
        return pass_()
    length = len(json.dumps(event.outcome.value, ensure_ascii=False))
    if length <= ctx.component.get("maxLength", 10_000):
        return pass_()
    return replace({"note": f"a result of {length} characters was omitted"})


handlers = {"ResultTrimmer": {"toolCall": {"after": after}}}

if __name__ == "__main__":
    serve(handlers)
