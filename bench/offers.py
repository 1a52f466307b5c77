"""What a server that is driven by its URL offers: asked, and tried where nobody says it.

Each function of this module says why a load can't be put on the server, or nothing. What
it offers beyond running flows is free to differ between implementations.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from bench.place import Place
from bench.socket_readers import Unfollowed, opened
from bench.target import Answered, Target, TargetError
from tests.support.flows import end, flow, start

SHORT: Final = json.dumps({"flow": flow([start(), end()], ["start", "end"]), "inputs": {}})
"""A run that asks no model."""

_STREAM: Final = "text/event-stream"
_FORBIDDING: Final = ("private", "loopback", "not allowed", "forbidden", "egress")


def capabilities(target: Target) -> Mapping[str, Any] | None:
    """What it says of itself; None where it says nothing.

    Raises:
        TargetError: It wants to know who asks, or does not answer.
    """
    answered = target.ask("GET", "/v1/capabilities")
    if answered.status in (401, 403):
        raise TargetError(
            f"{target.place.host} answers GET /v1/capabilities with {answered.told}."
            " Show it a token: --token, or $HEDDLE_AUTH_TOKEN."
        )
    found = answered.json
    return found if answered.ok and isinstance(found, dict) else None


def too_few(known: Mapping[str, Any] | None, runs: int) -> str | None:
    """Why so many runs at once are too many for it."""
    limits = (known or {}).get("limits")
    most = limits.get("maxConcurrent") if isinstance(limits, dict) else None
    if not isinstance(most, int) or most >= runs:
        return None
    return (
        f"it takes {most} runs at a time, and this is {runs:,}: raise its limit"
        f" (heddle-server: --max-concurrent {runs})"
    )


def no_stream(target: Target, body: str) -> str | None:
    """Why a run's events can't be streamed from it."""
    answered = target.ask("POST", "/v1/runs?stream=true", body)
    if not answered.ok:
        return f"POST /v1/runs?stream=true is answered by {answered.told}"
    if answered.kind != _STREAM:
        return f"POST /v1/runs?stream=true is answered as {answered.kind}, not {_STREAM}"
    return None


def no_socket(place: Place) -> str | None:
    """Why nobody can follow a run over a WebSocket of it."""
    try:
        opened(place).close()
    except (Unfollowed, OSError) as error:
        return f"no WebSocket: {error}"
    return None


def no_detached(target: Target) -> str | None:
    """Why a run can't go on by itself on it."""
    answered = target.ask("POST", "/v1/runs?detach=true", SHORT)
    if begun(answered) is None:
        return (
            "no detached runs: POST /v1/runs?detach=true is answered by"
            f" {answered.told if not answered.ok else answered.status} in place of 202"
            " and a run"
        )
    return None


def begun(answered: Answered) -> str | None:
    """The id of the run that went on by itself; None when there is none."""
    found = answered.json
    run = found.get("run") if isinstance(found, dict) else None
    return run if answered.status == 202 and isinstance(run, str) else None


def check_run(target: Target, body: str, model: str, said: str) -> None:
    """Have one run of the flow that all loads send.

    Args:
        target: The server.
        body: The request.
        model: Host and port of the stub that the flow names as its model.
        said: What the stub says to it.

    Raises:
        TargetError: It does not work.
    """
    answered = target.ask("POST", "/v1/runs", body)
    if not answered.ok:
        host = model.partition(":")[0]
        told = answered.told
        forbids = host in told or any(word in told.lower() for word in _FORBIDDING)
        hint = (
            f" Its model is a stub at {model}, which flows that come with a request must"
            f" be let reach (heddle-server: --allow-net {host})."
        )
        raise TargetError(
            f"{target.place.host} does not run the flow of the load: {told}."
            f"{hint if forbids else ''}"
        )
    found = answered.json
    state = found.get("state") if isinstance(found, dict) else None
    if not isinstance(state, dict) or state.get("answer") != said:
        raise TargetError(
            f"{target.place.host} runs the flow of the load to another end than its model"
            f" says: {answered.told}."
        )
