"""A server that is there already, under the same load as heddle-server in `bench_server`.

Question: how does another implementation of the same API do under the same load?
Workload: 32 connections, each posting the flow and its inputs over and over, buffered and
          as an SSE stream; from 10 to 1,000 connections; a run of 10,000 events with 1 and
          100 WebSocket readers. The model is a stub of ours; on this machine the floor is
          `bench.relay`. What the server does not offer is left out, and said.
Answer:   requests/s, alternating with the floor; percentiles; µs of processor time a run
          where its metrics tell it; events/s delivered, and how long it takes until 100
          readers were told all, over the same of one.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from msgspec import Struct

from bench import offers
from bench.bench_server import CADENCE, CONNECTIONS, STREAMS, WIDE, body, medians
from bench.harness import Answer, against_floor, median
from bench.model_answers import TEXT
from bench.place import Place
from bench.processes import WorkFailed, process
from bench.target import Target

_PATIENCE: Final = 30.0
_WORKED: Final = "process_cpu_seconds_total"


class Sizes(Struct, frozen=True):
    """How much load."""

    seconds: float = 0.8
    rounds: int = 5
    connections: int = CONNECTIONS
    streams: int = STREAMS
    wide: tuple[int, int] = WIDE
    events: int = 10_000
    readers: int = 100
    followed: int = 5


QUICK: Final = Sizes(
    seconds=0.2, rounds=1, streams=32, wide=(10, 100), events=1_000, followed=1
)


class Skipped(Struct, frozen=True):
    """A load that the server can't be put under, and why."""

    skipped: str
    reason: str


class Broken(Struct, frozen=True):
    """A load that the server did not withstand, and how that showed."""

    failed: str
    reason: str


class Driven:
    """All that a load needs.

    Args:
        server: The one that is measured.
        known: What it says of itself.
        sizes: How much load.
        host: Where the model listens.
        stack: What is started for it ends with this.
    """

    def __init__(
        self,
        server: Target,
        known: Mapping[str, Any] | None,
        sizes: Sizes,
        host: str,
        stack: ExitStack,
    ) -> None:
        self.server = server
        self.known = known
        self.sizes = sizes
        self.stub = stack.enter_context(process("bench.model_stub", host, CADENCE))
        self._port = int(self.stub.line())
        self._host = host
        self.model = f"{host}:{self._port}"
        self._client = stack.enter_context(process("bench.http_load"))
        self.floor: Place | None = None
        if server.near:
            relay = stack.enter_context(process("bench.relay", str(self._port)))
            self.floor = Place(int(relay.line()))

    @property
    def sent(self) -> str:
        """The request that all send."""
        return body(self._port, host=self._host)

    def long(self, events: int) -> str:
        """A request for a run of so many events, which waits for a word to the stub."""
        return body(self._port, f"long {events}", host=self._host)

    def loaded(self, place: Place, path: str, **how: Any) -> dict[str, float]:
        """One round of load.

        Raises:
            WorkFailed: An answer was no success.
        """
        told: dict[str, float] = self._client.ask(
            {"place": place, "path": path, "body": self.sent, **how}
        )
        return told

    def measured(self, path: str, connections: int) -> dict[str, float]:
        """One round on the server, with its processor time a run where it tells that."""
        before = self.server.counted().get(_WORKED)
        told = self.loaded(
            self.server.place, path, connections=connections, seconds=self.sizes.seconds
        )
        after = self.server.counted().get(_WORKED)
        if before is not None and after is not None:
            told["cpu"] = (after - before) / told["count"] * 1e6
        return told


class Load(Struct, frozen=True):
    """One kind of load.

    Attributes:
        name: What it is called.
        told: What it is, in a line.
        lacks: Says what the server lacks for it, if anything.
        measure: Measures.
    """

    name: str
    told: str
    lacks: Callable[[Driven], str | None]
    measure: Callable[[Driven], Iterator[Answer]]


def drive(
    server: Target, names: Sequence[str], sizes: Sizes, host: str = "127.0.0.1"
) -> Iterator[Answer | Skipped | Broken]:
    """Put the server under the loads that are named.

    Raises:
        TargetError: It does not do what all of them need.
    """
    known = offers.capabilities(server)
    with ExitStack() as stack:
        driven = Driven(server, known, sizes, host, stack)
        offers.check_run(server, driven.sent, driven.model, TEXT * 5)
        for load in (each for each in LOADS if each.name in names):
            reason = load.lacks(driven)
            if reason is not None:
                yield Skipped(load.name, reason)
                continue
            try:
                yield from load.measure(driven)
            except WorkFailed as failed:
                yield Broken(load.name, str(failed))


def _sides(driven: Driven, name: str, path: str, connections: int) -> Iterator[Answer]:
    """Requests beside those of the floor, which take turns after one to warm up."""
    sizes = driven.sizes
    ours, theirs = [], []
    for number in range(sizes.rounds + 1):
        told = driven.measured(path, connections)
        bare = None
        if driven.floor is not None:
            how = {"connections": connections, "seconds": sizes.seconds}
            bare = driven.loaded(driven.floor, path, **how)
        if number:
            ours.append(told)
            theirs += [] if bare is None else [bare]
    run = medians(ours)
    detail = _detail(run)
    if not theirs:
        yield Answer(name, run["rate"], "runs/s", better="higher", detail=detail)
        return
    floor = medians(theirs)
    yield against_floor(
        name,
        run["rate"],
        "runs/s",
        floor=floor["rate"],
        better="higher",
        detail={**detail, "floor_p99_ms": round(floor["p99"], 2)},
    )


def _detail(run: Mapping[str, float]) -> dict[str, float]:
    shown = {"p50_ms": round(run["p50"], 2), "p99_ms": round(run["p99"], 2)}
    return {**shown, **({"cpu_us": round(run["cpu"], 1)} if "cpu" in run else {})}


def _buffered(driven: Driven) -> Iterator[Answer]:
    yield from _sides(driven, "url.buffered", "/v1/runs", driven.sizes.connections)


def _streamed(driven: Driven) -> Iterator[Answer]:
    yield from _sides(driven, "url.streamed", "/v1/runs?stream=true", driven.sizes.streams)


def _crowd(driven: Driven) -> Iterator[Answer]:
    few, many = (
        medians([driven.measured("/v1/runs", wide) for _ in range(driven.sizes.rounds)])
        for wide in driven.sizes.wide
    )
    yield against_floor(
        f"url.runs of {driven.sizes.wide[1]:,} at once",
        many["rate"],
        "runs/s",
        floor=few["rate"],
        better="higher",
        detail=_detail(many),
    )


def _followed(driven: Driven, readers: int) -> dict[str, Any]:
    """One run with so many readers: what they were told, and in which time."""
    answered = driven.server.ask(
        "POST", "/v1/runs?detach=true", driven.long(driven.sizes.events)
    )
    run = offers.begun(answered)
    if run is None:
        raise WorkFailed(f"a run was not begun: {answered.told}", answered.status)
    with process("bench.socket_readers") as client:
        client.ask({"place": driven.server.place, "run": run, "readers": readers})
        try:
            driven.stub.line(_PATIENCE)
        except TimeoutError:
            raise WorkFailed("the run does not ask its model") from None
        begin = time.monotonic()
        driven.stub.tell(b"go")
        told: dict[str, Any] = client.answer()
    # One clock for all processes of a machine, and both are on this one.
    return {**told, "until": told["ended"] - begin}


def _readers(driven: Driven) -> Iterator[Answer]:
    alone, many = [], []
    for number in range(driven.sizes.followed + 1):
        one, all_of_them = _followed(driven, 1), _followed(driven, driven.sizes.readers)
        if number:
            alone.append(one)
            many.append(all_of_them)
    readers = driven.sizes.readers
    yield Answer(
        f"url.delivered to {readers} readers",
        median([each["events"] / each["seconds"] for each in many]),
        "events/s",
        better="higher",
        detail={
            "events": driven.sizes.events,
            # Those who fell behind are told what they missed, and are not complete.
            "complete": min(each["complete"] for each in many),
        },
    )
    yield against_floor(
        f"url.until {readers} readers were told all",
        median([each["until"] for each in many]) * 1e3,
        "ms",
        floor=median([each["until"] for each in alone]) * 1e3,
    )


LOADS: Final = (
    Load(
        "buffered",
        "requests that are answered at the end of their run",
        lambda driven: offers.too_few(driven.known, driven.sizes.connections),
        _buffered,
    ),
    Load(
        "streamed",
        "requests that are answered by the events of their run (SSE)",
        lambda driven: (
            offers.too_few(driven.known, driven.sizes.streams)
            or offers.no_stream(driven.server, driven.sent)
        ),
        _streamed,
    ),
    Load(
        "readers",
        "a run that 1 and 100 WebSocket readers follow",
        lambda driven: (
            offers.no_socket(driven.server.place) or offers.no_detached(driven.server)
        ),
        _readers,
    ),
    Load(
        "crowd",
        "1,000 requests at once beside 10",
        lambda driven: offers.too_few(driven.known, driven.sizes.wide[1]),
        _crowd,
    ),
)
