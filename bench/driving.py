"""``python -m bench --url URL``: puts a server under load, and prints what came of it.

{"machine": …}
{"about": …}
{"server": {"host", "version", "capabilities"}}     what it says of itself, or null
{"name", "value", …}                                an answer, as of any benchmark
{"skipped": "crowd", "reason": "…"}                 it does not offer what this needs
{"failed": "buffered", "reason": "…"}               it did not withstand this
"""

import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from bench import by_url, offers
from bench.by_url import LOADS, QUICK, Broken, Sizes, Skipped, drive
from bench.harness import Answer, machine
from bench.report import line, section
from bench.subjects import about_module
from bench.target import TargetError, target

NAMES: Final = [load.name for load in LOADS]


def main(
    url: str,
    names: Sequence[str],
    *,
    token: str = "",
    remote: bool = False,
    host: str = "127.0.0.1",
    quick: bool = False,
) -> int:
    """Measure, and print as it comes.

    Args:
        url: Where the server is.
        names: Of `by_url.LOADS`.
        token: What it wants to be shown; "" for nothing.
        remote: Whether it may be on another machine.
        host: The address of this machine at which the server reaches its model.
        quick: Whether with small sizes.

    Returns:
        1 when the server can't be driven, or did not withstand a load.
    """
    try:
        server = target(url, token, remote=remote)
        told = about_module("url", by_url)
        _say(line({"machine": machine()}))
        _say(line(told))
        known = offers.capabilities(server)
        version = (known or {}).get("version")
        shown = {"host": server.place.host, "version": version, "capabilities": known}
        _say(msgspec.json.encode({"server": shown}).decode() + "\n")
        answers: list[Answer] = []
        notes: list[str] = []
        whole = True
        sizes = QUICK if quick else Sizes()
        for result in drive(server, names, sizes, host):
            match result:
                case Answer():
                    _say(line(result))
                    answers.append(result)
                case Skipped(skipped=name, reason=reason):
                    _say(msgspec.json.encode(result).decode() + "\n")
                    notes.append(f"  {name}: left out: {reason}\n")
                case Broken(failed=name, reason=reason):
                    _say(msgspec.json.encode(result).decode() + "\n")
                    notes.append(f"  {name}: FAILED: {reason}\n")
                    whole = False
    except TargetError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write(section(told, answers) + "".join(notes))
    return 0 if whole else 1


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
