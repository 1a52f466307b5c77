"""How many events per second an encoder renders, in a process of its own and inside heddle.

Question: does taking an encoder out of heddle's process cost its users their streams?
Workload: 10,000 `token_delta` events through the same handlers, which make one frame of
          each, as fast as the encoder takes them; in process, then in a Python and in a
          JavaScript plugin. The frames are counted and the last one is looked at.
Answer:   events/s, the median of five runs that take turns. The floor is the encoder
          inside heddle.
"""

import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from bench.harness import Answer, against_floor, median
from plugins_host import (
    Encoder,
    Fleet,
    InProcess,
    InProcessPlugin,
    encode_all,
    load_plugins,
)
from plugins_host.verbs.encoding import Frames, HasLine

EVENTS = 10_000
ROUNDS = 5

PYTHON = """
def encode(event, ctx):
    if event["type"] != "token_delta":
        return []
    return [{"event": "token", "data": {"text": event["delta"], "run": ctx.run_id}}]

handlers = {"Tokens": {"encode": encode}}
manifest = MANIFEST

if __name__ == "__main__":
    from heddle.plugin import serve
    serve(handlers)
"""
JAVASCRIPT = """
serve({ Tokens: { encode: (event, ctx) => event.type !== 'token_delta' ? [] :
  [{ event: 'token', data: { text: event.delta, run: ctx.runId } }] } });
"""


def manifest(name: str) -> str:
    """What both say about themselves."""
    component = {
        "componentType": "Tokens",
        "kind": "encoder",
        "protocol": "tokens",
        "contentType": "text/event-stream",
    }
    raw = {"name": name, "version": "1", "components": [component]}
    return msgspec.json.encode(raw).decode()


def events() -> list[bytes]:
    """What a run would report."""
    return [
        b'{"type":"token_delta","nodeName":"write","delta":"word %d "}' % number
        for number in range(EVENTS)
    ]


async def rendered(encoder: Encoder, told: Sequence[bytes]) -> float:
    """Events per second."""
    made: list[int] = []
    last = b""
    batches = iter([told[at : at + 1000] for at in range(0, len(told), 1000)])

    async def source() -> Sequence[bytes]:
        await trio.lowlevel.checkpoint()
        return next(batches, ())

    async def sink(frames: Frames) -> None:
        nonlocal last
        made.append(len(frames))
        last = bytes(frames[-1].data)
        await trio.lowlevel.checkpoint()

    async with encoder.encoding("run") as encoding:
        began = time.perf_counter()
        await encode_all(encoding, source, sink)
        spent = time.perf_counter() - began
    assert sum(made) == EVENTS, sum(made)
    assert b"word %d " % (EVENTS - 1) in last, last
    return EVENTS / spent


@asynccontextmanager
async def encoders(folder: Path) -> AsyncIterator[dict[str, Encoder]]:
    """One of each kind."""
    for name, source in (("python", PYTHON), ("javascript", JAVASCRIPT)):
        suffix = "py" if name == "python" else "mjs"
        code = source.replace("MANIFEST", manifest("inside"))
        (folder / f"{name}.{suffix}").write_text(code)
        (folder / f"{name}.json").write_text(manifest(name))
    inside = load_plugins((str(folder / "python.py"),)).plugins[0]
    assert isinstance(inside.home, InProcess)
    programs = []
    for name in ("python", "javascript"):
        (plugin,) = load_plugins((str(folder / f"{name}.json"),)).plugins
        assert not isinstance(plugin.home, InProcess)
        assert plugin.home.program is not None
        programs.append(plugin.home.program)
    async with Fleet(programs, log=lambda _: None) as fleet:
        here = InProcessPlugin(
            "inside", inside.home.handlers, capabilities=frozenset(), log=lambda _: None
        )
        plugins: dict[str, HasLine] = {"inside": here, **fleet}
        yield {
            name: Encoder("tokens", "text/event-stream", "Tokens", plugin)
            for name, plugin in plugins.items()
        }


def run() -> Iterator[Answer]:
    """Let the three take turns."""
    told = events()
    speeds: dict[str, list[float]] = {}

    async def measure() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with encoders(Path(folder)) as each:
                for turn in range(ROUNDS + 1):
                    for name, encoder in each.items():
                        speed = await rendered(encoder, told)
                        if turn:
                            speeds.setdefault(name, []).append(speed)

    trio.run(measure)
    floor = median(speeds["inside"])
    for name in ("python", "javascript"):
        yield against_floor(
            f"encoder.{name}",
            median(speeds[name]),
            "events/s",
            floor=floor,
            limit=0.6,
            better="higher",
        )
