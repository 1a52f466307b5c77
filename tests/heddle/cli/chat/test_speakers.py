"""Which nodes of a flow speak last."""

from heddle.cli.chat.speakers import last_speakers
from heddle.preparing import load
from tests.heddle.cli.conftest import WriteFlow, agent_node, tool_node


def test_the_last_node_that_asks_a_model_speaks_last(
    flow: WriteFlow, tmp_path: object
) -> None:
    script = [{"content": "x"}]
    nodes = agent_node("plan", script), agent_node("write", script), tool_node("save")
    graph = load(f"{tmp_path}/{flow(*nodes)}").plan.graph
    assert last_speakers(graph) == {"write"}


def test_a_flow_without_models_has_none(flow: WriteFlow, tmp_path: object) -> None:
    graph = load(f"{tmp_path}/{flow(tool_node('save'))}").plan.graph
    assert last_speakers(graph) == frozenset()


def test_a_node_that_comes_round_again_still_speaks_last(
    flow: WriteFlow, tmp_path: object
) -> None:
    graph = load(f"{tmp_path}/{flow(agent_node('ask', [{'content': 'x'}]))}").plan.graph
    ask = next(each for each in graph.nodes if each.name == "ask")
    import msgspec

    looped = msgspec.structs.replace(ask, branches={"more": ask.index})
    nodes = tuple(looped if each is ask else each for each in graph.nodes)
    assert last_speakers(msgspec.structs.replace(graph, nodes=nodes)) == {"ask"}
