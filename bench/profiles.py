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

from bench.bench_server import CONNECTIONS, asked, body, policies, server
from bench.bench_server_crowd import READERS, followed
from bench.flame import flame
from bench.processes import Process, Served, process, processor_seconds
from bench.sampler import Sampler
from bench.sizes import quick
from bench.subjects import module_of

SECONDS: Final = 10.0
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
    collapsed: str = ""
    worked: float = 0.0

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look at it as long as the block.

        Raises:
            TimeoutError: It did not tell what was seen.
        """
        before = processor_seconds(self.pid)
        os.kill(self.pid, signal.SIGUSR2)
        yield
        os.kill(self.pid, signal.SIGUSR2)
        self.worked += processor_seconds(self.pid) - before
        # Stacks that were seen before are counted again: collapsed stacks add up.
        self.collapsed += _when_there(self.path)
        self.path.unlink()


class Load(Struct, frozen=True):
    """What a server is put under.

    Attributes:
        name: What it is called.
        guarded: Whether four policies are installed.
        put: Puts it under it, for so many seconds while it is looked at; how many runs
            that were.
    """

    name: str
    guarded: bool
    put: Callable[[Bench, Served, Seen, float], int]


def _posted(path: str) -> Callable[[Bench, Served, Seen, float], int]:
    def put(bench: Bench, served: Served, seen: Seen, seconds: float) -> int:
        def load(how_long: float) -> int:
            sent, how = body(bench.port), {"connections": CONNECTIONS, "seconds": how_long}
            told = asked(bench.client, served.pid, served.port, path, sent, **how)
            return int(told["count"])

        load(min(1.0, seconds))
        with seen.looking():
            return load(seconds)

    return put


def _fan_out(bench: Bench, served: Served, seen: Seen, seconds: float) -> int:
    """Run after run. Looked at is what the readers of one are told, not their coming."""
    followed(served, bench.stub, bench.port, READERS)
    runs, until = 0, time.monotonic() + seconds
    while not runs or time.monotonic() < until:
        followed(served, bench.stub, bench.port, READERS, meanwhile=seen.looking)
        runs += 1
    return runs


LOADS: Final = (
    Load("server.buffered", False, _posted("/v1/runs")),
    Load("server.streamed", False, _posted("/v1/runs?stream=true")),
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
        seconds: How long a server is looked at under each load.
        small: Whether benchmarks are run with small sizes.

    Raises:
        TimeoutError: A server did not tell what was seen.
    """
    folder.mkdir(parents=True, exist_ok=True)
    loads = [load for load in LOADS if load.name in names]
    if loads:
        with ExitStack() as stack:
            stub = stack.enter_context(process("bench.model_stub"))
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
