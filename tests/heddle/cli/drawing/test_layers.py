"""Where boxes and lines go: laws that hold for any graph."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.cli.drawing.layers import Link, arrange
from heddle.cli.drawing.spacing import spaced
from heddle.cli.drawing.tracks import rows

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


@given(
    st.lists(st.integers(0, 30), unique=True, max_size=10).flatmap(
        lambda upper: st.permutations(range(31)).map(
            lambda lower: dict(enumerate(zip(upper, lower, strict=False)))
        )
    )
)
def test_ways_across_share_no_part_of_a_row(ways: dict[int, tuple[int, int]]) -> None:
    found = rows(ways)
    assert set(found) == {way for way, (upper, lower) in ways.items() if upper != lower}
    for one, other in combinations(found, 2):
        if found[one] == found[other]:
            (a, b), (c, d) = sorted(ways[one]), sorted(ways[other])
            assert b < c or d < a


def test_who_begins_in_a_column_turns_above_who_ends_there() -> None:
    ways = {0: (0, 4), 1: (4, 8), 2: (8, 12)}
    found = rows(ways)
    assert found[2] < found[1] < found[0]


def test_ways_that_trade_places_are_both_drawn() -> None:
    assert sorted(rows({0: (0, 4), 1: (4, 0)}).values()) == [0, 1]
