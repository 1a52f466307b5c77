"""Flows that came before are known by their bytes, and read no differently for it."""

import json
from typing import Any

import pytest

from heddle.installation import NOTHING
from heddle.server.http.refusals import Refusal
from heddle.server.submitted.submission import FAMILIAR, MAX_FAMILIAR, SubmissionReader
from tests.support.flows import end, flow, prop, start

FLOW = flow([start(inputs=[prop("n", "integer")]), end()], ["start", "end"])


def body(**fields: Any) -> bytes:
    return json.dumps({"flow": FLOW, **fields}).encode()


def test_a_flow_is_familiar_once_it_has_been_read() -> None:
    reader = SubmissionReader(NOTHING, None)
    asked = body(inputs={"n": 1})
    assert reader.read_familiar(asked) is None
    first = reader.read(asked)
    again = reader.read_familiar(body(inputs={"n": 2}))
    assert again is not None
    assert again.prepared is first.prepared
    assert again.inputs == {"n": 2}
    assert again.brought is None
    none = reader.read_familiar(body())
    assert none is not None
    assert none.inputs == {}


@pytest.mark.parametrize(
    "beside", [{"format": "json"}, {"flowPath": "x"}, {"plugins": []}, {"inptus": {}}]
)
def test_what_has_more_beside_its_flow_is_read_closely(beside: Any) -> None:
    reader = SubmissionReader(NOTHING, None)
    reader.read(body())
    assert reader.read_familiar(body(**beside)) is None


@pytest.mark.parametrize(
    "wrong", [b"", b"[]", b'{"flow":', b"\xff", body(inputs=[1]), body(inputs=None)]
)
def test_what_is_malformed_is_refused_as_ever(wrong: bytes) -> None:
    reader = SubmissionReader(NOTHING, None)
    reader.read(body())
    with pytest.raises(Refusal) as closely:
        reader.read(wrong)
    with pytest.raises(Refusal) as familiar:
        reader.read_familiar(wrong)
    assert str(familiar.value) == str(closely.value)


def test_no_more_are_kept_than_have_room() -> None:
    reader = SubmissionReader(NOTHING, None)
    for number in range(FAMILIAR + 1):
        reader.read(body().replace(b'"n"', b'"n%d"' % number))
    assert reader.read_familiar(body().replace(b'"n"', b'"n0"')) is None
    assert reader.read_familiar(body().replace(b'"n"', b'"n%d"' % FAMILIAR)) is not None
    long = body().replace(b'"n"', b'"%b"' % (b"n" * MAX_FAMILIAR))
    reader.read(long)
    assert reader.read_familiar(long) is None
