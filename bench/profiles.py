"""Profiles of what works under load: its own stacks, and nothing of the load.

For each name a folder gets ``<name>.txt``, collapsed stacks (`bench.sampler`), and
``<name>.svg``, the flame graph. A name is one of `LOADS`, which a heddle-server is put
under, or a benchmark, of which the process that runs it is looked at. Numbers taken beside
a sampler are not for quoting.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from bench.bench_server import CADENCE, CONNECTIONS, STREAMS, asked, body, policies, server
from bench.bench_server_crowd import READERS, followed
from bench.flame import flame
from bench.processes import Process, Served, process
from bench.sampler import Sampler
from bench.sizes import quick
from bench.subjects import module_of

SECONDS: Final = 5.0
"""Of a server's processor time that is looked at: a thousand samples and more."""
_ROUND: Final = 1.0
_UNSEEN: Final = 20
"""So many times as long a server is looked at of which nothing is seen."""
_PATIENCE: Final = 30.0


class Bench(Struct, frozen=True):
    """What puts a server under load."""

    stub: Process
    port: int
    client: Process


class Seen(Struct):
    """What was seen of a server, while it was looked at.

    Args:
        pid: The server.
        path: Where it writes what it saw.
    """

    pid: int
    path: Path
    stacks: str = ""
    worked: float = 0.0

    def enough(self, seconds: float) -> bool:
        """Whether it has worked so long, and something was seen of it.

        The system looks once a tick, and may find others at work each time.
        """
        return self.worked >= seconds and (
            bool(self.stacks) or self.worked >= _UNSEEN * seconds
        )

    @property
    def collapsed(self) -> str:
        """All of it, as of one `bench.sampler`."""
        return f"#seconds {self.worked:.3f}\n{self.stacks}"

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look at it as long as the block.

        Raises:
            TimeoutError: It did not tell what was seen.
        """
        os.kill(self.pid, signal.SIGUSR2)
        yield
        os.kill(self.pid, signal.SIGUSR2)
        told = _when_there(self.path)
        self.path.unlink()
        head, _, stacks = told.partition("\n")
        self.worked += float(head.removeprefix("#seconds "))
        # Stacks that were seen before are counted again: collapsed stacks add up.
        self.stacks += stacks


class Load(Struct, frozen=True):
    """What a server is put under.

    Attributes:
        name: What it is called.
        guarded: Whether four policies are installed.
        put: Puts it under it, until it was looked at for so many seconds of its
            processor time; how many runs that were.
    """

    name: str
    guarded: bool
    put: Callable[[Bench, Served, Seen, float], int]


def _posted(
    path: str, connections: int = CONNECTIONS
) -> Callable[[Bench, Served, Seen, float], int]:
    def put(bench: Bench, served: Served, seen: Seen, seconds: float) -> int:
        round_of = min(_ROUND, seconds)

        def load() -> int:
            sent, how = body(bench.port), {"connections": connections, "seconds": round_of}
            told = asked(bench.client, served.pid, served.port, path, sent, **how)
            return int(told["count"])

        load()
        runs = 0
        while not seen.enough(seconds):
            with seen.looking():
                runs += load()
        return runs

    return put


def _fan_out(bench: Bench, served: Served, seen: Seen, seconds: float) -> int:
    """Run after run. Looked at is what the readers of one are told, not their coming."""
    followed(served, bench.stub, bench.port, READERS)
    runs = 0
    while not seen.enough(seconds):
        followed(served, bench.stub, bench.port, READERS, meanwhile=seen.looking)
        runs += 1
    return runs


LOADS: Final = (
    Load("server.buffered", False, _posted("/v1/runs")),
    Load("server.streamed", False, _posted("/v1/runs?stream=true", STREAMS)),
    Load("server.four-policies", True, _posted("/v1/runs")),
    Load("server.fan-out", False, _fan_out),
)
NAMES: Final = [load.name for load in LOADS]


def write(
    folder: Path,
    names: Sequence[str] = NAMES,
    *,
    seconds: float = SECONDS,
    small: bool = False,
) -> Iterator[str]:
    """Write all that are named; one line each on what it shows.

    Args:
        folder: Where the pictures go.
        names: Of loads and of benchmarks.
        seconds: Of its processor time that a server is looked at under each load.
        small: Whether benchmarks are run with small sizes.

    Raises:
        TimeoutError: A server did not tell what was seen.
    """
    folder.mkdir(parents=True, exist_ok=True)
    loads = [load for load in LOADS if load.name in names]
    if loads:
        with ExitStack() as stack:
            stub = stack.enter_context(process("bench.model_stub", "127.0.0.1", CADENCE))
            client = stack.enter_context(process("bench.http_load"))
            bench = Bench(stub, int(stub.line()), client)
            for load in loads:
                yield _of_server(folder, load, bench, seconds)
    for name in (each for each in names if each not in NAMES):
        yield _of_benchmark(folder, name, small=small)


def _of_server(folder: Path, load: Load, bench: Bench, seconds: float) -> str:
    with ExitStack() as stack:
        four = stack.enter_context(policies()) if load.guarded else ()
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = scratch / load.name
        before = f"from bench import sampler; sampler.on_signal({str(path)!r})"
        served = stack.enter_context(server(*four, before=before))
        seen = Seen(served.pid, path)
        runs = load.put(bench, served, seen, seconds)
    each = seen.worked / runs
    shown = f"{each * 1e3:.0f} ms" if each > 0.01 else f"{each * 1e6:.0f} µs"
    return _drawn(folder, load.name, seen.collapsed, f"{shown} a run, {runs:,} runs")


def _of_benchmark(folder: Path, subject: str, *, small: bool) -> str:
    module = module_of(subject)
    sampler = Sampler()
    before = time.process_time()
    with ExitStack() as stack:
        if small:
            stack.enter_context(quick(subject, module))
        sampler.start()
        stack.callback(sampler.stop)
        for _ in module.run():
            pass
    worked = time.process_time() - before
    return _drawn(folder, subject, sampler.collapsed(), f"{worked:.1f} s of this process")


def _drawn(folder: Path, name: str, collapsed: str, told: str) -> str:
    title = f"{name}: {told}"
    (folder / f"{name}.txt").write_text(collapsed)
    (folder / f"{name}.svg").write_text(flame(collapsed, title))
    return f"{folder / name}.svg  {title}\n"


def _when_there(path: Path) -> str:
    until = time.monotonic() + _PATIENCE
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{path.name}: the server did not tell what was seen")
        time.sleep(0.01)
    return path.read_text()
