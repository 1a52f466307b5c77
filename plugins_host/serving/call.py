"""One question that is being answered: what its handler asks of heddle goes through it."""

import types
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from plugins_host.serving.wire import NO_PARAMS, Id, Params, decode, encode

if TYPE_CHECKING:
    import asyncio

# What a question yields, once, when it is about to wait: it needs a task from then on.
_NEEDS_TASK: Final = object()


@types.coroutine
def _enter_task() -> Generator[object, None, None]:
    yield _NEEDS_TASK


class Line(Protocol):
    """The line to heddle, as far as a call uses it.

    Attributes:
        replies: Who waits for the answer to a reverse call, by its id.
    """

    replies: "dict[int, asyncio.Future[Any]]"

    def send(self, frame: bytes, *, now: bool = False) -> None:
        """Write a frame: ``now``, or with the others that this turn brings."""
        ...

    def reverse(self, call: "Call", verb: str, params: dict[str, Any]) -> int:
        """Send a reverse call made inside ``call``; its id."""
        ...

    def look_for_cancels(self) -> None:
        """Read what has arrived and act on the ``cancel`` frames in it."""
        ...


class Call(Struct, eq=False, weakref=True):
    """One question that is being answered.

    ``plain`` says that its handler was not written with ``async def``. ``cancels`` are the
    ids of the ``cancel`` frames that named it: they are answered when it has ended.
    """

    server: Line
    id: Id = None
    verb: str = ""
    params: Params = NO_PARAMS
    line: bytes = b"{}"
    component_type: str = ""
    plain: bool = True
    in_task: bool = False
    task: "asyncio.Task[None] | None" = None
    cancels: list[Id] = []
    woken: "asyncio.Event | None" = None

    def said(self) -> dict[str, Any]:
        """All that the question carries, for the verbs that are not asked often."""
        params = decode(self.line).get("params")
        return params if isinstance(params, dict) else {}

    def label(self) -> str:
        """How errors call what is being answered."""
        where = self.params.seam and f" {self.params.seam}.{self.params.half or self.verb}"
        return f"{self.component_type or self.verb}{where}"

    async def needs_task(self) -> None:
        """Go on in a task of its own, as what waits has to."""
        if not self.in_task:
            self.in_task = True
            await _enter_task()

    @property
    def signal(self) -> "Call":
        """Its own cancellation."""
        return self

    @property
    def cancelled(self) -> bool:
        """Whether heddle cancelled it; looks itself: a plain handler keeps the loop."""
        if self.plain and not self.cancels:
            self.server.look_for_cancels()
        return bool(self.cancels)

    async def wait(self) -> None:
        """Return once it is cancelled."""
        import asyncio

        if self.woken is None:
            self.woken = asyncio.Event()
        if not self.cancels:
            await self.woken.wait()

    async def ask(self, verb: str, params: dict[str, Any]) -> Any:
        """Make a reverse call and wait for its result."""
        import asyncio

        server = self.server
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        id = server.reverse(self, verb, params)  # noqa: A001  a frame's word
        server.replies[id] = answer
        try:
            return await answer
        finally:
            server.replies.pop(id, None)

    def tell(self, verb: str, params: dict[str, Any]) -> None:
        """Make a reverse call and go on."""
        self.server.reverse(self, verb, params)

    def partial(self, chunk: Any) -> None:
        """Report progress."""
        self.server.send(encode({"id": self.id, "partial": chunk}), now=self.plain)
