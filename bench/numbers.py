"""Every number that the benchmarks tell: what it says, what its floor is, and its limit.

The limits are those in the benchmarks, which are held against this table as they are told
(`undeclared`); the page of the numbers is printed from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from bench.harness import Answer


class Number(Struct, frozen=True):
    """One of them.

    Attributes:
        name: As it is told.
        says: What it is.
        floor: The same work without heddle; "" where there is none.
        limit: What is promised, of the ratio where there is a floor and ``of`` says so.
        of: "ratio" or "value": what the limit is of.
        better: "lower" or "higher".
    """

    name: str
    says: str
    floor: str = ""
    limit: float | None = None
    of: str = "ratio"
    better: str = "lower"


_BODIES: Final = {
    "flat": "numbers in one list",
    "objects": "small objects in one list",
    "deep": "lists in lists",
    "flow": "what pretends to be a flow",
    "too many": "more empty lists than a body may have, which are refused",
}

NUMBERS: Final[Mapping[str, Sequence[Number]]] = {
    "actors": (
        Number(
            "actors.call",
            "A question to an actor and its answer, one caller.",
            "a memory channel there and one back",
            1.0,
        ),
        Number(
            "actors.call, 32 callers",
            "The same with 32 at once.",
            "a memory channel there and one back",
            1.0,
        ),
        Number(
            "actors.cast",
            "A message that is not answered, one after the other.",
            "a memory channel as long as a mailbox",
        ),
        Number(
            "actors.cast_nowait, a mailbox at a time",
            "A mailbox of messages sent without waiting.",
            "the same into a memory channel",
        ),
        Number(
            "actors.start, call and end",
            "The whole life of an actor.",
            "a task, two channels and a scope to end it by",
        ),
        Number(
            "actors.turn beside a flooded actor",
            "How long a task waits for its turn while an actor never runs out of mail.",
        ),
        Number(
            "actors.idle, of its memory traced",
            "Bytes of Python objects of an actor that waits, its task included.",
            "a task that waits on a channel",
            8192,
            "value",
        ),
        Number(
            "actors.idle, of resident memory",
            "The same as the system counts it, in a fresh process.",
            "",
            8192,
            "value",
        ),
    ),
    "cli": (
        Number(
            "cli.run",
            "`heddle run` of a flow that does nothing, from start to end.",
            "an interpreter that imports trio and msgspec",
            1.4,
        ),
        Number("cli.validate", "`heddle validate` of the same flow.", "a bare interpreter"),
        Number("cli.help", "`heddle --help`.", "a bare interpreter"),
    ),
    "consultation": (
        Number(
            "consultation.small.p50",
            "One question of 200 bytes to a policy that lets everything be.",
            "a JSON line to the same process and back",
            2.5,
        ),
        Number(
            "consultation.100 callers",
            "Questions a second of 100 callers at once.",
            "lines a second of as many",
            0.6,
            better="higher",
        ),
        Number(
            "consultation.100 callers.p99 over p50",
            "How much longer the slowest of a hundred wait than the middle one.",
            "",
            5.0,
            "value",
        ),
        Number(
            "consultation.500 KB.p50",
            "A question about half a megabyte.",
            "a line as long, there and back",
            1.5,
        ),
        Number(
            "consultation.four policies, ten nodes, one frame",
            "All questions of a flow of ten nodes; one frame asks all four.",
            "as many bare lines there and back",
            1.5,
        ),
        Number(
            "consultation.four policies, ten nodes, one by one",
            "The same where each of the four is asked by itself.",
            "as many bare lines there and back",
        ),
    ),
    "documents": (
        Number(
            "documents.json",
            "A flow of 2.4 KB from JSON to linked components.",
            "`msgspec.json.decode` of the same bytes",
            25,
        ),
        Number(
            "documents.yaml",
            "The same from YAML.",
            "libyaml's loader on the same bytes",
            1.0,
        ),
        Number(
            "documents.large",
            "A node of a flow of 10,000 nodes.",
            "a node of a flow of 1,000: 1 is linear",
            2.0,
        ),
        Number("documents.convert", "A number converted.", "`msgspec.convert` of a list"),
        Number(
            "documents.convert_list",
            "A list of numbers converted to a list of texts.",
            "`msgspec.convert` of a list",
        ),
        Number(
            "documents.check",
            "A list held against its schema.",
            "`msgspec.convert` of a list",
        ),
        Number("documents.render", "A prompt filled in.", "`msgspec.convert` of a list"),
    ),
    "encoder": (
        Number(
            "encoder.python",
            "Events a second through an encoder in a Python plugin.",
            "the same encoder inside heddle",
            0.6,
            better="higher",
        ),
        Number(
            "encoder.javascript",
            "The same in a JavaScript plugin; needs Node.",
            "the same encoder inside heddle",
            0.6,
            better="higher",
        ),
    ),
    "engine": (
        Number(
            "engine.compile.cold",
            "A flow of 2.4 KB, read and compiled for the first time.",
            "",
            0.4,
            "value",
        ),
        Number(
            "engine.compile.cached", "The same from the cache of plans.", "", 20, "value"
        ),
        Number(
            "engine.node",
            "A node that passes the state on, its events included.",
            "",
            40,
            "value",
        ),
        Number("engine.run", "A run of start, prompt and end, its model a stand-in."),
        Number(
            "engine.waiting_run",
            "Memory of a run that waits on its model.",
            "",
            60,
            "value",
        ),
    ),
    "event_log": (
        Number("event_log.waiting_run", "Memory of a run that waits, with a reader."),
        Number(
            "event_log.cancel_one_of_1000",
            "From cancelling one of 1,000 runs to its end.",
            "",
            100,
            "value",
        ),
        Number(
            "event_log.unread_event",
            "An event of a short run that nobody follows.",
            "encoding it",
        ),
        Number(
            "event_log.run",
            "A run's way through the list of runs.",
            "its task and its events alone",
        ),
        Number(
            "event_log.run_with_100_readers",
            "A run of 10,000 events with 100 readers in the process.",
            "the same with one reader",
            1.5,
        ),
        Number(
            "event_log.delivered",
            "Events a second that these readers have, all together.",
            "",
            100_000,
            "value",
            "higher",
        ),
    ),
    "http": (
        Number(
            "http.echo",
            "Requests a second that are answered by what they say.",
            "a loop over the same parser, without limits, time-outs and checks",
            1 / 3,
            better="higher",
        ),
        Number(
            "http.streamed",
            "The same, answered in four pieces.",
            "the same loop",
            1 / 3,
            better="higher",
        ),
        Number(
            "http.leaving",
            "From a client's hanging up to the end of what it asked for.",
            "",
            100,
            "value",
        ),
        Number("http.waiting", "Memory of a request that waits.", "", 24, "value"),
        Number("http.idle", "Memory of a connection that is idle.", "", 16, "value"),
    ),
    "long_bodies": (
        *(
            Number(
                f"long_bodies.others beside {name}, read",
                f"The longest that others wait while 8 MiB are checked: {what}.",
                "",
                50,
                "value",
            )
            for name, what in _BODIES.items()
        ),
        *(
            Number(
                f"long_bodies.others beside {name}, run",
                "The same while they are the inputs of a run.",
            )
            for name in ("flat", "objects")
        ),
    ),
    "model_client": (
        Number(
            "model_client.buffered",
            "Model calls a second of 32 tasks.",
            "a bare loop over the same parser and connections",
            0.5,
            better="higher",
        ),
        Number(
            "model_client.streamed",
            "The same streamed, in one write.",
            "the same loop",
            0.5,
            better="higher",
        ),
        Number(
            "model_client.streamed.paced",
            "The same streamed, in five writes.",
            "the same loop",
            better="higher",
        ),
    ),
    "plugin_start": (
        Number(
            "plugin_start.first_answer",
            "From the start of a plugin in Python to its first answer.",
            "an interpreter that imports msgspec, to its end",
            1.5,
        ),
        Number(
            "plugin_start.import",
            "The same without what a bare interpreter takes.",
            "",
            60,
            "value",
        ),
    ),
    "policies": (
        Number(
            "policies.four at every seam, python",
            "What four policies in Python add to a run of ten nodes: 42 questions.",
            "42 bare lines to such a process and back",
            1.5,
        ),
        Number(
            "policies.four at every seam, python, one core",
            "The same with heddle and its plugin on one core.",
            "42 bare lines on one core",
        ),
        Number(
            "policies.four at every seam, javascript",
            "The same in JavaScript; needs Node.",
            "42 bare lines to such a process and back",
            1.5,
        ),
        Number(
            "policies.four at every seam, javascript, one core",
            "The same on one core.",
            "42 bare lines on one core",
        ),
        Number(
            "policies.installed and never asked",
            "A run beside policies of seams that it never comes to.",
            "the same run without policies",
            1.03,
        ),
    ),
    "provider": (
        Number(
            "provider.batch of 8 chunks",
            "Eight chunks of an answer, from a plugin to the reader of the text.",
            "a bare line there and back",
            1.5,
        ),
        Number(
            "provider.chunks at once",
            "Chunks a second when all are written at once.",
            better="higher",
        ),
    ),
    "server": (
        Number(
            "server.buffered",
            "Runs a second of start, agent and end, over 32 connections.",
            "a bare relay from the request to the model and back",
            1 / 3,
            better="higher",
        ),
        Number(
            "server.buffered, p99 over p50",
            "How much longer the slowest of a hundred take than the middle one.",
            "the middle one",
            4,
        ),
        Number(
            "server.streamed",
            "The same over 128 connections, answered by events, its model in five pieces.",
            "the same relay, streaming",
            1 / 3,
            better="higher",
        ),
        Number(
            "server.streamed, p99 over p50",
            "As for buffered ones.",
            "the middle one",
            4,
        ),
        Number(
            "server.four policies",
            "The same buffered, with four policies of one process.",
            "the same server without policies",
            0.4,
            better="higher",
        ),
        Number(
            "server.processor time, 1,000 at once",
            "Processor time of a run among 1,000 at once.",
            "of a run among 10",
            1.2,
        ),
    ),
    "server_crowd": (
        Number(
            "server.run with 100 readers",
            "A run of 10,000 events that 100 WebSockets follow.",
            "the same with one",
            1.5,
        ),
        Number(
            "server.delivered to 100 readers",
            "Events a second that these are sent, all together.",
            "",
            100_000,
            "value",
            "higher",
        ),
        Number(
            "server.waiting run",
            "Memory of a run that waits on its model, with an SSE reader.",
            "",
            120,
            "value",
        ),
        Number(
            "server.slot of a cancelled run",
            "From a client's hanging up to another's being let in, on a full server.",
            "",
            100,
            "value",
        ),
        Number(
            "server.p99 beside 1,000 waiting runs",
            "The slowest of a hundred runs beside 1,000 that wait.",
            "the same without the settings of the collector",
        ),
        Number(
            "server.memory over 100,000 runs",
            "The most memory in the second half of 100,000 runs.",
            "the memory at its beginning",
            1.05,
        ),
    ),
    "server_start": (
        Number(
            "server_start",
            "From the start of a server to its first answer.",
            "an interpreter that imports trio, msgspec and httptools",
            1.6,
        ),
    ),
    "subflows": (
        Number(
            "subflows.map_item",
            "An item of a parallel map over a start and an end, in plain nodes.",
            "",
            1.5,
            "value",
        ),
        Number(
            "subflows.step",
            "What a flow as a step adds to its nodes.",
            "",
            60,
            "value",
        ),
    ),
    "terminal": (
        Number(
            "terminal.run",
            "Processor time of a run of 10,000 events under a policy, drawn.",
            "the same not drawn",
            1.1,
        ),
        Number(
            "terminal.run_unasked",
            "The same without a policy, its model answering at once.",
            "the same not drawn",
            1.1,
        ),
        Number(
            "terminal.run_scripted",
            "The same with a model inside heddle.",
            "the same not drawn",
            1.1,
        ),
        Number(
            "terminal.flood",
            "The share of a processor that drawing 10,000 events a second takes.",
            "",
            0.25,
            "value",
        ),
        Number(
            "terminal.flood_memory",
            "What the second half of that adds to the process.",
            "",
            8,
            "value",
        ),
    ),
    "tools": (
        Number(
            "tools.call.alone",
            "A call of a tool that is a program.",
            "`trio.run_process` with the same bytes in and out",
            1.5,
        ),
        Number(
            "tools.call.many",
            "The same of 16 callers over 8 slots.",
            "the same of as many",
            1.5,
        ),
    ),
}


def undeclared(subject: str, answers: Iterable[Answer]) -> list[str]:
    """What answers of a benchmark tell otherwise than the table; a line each."""
    rows = {number.name: number for number in NUMBERS.get(subject, ())}
    problems = []
    for answer in answers:
        row = rows.get(answer.name)
        told = (answer.floor is not None, answer.limit)
        if row is None:
            problems.append(f"{answer.name}: bench/numbers.py has no row of it")
        elif told != (bool(row.floor), row.limit):
            problems.append(f"{answer.name}: bench/numbers.py tells another floor or limit")
        elif row.limit is not None and (answer.ratio is None) != (row.of == "value"):
            problems.append(f"{answer.name}: bench/numbers.py has its limit of another")
        elif row.limit is not None and answer.better != row.better:
            problems.append(f"{answer.name}: bench/numbers.py tells another direction")
    return problems
