"""The load of a campaign: clients that begin one run after the other, each in some way.

    how a run is begun and followed     see `WAYS`
    what it asks of policies, models    see `SCRIPTS`
    how its client leaves it            not at all, by cancelling it, by hanging up

All of it is chosen by the client's own random numbers, so that its n-th run is the same in
each campaign of a seed. What has become of a run is written into its `Fate`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import trio
from msgspec import Struct

from heddle.client import (
    Client,
    ClientFault,
    Entry,
    Refused,
    RunCancelled,
    RunFailed,
    ServedFlow,
    Unreachable,
    connect,
)
from heddle.client.entries import Missed
from tests.pressure.cast import (
    NONCE,
    Does,
    brought_plugin,
    brought_tool,
    languages,
    made_flows,
    policies,
)
from tests.pressure.models import MODES
from tests.pressure.plan import Plan
from tests.pressure.stage import Stage

T = TypeVar("T")

SLACK: Final = 40.0
"""Seconds after which a run has not ended, and never will: far beyond its own time-out."""

NEVER: Final = 10 * SLACK
"""The patience of who does not leave."""

PAUSE: Final = 0.05
"""Mean seconds between two runs of a client."""

SCRIPTS: Final[Mapping[Does, int]] = {
    Does.GOES_ON: 62,
    Does.SLOW: 12,
    Does.CALLS: 12,
    Does.THROWS: 5,
    Does.GARBAGE: 5,
    Does.HANGS: 4,
}
MODEL_MODES: Final[Mapping[str, int]] = {
    **dict.fromkeys(MODES, 5),
    "ok": 60,
    "slow": 12,
    "silent": 3,
}
LEAVES: Final[Mapping[str, int]] = {"": 80, "cancel": 10, "hang up": 10}
"""How often of a hundred each is chosen."""


class Fate(Struct):
    """A run, what it asked for, and what its client knows of it.

    Attributes:
        nonce: Its mark.
        way: A key of `WAYS`.
        flow: The name of its flow.
        who, does, mode: As of `tests.pressure.cast`.
        leaves: How its client leaves it; empty when it stays.
        patience: Seconds until it is left.
        relayed: Whether its connections are among those that are cut.
        began, ended: Seconds of trio's clock.
        run: Its id, once it is known.
        ending: One of ``completed``, ``failed``, ``cancelled`` as the server told it;
            ``left``; ``refused``, it never began; ``lost``, its worker is gone;
            ``unreachable``, the connection broke. Empty while none is known.
        error: The class and message of its error.
        endings: How often an end of it was told.
        left: Whether its client has left it.
        marks: All nonces that were seen in what is the run's.
        state: What it ended with.
        odd: What must not be and was found on the way.
    """

    nonce: str
    way: str
    flow: str
    who: str
    does: Does
    mode: str
    leaves: str
    patience: float
    relayed: bool
    began: float = 0.0
    ended: float = 0.0
    run: str = ""
    ending: str = ""
    error: tuple[str, str] = ("", "")
    endings: int = 0
    left: bool = False
    marks: set[str] = msgspec.field(default_factory=set)
    state: dict[str, Any] | None = None
    odd: list[str] = []

    @property
    def inputs(self) -> dict[str, str]:
        """What it begins with."""
        return {
            "nonce": self.nonce,
            "who": self.who,
            "does": self.does.value,
            "mode": self.mode,
        }

    def saw(self, data: bytes) -> None:
        """This came as a part of the run."""
        self.marks |= {found.decode() for found in NONCE.findall(data)}

    def completed(self, state: dict[str, Any]) -> None:
        """It was told to have come to its end."""
        self.ending = "completed"
        self.endings += 1
        self.state = state
        self.saw(msgspec.json.encode(state))

    def failed(self, fault: ClientFault) -> None:
        """This is what its client was told instead."""
        match fault:
            case RunCancelled():
                self.ending = "cancelled"
            case RunFailed():
                self.ending = "failed"
            case Refused(status=status):
                self.ending = "lost" if self.run and status in (404, 503) else "refused"
            case Unreachable():
                self.ending = "unreachable"
            case _:
                self.ending = "failed"
                self.odd.append(f"{type(fault).__name__}: {fault}")
        self.endings += isinstance(fault, RunFailed)
        if isinstance(fault, Refused):
            self.error = fault.type, fault.message
            self.run = self.run or getattr(fault, "run", "")
        else:
            self.error = type(fault).__name__, str(fault)
        self.saw(self.error[1].encode())


class Company(Struct, frozen=True):
    """What a client asks with: over the relay, and straight."""

    stage: Stage
    straight: Client
    relayed: Client
    model_url: str

    def client(self, fate: Fate) -> Client:
        """The one that a run is begun with."""
        return self.relayed if fate.relayed else self.straight

    def asked(self, fate: Fate) -> dict[str, Any]:
        """The flow and the code of a run, as arguments."""
        match fate.flow:
            case "brought":
                flow = made_flows(self.model_url)[fate.flow]
                return {"flow": flow, "tools": (brought_tool(),)}
            case "plugin":
                flow = made_flows(self.model_url)[fate.flow]
                language = languages()[len(fate.nonce) % len(languages())]
                return {"flow": flow, "plugins": (brought_plugin(language),)}
            case name:
                return {"flow": ServedFlow(f"{name}.json")}


Way: TypeAlias = Callable[[Company, Fate], Awaitable[None]]


async def buffered(company: Company, fate: Fate) -> None:
    """Ask, and wait for the result."""
    client = company.client(fate)
    with trio.move_on_after(fate.patience) as scope:
        result = await client.run(inputs=fate.inputs, **company.asked(fate))
        fate.run = result.run
        fate.completed(result.state)
    fate.left = scope.cancelled_caught


async def streamed(company: Company, fate: Fate) -> None:
    """Read events as they come, over the connection that began the run."""
    client = company.client(fate)
    stream = client.stream(inputs=fate.inputs, **company.asked(fate))
    with trio.move_on_after(fate.patience) as scope:
        async with stream:
            fate.run = stream.run
            await _read(stream, fate)
            fate.completed((await stream.result()).state)
    fate.left = scope.cancelled_caught


async def on_socket(company: Company, fate: Fate) -> None:
    """Over a WebSocket of its own."""
    with trio.move_on_after(fate.patience) as scope:
        async with company.client(fate).socket() as socket:
            run = await socket.run(inputs=fate.inputs, **company.asked(fate))
            fate.run = run.run
            if fate.leaves == "cancel":
                with trio.move_on_after(fate.patience / 2):
                    await _read(run, fate)
                    fate.completed((await run.result()).state)
                    return
                fate.left = True
                scope.deadline += SLACK
                with suppress(Refused):
                    await run.cancel()
            await _read(run, fate)
            fate.completed((await run.result()).state)
    fate.left |= scope.cancelled_caught


async def detached(company: Company, fate: Fate) -> None:
    """A run that goes on alone, followed over SSE and a WebSocket, which see the same."""
    client = company.client(fate)
    fate.run = await client.start(inputs=fate.inputs, detach=True, **company.asked(fate))
    others: list[bytes] = []

    async def beside() -> None:
        with suppress(ClientFault):
            async with client.socket() as socket:
                followed = await socket.follow(fate.run)
                others.extend([entry.data async for entry in followed])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside)
        if fate.leaves:
            nursery.start_soon(_cancel_later, client, fate)
        stream = company.relayed.follow(fate.run)
        seen = []
        try:
            async for entry in stream:
                fate.saw(entry.data)
                seen.append(entry.data)
            fate.completed((await stream.result()).state)
        except ClientFault as fault:
            fate.failed(fault)
        # Who was cut off has seen a part, and that is the same still.
        if seen[: len(others)] != others[: len(seen)]:
            fate.odd.append("two who followed the run did not see the same events")
        nursery.cancel_scope.deadline = trio.current_time() + 1


async def _cancel_later(client: Client, fate: Fate) -> None:
    await trio.sleep(fate.patience)
    fate.left = True
    with suppress(ClientFault):
        await client.cancel(fate.run)


async def _read(entries: AsyncIterator[Entry], fate: Fate) -> None:
    async for entry in entries:
        fate.saw(entry.data)
        if isinstance(entry.event, Missed):
            fate.odd.append(f"events were missed: {entry.event}")


WAYS: Final[Mapping[str, tuple[Way, int, tuple[str, ...]]]] = {
    "buffered": (buffered, 30, ("straight", "tool", "agent", "llm")),
    "streamed": (streamed, 25, ("tool", "agent", "llm")),
    "socket": (on_socket, 15, ("tool", "agent", "llm")),
    "detached": (detached, 15, ("straight", "tool", "agent")),
    "brought tool": (buffered, 8, ("brought",)),
    "brought plugin": (streamed, 7, ("plugin",)),
}
"""What is done, how often of a hundred, with which flows."""

MODELLED: Final = frozenset({"agent", "llm"})


def of(weights: Mapping[T, int], random: Random) -> T:
    """One of several by weight."""
    return random.choices([*weights], [*weights.values()])[0]


def fate_of(seed: int, client: int, number: int, random: Random) -> Fate:
    """The run that a client begins as its n-th."""
    way = of({name: weight for name, (_, weight, _) in WAYS.items()}, random)
    flow = random.choice(WAYS[way][2])
    leaves = of(LEAVES, random)
    mode = of(MODEL_MODES, random)
    return Fate(
        nonce=f"nonce-{seed}c{client}-{number}-z",
        way=way,
        flow=flow,
        who=random.choice(policies()),
        does=of(SCRIPTS, random),
        mode=mode if flow in MODELLED else "ok",
        leaves=leaves,
        patience=random.random() * 0.5 if leaves else NEVER,
        relayed=random.random() < 0.5,
        odd=[],
    )


async def work(
    company: Company, plan: Plan, number: int, until: float, fates: list[Fate]
) -> None:
    """Be one client: begin one run after the other until the time is up."""
    random = plan.client(number)
    count = 0
    while trio.current_time() < until:
        count += 1
        fate = fate_of(plan.seed, number, count, random)
        fates.append(fate)
        await live(company, fate)
        await trio.sleep(2 * PAUSE * random.random())


async def live(company: Company, fate: Fate) -> None:
    """Begin a run and see how it ends."""
    fate.began = trio.current_time()
    try:
        with trio.fail_after(SLACK):
            await WAYS[fate.way][0](company, fate)
    except ClientFault as fault:
        fate.failed(fault)
    except trio.TooSlowError:
        fate.odd.append("no end of it was told in time")
    if fate.left and not fate.ending:
        fate.ending = "left"
    fate.ended = trio.current_time()


@asynccontextmanager
async def open_company(stage: Stage, model_url: str) -> AsyncIterator[Company]:
    """Clients of a server, until the block is left."""
    async with (
        connect(f"http://127.0.0.1:{stage.port}") as straight,
        connect(f"http://127.0.0.1:{stage.relay.port}") as relayed,
    ):
        yield Company(stage, straight, relayed, model_url)
