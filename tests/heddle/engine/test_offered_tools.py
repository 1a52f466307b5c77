"""What a tool server says of its tools is looked at before it is relied on."""

from typing import Any

import pytest

from heddle.engine.tool_servers import Offered, ToolServerFault, tools_of_box
from heddle.spec import MCPToolBox, StdioTransport

GOOD = Offered("good", "", {"properties": {"a": {"type": "string"}}, "required": ["a"]})


def box(*wanted: str) -> MCPToolBox:
    """A toolbox of these tools, or of all."""
    transport = StdioTransport(id="t", name="t", command="none")
    return MCPToolBox(
        id="b", name="box", client_transport=transport, tool_filter=wanted or None
    )


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"properties": -1}, "$.properties"),
        ({"properties": ["a"]}, "$.properties"),
        ({"properties": {"a": 5}}, "$.properties.a"),
        ({"properties": {"a": {"type": {}}}}, "$.properties.a.type"),
        ({"$defs": 5}, "$.$defs"),
    ],
)
def test_a_tool_whose_schema_is_none_is_refused_by_name(
    schema: dict[str, Any], where: str
) -> None:
    odd = Offered("odd", "", schema)
    with pytest.raises(ToolServerFault) as refused:
        tools_of_box(box(), [GOOD, odd])
    said = str(refused.value)
    assert said.startswith(
        f"the server of toolbox 'box' has a tool 'odd' whose input schema can't be used: "
        f"{where}: "
    )
    assert said.endswith("Correct the server, or name its other tools in 'tool_filter'.")
    with pytest.raises(ToolServerFault):
        tools_of_box(box("odd"), [GOOD, odd])
    [only] = tools_of_box(box("good"), [GOOD, odd])
    assert only.definition.parameters == GOOD.schema


def test_required_inputs_that_are_no_list_are_none() -> None:
    odd = Offered("odd", "", {**GOOD.schema, "required": 5})
    [only] = tools_of_box(box(), [odd])
    assert only.tool.inputs == ()
