"""Profiles of the server under load: the server's own stacks, and nothing of the load.

For each of `LOADS` a folder gets ``<name>.txt``, collapsed stacks (`bench.sampler`), and
``<name>.svg``, the flame graph. Numbers taken beside a sampler are not for quoting.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.bench_server import CONNECTIONS, asked, body, policies, server
from bench.flame import flame
from bench.processes import process

# Name, path, and whether four policies are installed.
LOADS: Final = (
    ("server.buffered", "/v1/runs", False),
    ("server.streamed", "/v1/runs?stream=true", False),
    ("server.four-policies", "/v1/runs", True),
)
SECONDS: Final = 10.0
_PATIENCE: Final = 30.0


def write(folder: Path, *, seconds: float = SECONDS) -> Iterator[str]:
    """Write all of them; one line each on what it shows.

    Raises:
        TimeoutError: a server did not tell what was seen.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stub = int(stack.enter_context(process("bench.model_stub")).line())
        client = stack.enter_context(process("bench.http_load"))
        four = stack.enter_context(policies())
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        how = {"connections": CONNECTIONS}
        sent = body(stub)
        for name, path, guarded in LOADS:
            seen = scratch / name
            before = f"from bench import sampler; sampler.on_signal({str(seen)!r})"
            with server(*(four if guarded else ()), before=before) as served:
                told = asked(client, served.pid, served.port, path, sent, seconds=1, **how)
                os.kill(served.pid, signal.SIGUSR2)
                told = asked(
                    client,
                    served.pid,
                    served.port,
                    path,
                    body(stub),
                    seconds=seconds,
                    **how,
                )
                os.kill(served.pid, signal.SIGUSR2)
                collapsed = _when_there(seen)
            title = f"{name}: {told['cpu']:.0f} µs a run, {told['count']:.0f} runs"
            (folder / f"{name}.txt").write_text(collapsed)
            (folder / f"{name}.svg").write_text(flame(collapsed, title))
            yield f"{folder / name}.svg  {title}\n"


def _when_there(path: Path) -> str:
    until = time.monotonic() + _PATIENCE
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{path.name}: the server did not tell what was seen")
        time.sleep(0.05)
    return path.read_text()


def main() -> None:
    """Into the folder that is named, or build/profiles."""
    for line in write(Path(sys.argv[1] if len(sys.argv) > 1 else "build/profiles")):
        sys.stdout.write(line)


if __name__ == "__main__":
    main()
