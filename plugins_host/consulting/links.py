"""Who is asked, and what goes with each question: `Link` and `Asking`.

An `Asker` answers for a plugin, whether it is a process or handlers inside heddle; a
`Watch` counts what is said. Neither is known here by more than its shape.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from plugins_host.consulting.outcomes import PolicyWarning, named
from plugins_host.program import PATIENCE
from plugins_host.reverse import CallServices
from plugins_host.seams import Half, Seam, Subscription

if TYPE_CHECKING:
    from plugins_host.processes.calls import Onward


class Asker(Protocol):
    """Who answers for a plugin: a process of its own, or handlers in heddle's."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    @property
    def features(self) -> frozenset[str] | None:
        """What both sides know beyond the protocol; None while it is not running."""
        ...

    async def start(self) -> frozenset[str]:
        """Make sure that it is running; its features."""
        ...

    def request(
        self,
        verb: str,
        params: bytes,
        *,
        services: CallServices | None = None,
        components: Sequence[str] = (),
        patience: float = PATIENCE,
        onward: "Onward | None" = None,
    ) -> Awaitable[object]:
        """Ask; what comes back is a JSON text (`Raw`, bytes) or an object.

        ``onward`` may be called with it, and says what is asked then (see `rows`); what
        comes back is then the answer to the last question.

        Raises:
            Fault: There is no answer.
        """
        ...


class Watch(Protocol):
    """Whoever counts what policies say. Called in passing: must neither wait nor raise."""

    def answered(
        self,
        seam: Seam,
        half: Half,
        components: tuple[str, ...],
        action: str,
        seconds: float,
    ) -> None:
        """These said ``action``; the frame in which they did took so long."""
        ...

    def failed(self, seam: Seam, half: Half, component: str) -> None:
        """This one did not do its part."""
        ...


class Link(Struct, frozen=True):
    """One middleware as it is installed.

    Attributes:
        component_type: Its name, unique among all that are installed.
        plugin: The plugin that it is a component of.
        settings: What the operator configured, as JSON text; ``{}`` for nothing.
        seams: The halves that it declared.
        asker: Who answers for it.
    """

    component_type: str
    plugin: str
    settings: bytes
    seams: Subscription
    asker: Asker

    @property
    def named(self) -> str:
        """It and its plugin, as errors and warnings call it."""
        return named(self.component_type, self.plugin)


class Asking(Struct, frozen=True):
    """What belongs to one consultation beside its question.

    Attributes:
        services: What reverse calls made inside it may use.
        warn: Told of everything that a policy did and that is never silent, in order.
        attempt: Which attempt this is, from 1.
        max_attempts: How many there may be.
        patience: The budget of silence of each question. Seconds.
        retry_refused: Why there can be no further attempt although ``attempt`` is below
            ``max_attempts``; None when there can.
        check_input: For a tool call: what is wrong with these arguments by the tool's
            declared inputs; None when nothing is.
    """

    services: CallServices | None
    warn: Callable[[PolicyWarning], None]
    attempt: int = 1
    max_attempts: int = 1
    patience: float = PATIENCE
    retry_refused: str | None = None
    check_input: Callable[[dict[str, Any]], str | None] | None = None
