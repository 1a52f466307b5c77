"""Answers of models that are refusals: a status, headers and a body of any kind."""

from heddle.models.complaints import refusal
from tests.fuzz.target import Target


def read(data: bytes) -> None:
    """Status in two bytes, headers up to an empty line, the body: a fault, in words."""
    status = 300 + int.from_bytes(data[:2]) % 300
    head, _, body = data[2:].partition(b"\n\n")
    pairs = (line.partition(b":")[::2] for line in head.split(b"\n"))
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    fault = refusal(status, headers, body, where="here", strike=lambda text: text, now=1e9)
    assert str(fault).isprintable()
    wait = fault.retry_after_ms
    assert wait is None or wait >= 0


REFUSED_CALLS = Target(
    read,
    seeds=(
        b'\x00\x81retry-after: 7\n\n{"error":{"message":"slow down","code":"x"}}',
        b"\x00\x02location: http://u:p@[::1]:80/x?y#z\n\n",
        b"\x00\xc8retry-after: Wed, 21 Oct 2026 07:28:00 GMT\n\n<html><title>a</title>",
        b'\x00\x64retry-after-ms: 1.5\ncontent-type: text/html\n\n[{"detail":[1]}]',
    ),
    words=(
        *(b"retry-after: ", b"retry-after-ms: ", b"location: ", b"content-type: "),
        *(b"99999999999", b"-0700", b"Jan", b"//[", b"&#x10ffff;", b"<title>", b"\x1b["),
        *(b'"message":', b'"detail":', b'"code":', b"\\ud800", b"[[[["),
    ),
)
