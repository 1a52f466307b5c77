"""What people get wrong who write documents by hand is told once, with what to write."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from heddle.spec import DocumentError, read_document
from tests.heddle.spec.documents import flow, sentences_of

DEFINITIONS: Final = "$referenced_components"


def rename(where: dict[str, Any], old: str, new: str) -> None:
    where[new] = where.pop(old)


def without_a_type(document: dict[str, Any]) -> None:
    del document[DEFINITIONS]["ask"]["component_type"]


MISTAKES: Final[dict[str, tuple[Callable[[dict[str, Any]], Any], str]]] = {
    "a type as manifests write it": (
        lambda it: rename(it, "component_type", "componentType"),
        "$: this defines components and doesn't say which of them it is. Is "
        "'componentType' a misspelling of 'component_type'?",
    ),
    "the same of a node, which several edges refer to": (
        lambda it: rename(it[DEFINITIONS]["ask"], "component_type", "componentType"),
        "$.$referenced_components.ask: this has no 'component_type'. Is 'componentType' a "
        "misspelling of 'component_type'?",
    ),
    "no type at a node, which several edges refer to": (
        without_a_type,
        "$.$referenced_components.ask: this has no 'component_type'. Add it: StartNode, "
        "EndNode, LlmNode, AgentNode, ToolNode, BranchingNode, FlowNode, MapNode, "
        "ParallelMapNode, ParallelFlowNode, CatchExceptionNode, ApiNode, InputMessageNode "
        "or OutputMessageNode.",
    ),
    "an id in place of a reference": (
        lambda it: it.update(start_node="start"),
        "$.start_node: this is 'start' where a node belongs. Write "
        '{"$component_ref":"start"} if that is the id of one, or the component itself.',
    ),
    "a reference as in JSON Schema": (
        lambda it: it.update(start_node={"$ref": "start"}),
        "$.start_node: this has no 'component_type'. Is '$ref' a misspelling of "
        "'$component_ref'?",
    ),
    "a reference without its dollar": (
        lambda it: it.update(start_node={"component_ref": "start"}),
        "$.start_node: this has no 'component_type'. Is 'component_ref' a misspelling of "
        "'$component_ref'?",
    ),
    "definitions under a name of their own": (
        lambda it: rename(it, DEFINITIONS, "referenced_components"),
        "$.start_node.$component_ref: 'start' is not defined in this document. Is "
        "'referenced_components' a misspelling of '$referenced_components'?",
    ),
    "definitions as a list": (
        lambda it: it.update({DEFINITIONS: [*it[DEFINITIONS].values()]}),
        "$.$referenced_components: this maps ids to components, not a list. Write an "
        "object.",
    ),
    "an input with a name": (
        lambda it: it.update(inputs=[{"name": "city", "type": "string"}]),
        "$.inputs[0]: 'title' is missing. Rename 'name' to 'title'.",
    ),
    "a key of an edge": (
        lambda it: rename(it["control_flow_connections"][0], "from_node", "form_node"),
        "$.control_flow_connections[0]: 'from_node' is missing. Is 'form_node' a "
        "misspelling of it?",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_once_with_what_to_write(name: str) -> None:
    change, sentence = MISTAKES[name]
    document = flow()
    change(document)
    assert sentences_of(document) == [sentence]


def test_what_is_sent_to_a_server_is_no_document_and_has_one_inside() -> None:
    assert sentences_of({"flow": flow(), "inputs": {}}) == [
        "$: 'component_type' is missing. 'flow' holds a component: give that as the "
        "document."
    ]


def test_json_with_a_comment_at_its_top_is_told_so() -> None:
    for comment in (b"// mine\n", b"/* mine */ "):
        with pytest.raises(DocumentError) as caught:
            read_document(comment + b'{"component_type": "Flow"}')
        assert caught.value.fix == "Take the comment out: JSON has none."
