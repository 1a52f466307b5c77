"""The table of all targets, by the names that ``make fuzz TARGET=…`` takes."""

from collections.abc import Mapping
from typing import Final

from tests.fuzz.client_library import CLIENT_SOCKETS, CLIENT_STREAMS
from tests.fuzz.documents import DOCUMENT_EDITS, DOCUMENT_FORMATS, DOCUMENTS
from tests.fuzz.drawings import DRAWINGS
from tests.fuzz.event_streams import EVENT_STREAMS
from tests.fuzz.frames import FRAMES
from tests.fuzz.http_answers import HTTP_ANSWERS
from tests.fuzz.http_requests import HTTP_REQUESTS
from tests.fuzz.manifests import MANIFESTS
from tests.fuzz.models import MODELS
from tests.fuzz.plugin_answers import PLUGIN_ANSWERS
from tests.fuzz.refused_calls import REFUSED_CALLS
from tests.fuzz.routes import ROUTES
from tests.fuzz.runs import RUNS
from tests.fuzz.sockets import SOCKET_FRAMES, SOCKET_MESSAGES
from tests.fuzz.target import Target
from tests.fuzz.templates import REQUESTS, TEMPLATES
from tests.fuzz.tool_answers import TOOL_ANSWERS
from tests.fuzz.tool_servers import REMOTE_ANSWERS, TOOL_SERVERS
from tests.fuzz.verdicts import VERDICTS

TARGETS: Final[Mapping[str, Target]] = {
    "api-requests": REQUESTS,
    "client-sockets": CLIENT_SOCKETS,
    "client-streams": CLIENT_STREAMS,
    "document-edits": DOCUMENT_EDITS,
    "document-formats": DOCUMENT_FORMATS,
    "documents": DOCUMENTS,
    "drawings": DRAWINGS,
    "event-streams": EVENT_STREAMS,
    "frames": FRAMES,
    "http-answers": HTTP_ANSWERS,
    "http-requests": HTTP_REQUESTS,
    "manifests": MANIFESTS,
    **MODELS,
    "plugin-answers": PLUGIN_ANSWERS,
    "refused-calls": REFUSED_CALLS,
    "remote-answers": REMOTE_ANSWERS,
    "routes": ROUTES,
    "runs": RUNS,
    "socket-frames": SOCKET_FRAMES,
    "socket-messages": SOCKET_MESSAGES,
    "templates": TEMPLATES,
    "tool-answers": TOOL_ANSWERS,
    "tool-servers": TOOL_SERVERS,
    "verdicts": VERDICTS,
}


def _sing(data: bytes) -> None:
    assert not data.startswith(b"gas"), "the canary has stopped singing"


CANARY: Final = "canary"
"""A target that breaks on purpose: with it anyone can see that what is broken is found.
It is run when it is asked for, and no other time."""

ALL: Final[Mapping[str, Target]] = {
    **TARGETS,
    CANARY: Target(_sing, (b"air",), words=(b"gas",)),
}
