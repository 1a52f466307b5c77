"""Which inputs of a MapNode are gone through item by item, and which every item is given.

An input of type T of the flow is `iterated_<name>` on the node, and takes a T, repeated
for each item, or a list of T. Types decide, by how deeply lists are nested in them; the
value itself is looked at only where no type says it.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from heddle.engine.conventions import ITERATED
from heddle.engine.faults import InputMismatch
from heddle.engine.graph import Graph, GraphNode
from heddle.engine.state import State, all_plain, inside
from heddle.spec import Property, TypeConversionError, check, convert


class Way(Enum):
    """How an input is handed out to the items."""

    EACH = auto()
    """One item of a list for each."""
    ALL = auto()
    """The same value for all."""
    BY_VALUE = auto()
    """As the value is, for no type says."""


class Handed(NamedTuple):
    """An input of the node, the input of the flow that it becomes, and how."""

    title: str
    name: str
    schema: Mapping[str, Any]
    way: Way


def depth(schema: Any) -> int | None:
    """How many lists are nested in a type; None when the type does not say."""
    if not isinstance(schema, Mapping):
        return None
    kind = schema.get("type")
    if kind == "array":
        return 1 + (depth(schema.get("items")) or 0)
    return 0 if isinstance(kind, str) else None


def way_of(item: Mapping[str, Any], given: int | None) -> Way:
    """How a value whose type has ``given`` nested lists is handed out as ``item``."""
    if given is None:
        return Way.BY_VALUE
    return Way.EACH if given > (depth(item) or 0) else Way.ALL


def handed_out(node: GraphNode, graph: Graph, wanted: tuple[Property, ...]) -> list[Handed]:
    """Decide for each input of a MapNode, by its own type or by that of its sources.

    Args:
        node: The node.
        graph: The flow that it is in.
        wanted: The inputs of the flow inside.
    """
    known = {each.title: each for each in wanted}
    declared = {each.title: each for each in node.shape.inputs}
    found = []
    for feed in node.feeds:
        name = feed.name.removeprefix(ITERATED)
        if name == feed.name:
            continue
        schema = known[name].schema if name in known else {}
        own = depth(declared[feed.name].schema) if feed.name in declared else None
        if own is None:
            own = _of_sources(feed.name, feed.sources, node, graph)
        found.append(Handed(feed.name, name, schema, way_of(schema, own)))
    return found


def _of_sources(
    title: str, sources: tuple[tuple[int, str], ...], node: GraphNode, graph: Graph
) -> int | None:
    """What the types of all sources agree on, at edges or by name."""
    if not sources:
        sources = tuple((each.index, title) for each in graph.nodes if each is not node)
    depths = {
        depth(each.schema)
        for number, output in sources
        for each in graph.nodes[number].shape.outputs
        if each.title == output
    }
    return depths.pop() if len(depths) == 1 else None


class Items(NamedTuple):
    """What the items are given: ``shared`` all of them, ``lists`` one value each."""

    length: int
    shared: State
    lists: dict[str, list[Any]]

    def item(self, index: int) -> State:
        """A new object: what one item is given."""
        given = dict(self.shared)
        for name, values in self.lists.items():
            given[name] = values[index]
        return given


def hand_out(handed: list[Handed], given: State, carried: State) -> Items:
    """Split what the node is given.

    Args:
        handed: How.
        given: The node's input.
        carried: What all items are given beside it.

    Raises:
        InputMismatch: The lists differ in length, there is none, or a value has another
            type than the flow inside declares.
    """
    shared = dict(carried)
    lists: dict[str, list[Any]] = {}
    lengths: dict[str, int] = {}
    for each in handed:
        if each.title not in given:
            continue
        value = given[each.title]
        if _is_for_each(each, value):
            if not isinstance(value, list | tuple):
                raise InputMismatch(
                    f"input {each.title!r} is no list",
                    fix="Connect it to a list, or to one item that all are given.",
                )
            lists[each.name] = _as_items(each, value)
            lengths[each.title] = len(value)
        else:
            shared[each.name] = _as_item(each, value, "$")
    if not lists:
        raise InputMismatch(
            "none of the inputs is a list to go through",
            fix=f"Connect a list to one of: {', '.join(each.title for each in handed)}.",
        )
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{title!r} has {count}" for title, count in lengths.items())
        raise InputMismatch(
            f"the lists to go through differ in length: {listed}",
            fix="Give lists of one length, or one item that all are given.",
        )
    return Items(next(iter(lengths.values())), shared, lists)


def _is_for_each(each: Handed, value: Any) -> bool:
    if each.way is not Way.BY_VALUE:
        return each.way is Way.EACH
    if not isinstance(value, list | tuple):
        return False
    return not depth(each.schema) or bool(check(value, each.schema))


def _as_items(each: Handed, values: list[Any] | tuple[Any, ...]) -> list[Any]:
    if all_plain(values, each.schema):
        return list(values)
    return [_as_item(each, item, f"$[{index}]") for index, item in enumerate(values)]


def _as_item(each: Handed, value: Any, path: str) -> Any:
    try:
        return convert(value, each.schema)
    except TypeConversionError as error:
        where = inside(each.title, path + error.path.removeprefix("$"))
        raise InputMismatch(
            f"input {where}: {error.what}", fix="Connect it to a value of that type."
        ) from error
