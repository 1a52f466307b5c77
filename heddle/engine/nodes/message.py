"""OutputMessageNode tells the user something, InputMessageNode asks and waits."""

from typing import Final, cast

from heddle.engine.confirming import asking
from heddle.engine.conventions import USER_INPUT
from heddle.engine.faults import NobodyToAsk
from heddle.engine.graph import Graph, GraphNode
from heddle.engine.nodes.llm import fill
from heddle.engine.questions import Question
from heddle.engine.state import State, declared_outputs
from heddle.engine.work import NodeContext, Result, Waiting
from heddle.spec import InputMessageNode, OutputMessageNode
from plugins_host import Message


def output_message(node: GraphNode, graph: Graph) -> Waiting:
    """Add a message of the agent to the conversation, and go on."""
    message = cast("OutputMessageNode", node.component).message

    async def execute(given: State, context: NodeContext) -> Result:
        context.say(Message("assistant", await fill(message, given, context)))
        return Result({})

    return Waiting(execute)


UNASKED: Final = (
    "Run it with `heddle run -i`. Or take the answer as an input of the flow, or let a "
    "policy at node.before supply it."
)


def input_message(node: GraphNode, graph: Graph) -> Waiting:
    """Ask the person whom the run talks to; both messages join the conversation."""
    message = cast("InputMessageNode", node.component).message
    outputs = node.shape.outputs
    title = outputs[0].title if outputs else USER_INPUT

    async def execute(given: State, context: NodeContext) -> Result:
        person = context.services.person
        text = await fill(message, given, context) if message else ""
        if person is None:
            raise NobodyToAsk(
                "the node asks a person, and there is nobody to ask in this run",
                fix=UNASKED,
            )
        async with asking(context):
            if text:
                context.say(Message("assistant", text))
            trace = context.run.trace
            asked = None if trace is None else trace.question(context, text)
            answer = await person.answer(Question(text, context.name, context.path))
            if trace is not None and asked is not None:
                trace.answer(context, asked, answer)
            context.say(Message("user", answer))
        if not outputs:
            return Result({title: answer})
        return Result(declared_outputs(outputs, {title: answer}, of="the person"))

    return Waiting(execute)
