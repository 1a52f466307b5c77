"""The verdict reader: what the table admits, in words that an author can act on."""
# ruff: noqa: E501  a table of sentences reads best with one a line

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugins_host.seams import SEAMS, Action, Half, Seam, admitted
from plugins_host.verdicts import (
    CONSENTS,
    Fail,
    Modify,
    Pass,
    Proceed,
    Reject,
    Replace,
    Retry,
    VerdictError,
    read_verdict,
)

HALVES = [(seam, half) for seam, row in SEAMS.items() for half in row.halves]

GOOD: dict[Action, dict[str, Any]] = {
    Action.PROCEED: {"action": "proceed"},
    Action.MODIFY: {"action": "modify", "input": {"a": 1}},
    Action.REPLACE: {"action": "replace", "value": {"a": 1}},
    Action.REJECT: {"action": "reject", "reason": "no"},
    Action.PASS: {"action": "pass"},
    Action.RETRY: {"action": "retry", "delayMs": 250},
    Action.FAIL: {"action": "fail", "reason": "no"},
}
STRUCTS = {
    Action.PROCEED: Proceed,
    Action.MODIFY: Modify,
    Action.REPLACE: Replace,
    Action.REJECT: Reject,
    Action.PASS: Pass,
    Action.RETRY: Retry,
    Action.FAIL: Fail,
}

Form = Callable[[Any], object]
FORMS: list[Form] = [
    msgspec.json.encode,
    lambda raw: msgspec.Raw(msgspec.json.encode(raw)),
    lambda raw: raw,
]
as_text_or_object = pytest.mark.parametrize("form", FORMS, ids=["bytes", "raw", "object"])


def refusal(raw: object, seam: Seam = Seam.NODE, half: Half = Half.BEFORE) -> str:
    with pytest.raises(VerdictError) as caught:
        read_verdict(raw, seam, half, where="w")
    return str(caught.value)


@as_text_or_object
@pytest.mark.parametrize(
    ("seam", "half", "action"), [(*p, a) for p, a in product(HALVES, Action)]
)
def test_a_half_admits_what_its_row_says_and_nothing_else(
    seam: Seam, half: Half, action: Action, form: Form
) -> None:
    if action in admitted(seam, half):
        verdict = read_verdict(form(GOOD[action]), seam, half, where="w")
        assert type(verdict) is STRUCTS[action]
    else:
        said = refusal(form(GOOD[action]), seam, half)
        choices = ", ".join(sorted(admitted(seam, half)))
        assert said == (
            f"w: action '{action}' is not admitted here. Answer with an action from: {choices}."
        )


@as_text_or_object
def test_what_a_verdict_carries_arrives(form: Form) -> None:
    modify = read_verdict(form(GOOD[Action.MODIFY]), Seam.NODE, Half.BEFORE, where="w")
    replace = read_verdict(form(GOOD[Action.REPLACE]), Seam.NODE, Half.AFTER, where="w")
    reject = read_verdict(form(GOOD[Action.REJECT]), Seam.NODE, Half.BEFORE, where="w")
    retry = read_verdict(form(GOOD[Action.RETRY]), Seam.NODE_ERROR, Half.AFTER, where="w")
    assert isinstance(modify, Modify)
    assert modify.input.value == {"a": 1}
    assert isinstance(replace, Replace)
    assert replace.value.raw == b'{"a":1}'
    assert reject == Reject("no")
    assert retry == Retry(0.25)


CHOICES = "Answer with an action from: modify, proceed, reject, replace."

FAULTS: list[tuple[object, str]] = [
    ({}, f"w: the verdict has no 'action'. {CHOICES}"),
    ({"acton": "reject"}, "w: the verdict has no 'action', and has 'acton'. Did you mean 'action'?"),
    (None, f"w: the answer is null, which is no verdict. {CHOICES}"),
    ("proceed", 'w: the answer is the text \'proceed\', which is no verdict. Answer {"action": "proceed"}.'),
    ("yes", f"w: the answer is the text 'yes', which is no verdict. {CHOICES}"),
    (True, f"w: the answer is true, which is no verdict. {CHOICES}"),
    (7, f"w: the answer is the number 7, which is no verdict. {CHOICES}"),
    ([], f"w: the answer is an array, which is no verdict. {CHOICES}"),
    ({"action": "procede"}, f"w: 'procede' is not a verdict. Did you mean 'proceed'? {CHOICES}"),
    ({"action": "allow"}, f"w: 'allow' is not a verdict. {CHOICES}"),
    ({"action": None}, f"w: 'action' is null. {CHOICES}"),
    ({"action": ["reject"]}, f"w: 'action' is an array. {CHOICES}"),
    ({"action": "replace", "value": []}, "w: 'value' of action 'replace' is an array. Make 'value' an object."),
    ({"action": "replace"}, "w: action 'replace' has no 'value'. Add 'value', an object."),
    ({"action": "replace", "val": {}}, "w: action 'replace' has no 'value', and has 'val'. Did you mean 'value'?"),
    ({"action": "modify", "inputs": {}}, "w: action 'modify' has no 'input', and has 'inputs'. Did you mean 'input'?"),
    ({"action": "modify", "input": "x"}, "w: 'input' of action 'modify' is the text 'x'. Make 'input' an object."),
    ({"action": "modify", "input": None}, "w: 'input' of action 'modify' is null. Make 'input' an object."),
    ({"action": "reject"}, "w: action 'reject' has no 'reason'. Add 'reason', a text."),
    ({"action": "reject", "reason": ""}, "w: 'reason' of action 'reject' is empty. Say why."),
    ({"action": "reject", "reason": " \n"}, "w: 'reason' of action 'reject' is empty. Say why."),
    ({"action": "reject", "reason": 5}, "w: 'reason' of action 'reject' is the number 5. Say why in a text."),
]  # fmt: skip


@as_text_or_object
@pytest.mark.parametrize(("raw", "sentence"), FAULTS)
def test_each_fault_has_its_own_sentence(raw: object, sentence: str, form: Form) -> None:
    assert refusal(form(raw)) == sentence


@as_text_or_object
@pytest.mark.parametrize("delay", [None, True, "500", [], {}])
def test_a_delay_that_is_no_number_is_refused(delay: object, form: Form) -> None:
    said = refusal(form({"action": "retry", "delayMs": delay}), Seam.NODE_ERROR, Half.AFTER)
    assert said.startswith("w: 'delayMs' of action 'retry' is ")
    assert said.endswith(
        "a finite number of milliseconds; NaN and Infinity travel as null."
    )


@pytest.mark.parametrize(
    "raw",
    [
        b'{"action":"retry","delayMs":1e999}',
        {"action": "retry", "delayMs": float("nan")},
        {"action": "retry", "delayMs": float("inf")},
    ],
)
def test_a_delay_without_end_is_refused(raw: object) -> None:
    assert "'delayMs' of action 'retry' is " in refusal(raw, Seam.MODEL_CALL, Half.AFTER)


@as_text_or_object
@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (0, Retry(0.0)),
        (30_000, Retry(30.0)),
        (30_001, Retry(30.0, clamped_from=30_001)),
        (-5.5, Retry(0.0, clamped_from=-5.5)),
        (10**40, Retry(30.0, clamped_from=10**40)),
    ],
)
def test_a_delay_out_of_bounds_is_clamped_and_says_so(
    asked: float, verdict: Retry, form: Form
) -> None:
    raw = form({"action": "retry", "delayMs": asked})
    assert read_verdict(raw, Seam.NODE_ERROR, Half.AFTER, where="w") == verdict


def test_a_retry_without_a_delay_is_at_once() -> None:
    raw = b'{"action":"retry"}'
    assert read_verdict(raw, Seam.NODE_ERROR, Half.AFTER, where="w") == Retry()


@as_text_or_object
@pytest.mark.parametrize("action", Action)
def test_unknown_fields_change_nothing(action: Action, form: Form) -> None:
    half = next(pair for pair in HALVES if action in admitted(*pair))
    more = {**GOOD[action], "because": {"of": ["this"]}, "at": 7}
    with_more, without = (
        read_verdict(form(raw), *half, where="w") for raw in (more, GOOD[action])
    )
    assert type(with_more) is type(without)


class Coloured:
    """Stands for anything that Python code may return."""


async def answers_later() -> dict[str, str]:
    return {"action": "proceed"}


def test_nothing_but_a_verdict_is_a_verdict_in_process() -> None:
    coroutine = answers_later()
    assert "is a coroutine that nobody awaited, which is no verdict" in refusal(coroutine)
    coroutine.close()
    assert "is a Python Coloured, which is no verdict" in refusal(Coloured())
    assert "is a Python Proceed, which is no verdict" in refusal(Proceed())


def test_what_json_cannot_carry_is_refused_in_process() -> None:
    said = refusal({"action": "modify", "input": {"x": object()}})
    assert said.startswith("w: 'input' holds what JSON cannot carry (")


def test_half_a_character_in_a_reason_or_a_name_loses_no_verdict_in_process() -> None:
    before = (Seam.TOOL_CALL, Half.BEFORE)
    odd = {"action": "reject", "reason": "no \udcff", "\ud800": 1}
    assert read_verdict(odd, *before, where="w") == Reject("no ?")
    with pytest.raises(VerdictError, match="Did you mean 'reason'"):
        read_verdict({"action": "reject", "reason\ud800": "no"}, *before, where="w")


def test_a_verdict_from_this_process_is_a_copy() -> None:
    mine = {"a": [1]}
    verdict = read_verdict(
        {"action": "modify", "input": mine}, Seam.NODE, Half.BEFORE, where="w"
    )
    mine["a"].append(2)
    assert isinstance(verdict, Modify)
    assert verdict.input.value == {"a": [1]}
    assert verdict.input.raw == b'{"a":[1]}'


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b'{"action":"modify","input":{"a":"\xff"}}', "not valid JSON"),
        (b'{"action":"modify","input":{"a":1e999}}', "not valid JSON"),
        (
            b'{"action":"replace","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "nested too deeply",
        ),
        (b"[" * 100_000, "nested too deeply"),
        (b"", "not valid JSON"),
        (b'{"acti\xff":"proceed"}', "not valid JSON"),
        (b'{"action":"reject","re\xff":"no"}', "not valid JSON"),
    ],
)
def test_broken_text_is_a_verdict_error(raw: bytes, what: str) -> None:
    assert what in refusal(raw)


def test_errors_quote_keys_and_kinds_and_never_long_values() -> None:
    secret = "s3cret" * 1000
    for raw in ({"action": "modify", "inputs": {"a": secret}}, {"action": secret}, secret):
        assert len(refusal(raw)) < 300


@given(st.binary(), st.sampled_from(HALVES))
@example(b'{"action":', HALVES[0])
def test_any_bytes_are_a_verdict_or_a_verdict_error(
    raw: bytes, half: tuple[Seam, Half]
) -> None:
    with suppress(VerdictError):
        read_verdict(raw, *half, where="w")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)
verdict_like = st.fixed_dictionaries(
    {},
    optional={
        "action": st.sampled_from([*Action, "allow", "procede"]) | json_values,
        "input": json_values,
        "value": json_values,
        "reason": json_values,
        "delayMs": json_values,
        "inputs": json_values,
    },
)


@given(verdict_like | json_values, st.sampled_from(HALVES))
def test_the_text_and_the_object_of_one_answer_read_the_same(
    raw: Any, half: tuple[Seam, Half]
) -> None:
    def read(form: object) -> object:
        try:
            verdict = read_verdict(form, *half, where="w")
        except VerdictError as error:
            return str(error)
        match verdict:
            case Modify(input=payload) | Replace(value=payload):
                return (type(verdict), payload.value)
            case _:
                return verdict

    plain = msgspec.json.encode(raw)
    with suppress(msgspec.DecodeError):  # integers beyond what the wire carries
        assert read(plain) == read(msgspec.json.decode(plain))


@pytest.mark.parametrize(("seam", "half"), HALVES)
def test_a_text_of_consent_is_consent_at_every_seam(seam: Seam, half: Half) -> None:
    consent = {Half.BEFORE: Proceed, Half.AFTER: Pass}[half]
    assert len(CONSENTS[half]) == 2
    for text in CONSENTS[half]:
        assert type(read_verdict(text, seam, half, where="w")) is consent
