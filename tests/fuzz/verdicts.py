"""What a policy answers, at each seam and half."""

import json
from contextlib import suppress

import msgspec

from plugins_host.seams import SEAMS
from plugins_host.verdicts import VerdictError, read_verdict
from tests.fuzz.target import Target


def read(data: bytes) -> None:
    """Any answer is a verdict that this half admits, or a `VerdictError`."""
    answers: list[object] = [data]
    with suppress(ValueError, RecursionError):
        # As a handler in this process may return it; Python's reader takes NaN too.
        answers.append(json.loads(data))
    for seam in SEAMS:
        for half in SEAMS[seam].halves:
            for answer in answers:
                with suppress(VerdictError):
                    msgspec.json.encode(read_verdict(answer, seam, half, where="here"))


VERDICTS = Target(
    read,
    seeds=(
        b'{"action":"proceed"}',
        b'{"action":"pass"}',
        b'{"action":"modify","input":{"a":[1,null,"x"]}}',
        b'{"action":"replace","value":{"text":"x"}}',
        b'{"action":"reject","reason":"no"}',
        b'{"action":"retry","delayMs":1500.5}',
        b'{"action":"fail","reason":"no"}',
        b'{"Action":"proceed","delayms":1e400}',
        b'"proceed"',
    ),
    words=(
        *(b'"action":', b'"input":', b'"value":', b'"reason":', b'"delayMs":', b'"retry"'),
        *(b'"modify"', b"NaN", b"-Infinity", b"1e400", b"\\ud800", b"[[[[", b"null"),
    ),
)
