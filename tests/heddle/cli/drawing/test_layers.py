"""Where boxes and lines go: laws that hold for any graph."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.cli.drawing.layers import Link, arrange
from heddle.cli.drawing.spacing import spaced
from heddle.cli.drawing.tracks import Across, rows

Graphs = st.integers(1, 12).flatmap(
    lambda boxes: st.tuples(
        st.just(boxes),
        st.lists(
            st.builds(
                Link, st.integers(0, boxes - 1), st.integers(0, boxes - 1), st.booleans()
            ).filter(lambda link: link.source != link.target),
            max_size=20,
        ),
    )
)


@given(Graphs)
def test_every_link_leads_from_rank_to_rank_between_its_ends(
    graph: tuple[int, list[Link]],
) -> None:
    boxes, links = graph
    arranged = arrange(boxes, links)
    rank = {point: n for n, each in enumerate(arranged.ranks) for point in each}
    assert len(rank) == sum(map(len, arranged.ranks))
    assert len(arranged.chains) == len(links)
    for link, chain in zip(links, arranged.chains, strict=True):
        ends = (chain.points[0], chain.points[-1])
        assert ends == (
            (link.target, link.source) if chain.upwards else (link.source, link.target)
        )
        ranks = [rank[point] for point in chain.points]
        assert ranks == list(range(ranks[0], ranks[0] + len(ranks)))
        assert (chain.label is not None) == link.labelled


@given(Graphs)
@settings(max_examples=50)
def test_no_two_things_of_a_rank_overlap(graph: tuple[int, list[Link]]) -> None:
    boxes, links = graph
    arranged = arrange(boxes, links)

    def width(point: int) -> float:
        return 5.0 + point % 7

    at = spaced(arranged, width, lambda _, __: 2.0)
    assert abs(min(at[each] - width(each) / 2 for each in at)) < 1e-6
    for rank in arranged.ranks:
        for one, other in combinations(rank, 2):
            apart = abs(at[one] - at[other])
            assert apart >= (width(one) + width(other)) / 2 + 2 - 1e-6


def test_a_chain_of_boxes_stands_in_one_line() -> None:
    arranged = arrange(4, [Link(0, 1), Link(1, 2, labelled=True), Link(2, 3)])
    at = spaced(arranged, lambda point: 9.0 + point, lambda _, __: 2.0)
    assert len({round(at[box], 6) for box in range(4)}) == 1
    assert arranged.ranks == [[0], [4], [1], [5], [2], [6], [3]]


def test_lines_that_cross_without_need_are_put_in_order() -> None:
    links = [Link(0, each) for each in (1, 2, 3)]
    links += [Link(3, 4), Link(2, 5), Link(1, 6)]
    arranged = arrange(7, links)
    below = {link.source: link.target for link in links[3:]}
    assert [below[each] for each in arranged.ranks[2]] == arranged.ranks[4]


def test_a_circle_is_broken_where_it_closes() -> None:
    arranged = arrange(3, [Link(0, 1), Link(1, 2), Link(2, 1)])
    assert [chain.upwards for chain in arranged.chains] == [False, False, True]


WAYS = st.lists(st.integers(0, 30), unique=True, max_size=10).flatmap(
    lambda upper: (st.permutations(range(31)) | st.permutations(upper)).map(
        lambda lower: dict(enumerate(zip(upper, lower, strict=False)))
    )
)


def across(ways: dict[int, tuple[int, int]]) -> list[tuple[int, int, int]]:
    """All parts along a row: which, and from where to where."""
    found = []
    for way, parts in rows(ways).items():
        column = ways[way][0]
        for each in parts:
            found.append((each.row, *sorted((column, each.to))))
            column = each.to
    return found


@given(WAYS)
def test_ways_across_share_no_part_of_a_row(ways: dict[int, tuple[int, int]]) -> None:
    found = rows(ways)
    assert set(found) == {way for way, (upper, lower) in ways.items() if upper != lower}
    assert all(found[way][-1].to == ways[way][1] for way in found)
    for (row, a, b), (other, c, d) in combinations(across(ways), 2):
        assert row != other or b < c or d < a


@given(WAYS)
def test_ways_share_no_part_of_a_column(ways: dict[int, tuple[int, int]]) -> None:
    taken: set[tuple[int, int]] = set()
    count = max((row + 1 for row, _, _ in across(ways)), default=0)
    for way, (upper, _) in ways.items():
        column, top = upper, -1
        cells: set[tuple[int, int]] = set()
        for each in rows(ways).get(way, ()):
            cells |= {(row, column) for row in range(top, each.row + 1)}
            column, top = each.to, each.row
        cells |= {(row, column) for row in range(top, count + 1)}
        assert not cells & taken
        taken |= cells


def test_who_begins_in_a_column_turns_above_who_ends_there() -> None:
    ways = {0: (0, 4), 1: (4, 8), 2: (8, 12)}
    found = rows(ways)
    assert found == {2: (Across(0, 12),), 1: (Across(1, 8),), 0: (Across(2, 4),)}


def test_where_ways_trade_places_one_goes_by_a_column_of_its_own() -> None:
    assert rows({0: (0, 4), 1: (4, 0)}) == {
        0: (Across(0, 2), Across(2, 4)),
        1: (Across(1, 0),),
    }
    # There is no room between them.
    assert rows({0: (0, 1), 1: (1, 0)})[0] == (Across(0, 3), Across(2, 1))
