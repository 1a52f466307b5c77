"""Events as JSON: the same whether values are encoded anew or were already."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from heddle.events import (
    Event,
    FlowCompleted,
    NodeCompleted,
    NodeStarted,
    PluginEmitted,
    TokenDelta,
    Warned,
)
from heddle.gentle_json import AT_ONCE
from heddle.server.following import as_json as event_json
from heddle.server.following.as_json import LARGE, EventEncoder
from plugins_host.conversation import Usage

VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=5),
    st.sampled_from([["x" * 600], {"deep": {"er": list(range(2000))}}, "y" * 5000, []]),
)
STATES = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


@given(st.lists(STATES, min_size=1, max_size=8), st.lists(st.integers(1, 4), min_size=1))
@settings(deadline=None)
def test_an_event_has_the_json_that_it_has_alone(
    states: list[dict[str, Any]], cuts: list[int]
) -> None:
    carried: dict[str, Any] = {}
    events: list[Event] = []
    for state in states:
        carried = {**carried, **state}
        events += [
            NodeStarted("n", "T", carried, 1),
            TokenDelta("n", "t"),
            PluginEmitted("plugin:A:b", "n", "T", state),
            NodeCompleted("n", "T", dict(state), 1, Usage(1, 2)),
        ]
    events.append(FlowCompleted(carried))
    encoder = EventEncoder(str)
    encoded: list[bytes] = []
    at = 0
    for turn in range(len(events)):
        count = cuts[turn % len(cuts)]
        encoded += encoder.encode(events[at : at + count])
        at += count
    assert encoded == [msgspec.json.encode(event) for event in events]


def test_a_large_value_that_stays_is_encoded_once(monkeypatch: Any) -> None:
    encoded: list[object] = []

    def watched(value: object) -> bytes:
        encoded.append(value)
        return msgspec.json.encode(value)

    monkeypatch.setattr("heddle.server.following.as_json._encode", watched)
    large = ["x" * LARGE]
    encoder = EventEncoder(str)
    for _ in range(10):
        encoder.encode([NodeStarted("n", "T", {"large": large, "small": 1}, 1)])
    assert sum(1 for each in encoded if each is large) == 1


def test_a_value_that_replaced_another_is_told() -> None:
    encoder = EventEncoder(str)
    for number in range(5):
        (data,) = encoder.encode([NodeStarted("n", "T", {"v": [number, "x" * LARGE]}, 1)])
        assert msgspec.json.decode(data)["state"]["v"][0] == number


def test_a_value_is_held_as_long_as_it_is_known_by_its_identity() -> None:
    encoder = EventEncoder(str)
    large = ["x" * LARGE]
    encoder.encode([NodeStarted("n", "T", {"large": large}, 1)] * 2)
    assert encoder._parts is not None
    assert encoder._parts[id(large)][0] is large


def test_large_values_are_let_go_with_the_state_that_they_were_in() -> None:
    encoder = EventEncoder(str)
    large = {"large": "x" * LARGE}
    encoder.encode([NodeStarted("n", "T", large, 1)] * 2)
    assert encoder._parts
    encoder.encode([NodeStarted("n", "T", {"small": 1}, 1)])
    assert encoder._parts is None


def test_a_known_result_is_spliced() -> None:
    result = {"a": [1, 2]}
    raw = EventEncoder(str).encode_result(result)
    assert bytes(raw) == b'{"a":[1,2]}'
    (data,) = EventEncoder(str).encode([FlowCompleted(result)], (result, Raw(b"{}")))
    assert data == b'{"type":"flow_complete","state":{}}'
    # Another state that only looks the same is encoded by itself.
    (data,) = EventEncoder(str).encode([FlowCompleted({"a": 1})], (result, Raw(b"{}")))
    assert data == b'{"type":"flow_complete","state":{"a":1}}'


@given(STATES, st.lists(st.text()))
@settings(deadline=None)
def test_events_together_have_the_json_that_they_have_alone(
    state: dict[str, Any], texts: list[str]
) -> None:
    events: list[Event] = [
        NodeStarted("n", "T", state, 1),
        *(TokenDelta("n", text) for text in texts),
        NodeCompleted("n", "T", state, 1),
    ]
    alone = EventEncoder(str).encode(events)
    together = EventEncoder(str).encode_together(events)
    if len(alone[0]) > LARGE:
        assert together is None
    else:
        assert together is not None
        assert together.splitlines() == alone


def test_what_needs_a_closer_look_is_not_encoded_together() -> None:
    good: list[Event] = [TokenDelta("n", "x")]
    wrong: list[Event] = [
        Warned("in /srv/secret"),
        NodeCompleted("n", "T", {"x": object()}, 1),
        NodeCompleted("n", "T", {"x": "\ud800"}, 1),
    ]
    assert EventEncoder(str).encode_together(good) is not None
    for each in wrong:
        assert EventEncoder(str).encode_together([*good, each]) is None


async def test_a_long_value_that_was_learned_is_not_encoded_again(monkeypatch: Any) -> None:
    value = [[number] for number in range(AT_ONCE)]
    state = {"a": value, "b": 1}
    encoder = EventEncoder(str)
    await encoder.learn(state)
    encode, given = event_json._encode, list[Any]()

    def noting(anything: Any) -> bytes:
        given.append(anything)
        return encode(anything)

    monkeypatch.setattr(event_json, "_encode", noting)
    events: list[Event] = [
        NodeStarted("n", "T", state, 1),
        NodeCompleted("n", "T", {"a": value}, 1),
    ]
    assert encoder.encode_together(events) is None
    assert encoder.encode(events) == [encode(each) for each in events]
    assert encoder.encode_result(state) == Raw(encode(state))
    assert value not in given
    assert all(each["a"] is not value for each in given if isinstance(each, dict))


async def test_what_has_no_json_is_not_learned() -> None:
    encoder = EventEncoder(str)
    await encoder.learn({"a": [[object()]] * AT_ONCE})
    assert b'"warning"' in encoder.encode([NodeStarted("n", "T", {"a": object()}, 1)])[0]
