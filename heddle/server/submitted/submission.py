"""The JSON that asks for a run, over HTTP or on a socket, read into what can be started.

    {"flow": {…} | "text", "format": "yaml", "inputs": {…}}
    {"flowPath": "triage.yaml", "inputs": {…}}

What only the operator decides is refused by name and never ignored: a caller that sends
it believes that it counts.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from heddle import preparing
from heddle.installation import Installed
from heddle.nesting import MAX_DEPTH, too_deep
from heddle.preparing import Prepared
from heddle.server.failures import SubmissionRefused
from heddle.server.http import Refusal
from heddle.server.runs.folders import RunFolders
from heddle.server.submitted.code.reading import read_code
from heddle.server.submitted.code.running import Brought, bring
from heddle.server.submitted.flows_root import FlowsRoot
from heddle.server.submitted.json_pieces import TooDeep, TooMany, decode, has_more
from heddle.spec import NOTHING_SUPPLIED, FormatRefused, Formats, Supplied
from plugins_host import json_flaw, nearest

FIELDS: Final = ("flow", "flowPath", "format", "inputs", "plugins", "tools")

OPERATOR_ONLY: Final = frozenset(
    {
        "allowNet",
        "allowRequestCode",
        "allowTrace",
        "authToken",
        "components",
        "corsOrigin",
        "discoverTools",
        "drainTimeout",
        "flowsRoot",
        "host",
        "logFormat",
        "maxBody",
        "maxConcurrent",
        "maxIterations",
        "maxNodeAttempts",
        "maxTools",
        "middleware",
        "plugin",
        "pluginConfig",
        "pluginEnv",
        "pluginTimeout",
        "port",
        "socket",
        "timeout",
        "tlsCert",
        "tlsKey",
        "toolTimeout",
        "toolsDir",
        "workers",
    }
)
"""Flags of the server, as a body would spell them; their snake_case is refused too. Inside
of a flow and of inputs the same words are data, and nobody's to refuse."""

MAX_VALUES: Final = 1_000_000
"""In the inputs of a run. They are encoded in one go as often as they are told, which
others wait for: that many take some 20 ms."""

MAX_FLOW_VALUES: Final = 250_000
"""In a document, which is decoded in one go too: thousands of nodes."""

SUBMITTED: Final = "flow"

FAMILIAR: Final = 256
MAX_FAMILIAR: Final = 16 * 1024
"""How many flows are known again by their bytes alone, and how long one of them may be."""

"""What errors call a document that came with the request."""

_FLOW_FIELD: Final = "Send one of 'flow' and 'flowPath'."
_KINDS: Final = {
    b"{": "an object",
    b"[": "an array",
    b'"': "a string",
    b"t": "a boolean",
    b"f": "a boolean",
    b"n": "null",
}
_WORD_START: Final = re.compile("(?<=[a-z])(?=[A-Z])")
_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


class Submitted(Prepared, frozen=True):
    """A flow that came with the request, and so may do less than one of the operator's."""


class Submission(Struct, frozen=True):
    """A run that somebody asks for."""

    prepared: Prepared
    inputs: Mapping[str, Any]
    brought: Brought | None = None


def snake_case(name: str) -> str:
    """``flowPath`` as ``flow_path``."""
    return _WORD_START.sub("_", name).lower()


_REFUSED: Final[Mapping[str, str]] = {
    spelling: name for name in OPERATOR_ONLY for spelling in (name, snake_case(name))
}


class SubmissionReader:
    """Reads what callers send.

    Args:
        installed: What no document may name.
        flows: The flows that may be named; None for none.
        supplied: What these may refer to, and no others: there are secrets in it, which a
            flow that came with a request could have sent to wherever it likes.
        folders: Where code that callers bring is written; None where they may not.
        tools: The names of the server's own.
    """

    def __init__(
        self,
        installed: Installed,
        flows: FlowsRoot | None,
        *,
        supplied: Supplied = NOTHING_SUPPLIED,
        folders: RunFolders | None = None,
        tools: Collection[str] = (),
    ) -> None:
        self._installed = installed
        self._flows = flows
        self._supplied = supplied
        self._folders = folders
        self._tools = tools
        # By its bytes. Nothing else decides what is read in it.
        self._familiar: dict[bytes, Submitted] = {}

    def read_familiar(self, body: bytes) -> Submission | None:
        """The same as `read`, in a moment, of a flow that came before, with nothing but
        inputs beside it; None of any other.

        Raises:
            Refusal: It is malformed.
        """
        fields = read_object(body, "the body")
        flow = fields.get("flow")
        if flow is None or not _USUAL.issuperset(fields):
            return None
        prepared = self._familiar.get(bytes(flow))
        if prepared is None:
            return None
        return Submission(prepared, _read_inputs(fields.get("inputs")))

    def read(self, body: bytes) -> Submission:
        """Read the body of a request.

        Raises:
            Refusal: It is malformed, or the flow is not there.
            SubmissionRefused: It asks for what the operator alone decides.
            DocumentError: The flow has problems.
        """
        return self.read_fields(read_object(body, "the body"))

    def read_fields(self, fields: Mapping[str, Raw]) -> Submission:
        """The same, with the outermost object already taken apart."""
        if not _KNOWN.issuperset(fields):
            _check_names(fields)
        inputs = _read_inputs(fields.get("inputs"))
        folders = self._folders
        code = read_code(fields, allowed=folders is not None, taken=self._tools)
        if code is None or folders is None:
            return Submission(self._prepare(fields, self._installed), inputs)
        brought = bring(code, folders, self._installed, self._tools)
        installed = self._installed.and_also(brought.plugins)
        return Submission(self._prepare(fields, installed), inputs, brought)

    def _prepare(self, fields: Mapping[str, Raw], installed: Installed) -> Prepared:
        flow, path = fields.get("flow"), fields.get("flowPath")
        if (flow is None) == (path is None):
            both = "both 'flow' and 'flowPath'" if flow is not None else "no flow"
            raise Refusal(400, f"the request has {both}", fix=_FLOW_FIELD)
        wanted = _read_format(fields.get("format"), installed.formats)
        if path is not None:
            name = _text("flowPath", path)
            if self._flows is None:
                raise Refusal(
                    404, "this server has no flows of its own", fix="Send 'flow'."
                )
            data = self._flows.read(name)
            return preparing.prepare(
                data,
                name=name,
                format=wanted,
                installed=installed,
                supplied=self._supplied,
            )
        assert flow is not None
        data = bytes(flow)
        if data[:1] == b"{":
            wanted = "json"
        elif data[:1] == b'"':
            data = _text("flow", flow).encode()
        else:
            raise Refusal(
                400,
                f"'flow' is {_kind(flow)}",
                fix="Send the document as an object, or its text as a string.",
            )
        if has_more(data, MAX_FLOW_VALUES):
            raise Refusal(413, f"'flow' has more than {MAX_FLOW_VALUES:,} values")
        prepared = preparing.prepare(
            data, name=SUBMITTED, format=wanted, installed=installed
        )
        submitted = Submitted(prepared.name, prepared.plan, prepared.warnings)
        if wanted == "json" and installed is self._installed and len(data) <= MAX_FAMILIAR:
            if len(self._familiar) >= FAMILIAR:
                # Begin anew: rare, and cheaper than keeping them in order of use.
                self._familiar.clear()
            self._familiar[data] = submitted
        return submitted


_KNOWN: Final = frozenset(FIELDS)
_USUAL: Final = frozenset(("flow", "inputs"))


def read_object(data: bytes, what: str) -> dict[str, Raw]:
    """A JSON object, its values not looked into yet.

    Raises:
        Refusal: It is none.
    """
    try:
        return _decode_fields(data)
    except RecursionError as error:
        raise Refusal(400, f"{what} is nested too deep") from error
    except msgspec.ValidationError as error:
        kind = _KINDS.get(data.lstrip()[:1], "a number")
        raise Refusal(400, f"{what} is {kind}, not a JSON object") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_json(what, data, error) from error


# Bytes of a body that are read again for the line and the character at fault.
_EXPLAINED: Final = 64 * 1024


def _not_json(what: str, data: bytes, error: Exception) -> Refusal:
    """Says where, and what to do about it; of a long body what the decoder says."""
    if len(data) <= _EXPLAINED:
        flaw = json_flaw(data, error)
        return Refusal(400, f"{what} is not JSON: {flaw.what}", fix=flaw.fix)
    reason = str(error).removeprefix("JSON is malformed: ")
    if isinstance(error, UnicodeDecodeError):
        reason = "it is not UTF-8"
    return Refusal(400, f"{what} is not JSON: {reason}")


def _check_names(fields: Mapping[str, Raw]) -> None:
    """Refuse the operator's fields and misspelt ones; others are not ours to judge."""
    for name in fields:
        if name in _KNOWN:
            continue
        flag = _REFUSED.get(name)
        if flag is not None:
            raise SubmissionRefused(
                f"{name!r} is set by whoever runs the server and by no request",
                fix="Leave it out.",
            )
        meant = nearest(name, FIELDS)
        if meant is not None:
            raise Refusal(400, f"{name[:80]!r} is no field of a request",
                          fix=f"Did you mean {meant!r}?")  # fmt: skip


def _read_inputs(raw: Raw | None) -> dict[str, Any]:
    if raw is None:
        return {}
    data = bytes(raw)
    if data[:1] != b"{":
        raise Refusal(400, f"'inputs' is {_kind(raw)}, and a run starts from an object")
    try:
        inputs: dict[str, Any] = decode(data, values=MAX_VALUES, depth=MAX_DEPTH)
    except TooMany as error:
        raise Refusal(
            413,
            f"'inputs' has more than {MAX_VALUES:,} values",
            fix="Send large data as text.",
        ) from error
    except (RecursionError, TooDeep) as error:
        raise Refusal(400, f"'inputs' is nested deeper than {MAX_DEPTH} levels") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_json("'inputs'", data, error) from error
    if too_deep(inputs, data):
        raise Refusal(400, f"'inputs' is nested deeper than {MAX_DEPTH} levels")
    return inputs


def _read_format(raw: Raw | None, formats: Formats) -> str | None:
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        return formats.named(_text("format", raw)).name
    except FormatRefused as error:
        raise Refusal(400, error.what, fix=error.fix) from error


Field = TypeVar("Field")


class Kind(Struct, Generic[Field], frozen=True):
    """What a field may be, and what that is called."""

    type: type[Field]
    name: str


Text: Final = Kind(str, "a string")
Boolean: Final = Kind(bool, "true or false")
Number: Final = Kind(int, "a whole number")


def read_field(fields: Mapping[str, Raw], name: str, kind: Kind[Field]) -> Field:
    """A field that must be there.

    Raises:
        Refusal: It is not, or it is of another kind.
    """
    raw = fields.get(name)
    if raw is None:
        raise Refusal(400, f"{name!r} is missing")
    try:
        return msgspec.json.decode(raw, type=kind.type)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, f"{name!r} is not {kind.name}") from error


def _text(name: str, raw: Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        kind = _kind(raw)
        wrong = "not UTF-8" if kind == "a string" else kind
        raise Refusal(400, f"{name!r} is {wrong}, not a string of text") from error


def _kind(raw: Raw) -> str:
    return _KINDS.get(bytes(raw)[:1], "a number")
