"""LlmNode: one prompt, one answer, as text or as the declared outputs."""

from functools import lru_cache
from typing import Final, cast

from heddle.engine.conventions import GENERATED_TEXT
from heddle.engine.graph import Graph, GraphNode
from heddle.engine.model_calls import call_model
from heddle.engine.state import State
from heddle.engine.structured import output_schema, read_structured, single_text
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.gentle_json import any_long, encode_gently, is_long
from heddle.spec import LlmNode, render, render_briefly
from plugins_host import Message, nearest

_FEW: Final = 50
"""Values of a state among which is looked for what a placeholder means, in no time."""


def llm(node: GraphNode, graph: Graph) -> Waiting:
    """Ask once; several outputs, or one that is no string, ask for a JSON object."""
    component = cast("LlmNode", node.component)
    outputs = node.shape.outputs
    text_output = single_text(outputs) if outputs else GENERATED_TEXT
    schema = None if text_output else output_schema(outputs)

    async def execute(given: State, context: NodeContext) -> Result:
        prompt = await fill(component.prompt_template, given, context)
        response = await call_model(
            context, component.llm_config, (Message("user", prompt),), schema=schema
        )
        if text_output:
            return Result({text_output: response.content})
        from heddle.long_work import bounded

        return Result(await bounded(lambda: read_structured(outputs, response.content)))

    return Waiting(execute)


async def fill(template: str, given: State, context: NodeContext) -> str:
    """Fill in the state's values; an unknown placeholder stays, with a warning."""
    text = fill_briefly(template, given, context)
    if text is not None:
        return text
    from heddle.long_work import bounded

    # What is put in for a text is that text.
    values = {
        name: (await encode_gently(value)).decode() if is_long(value) else value
        for name, value in given.items()
        if name in template
    }
    return _filled(await bounded(lambda: render(template, values)), given, context)


def fill_briefly(template: str, given: State, context: NodeContext) -> str | None:
    """The same, of a template that takes no time to speak of; None where it may take some,
    and nothing has happened."""
    if "{{" not in template:
        return template
    if any_long(given):
        return None
    found = render_briefly(template, given)
    return None if found is None else _filled(found, given, context)


def _filled(found: tuple[str, tuple[str, ...]], given: State, context: NodeContext) -> str:
    text, unknown = found
    for name in unknown:
        guess = _meant(name, tuple(given)) if len(given) <= _FEW else None
        context.warn_once(
            f"node {context.name!r}: placeholder {{{{{name}}}}} has no value in the "
            "state and was left as it is"
            + ("" if guess is None else f". Did you mean {{{{{guess}}}}}?")
        )
    return text


@lru_cache(maxsize=256)
def _meant(name: str, names: tuple[str, ...]) -> str | None:
    """Looked for once, for a node may be executed many times."""
    return nearest(name, names)
