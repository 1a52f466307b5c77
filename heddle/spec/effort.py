"""How much work looking at a value may be: counted in steps, so that it can be bounded.

    with spending(Effort(20_000)):
        check(value, schema)        raises EffortExceeded after so many steps

A schema of a few lines can ask for more than a machine can do: references that double, long
lists held against long lists. Whoever follows schemas spends a step for each place that is
looked at (`effort`), and whoever has others waiting says beforehand how many there are.
"""

from collections.abc import Iterator, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final

from plugins_host import Fault

MOST: Final = 10_000_000
"""Steps that one value may cost where nobody has set a bound: some ten seconds. A list of
a million objects of a few fields fits."""


class EffortExceeded(Fault):
    """Holding values against schemas takes too long."""

    def __init__(self) -> None:
        super().__init__(
            "holding this against its types takes too long",
            fix="Make the types simpler (fewer alternatives and references), or the value "
            "smaller.",
        )


class Effort:
    """So many steps; ``left`` are left of them."""

    __slots__ = ("left",)

    def __init__(self, steps: int = MOST) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Use up steps.

        Raises:
            EffortExceeded: There are none left.
        """
        self.left -= steps
        if self.left < 0:
            raise EffortExceeded

    def stop(self) -> None:
        """Let whoever spends of it, in another thread, come to an end."""
        self.left = -1


class spending:  # noqa: N801  read as a verb, like contextlib's
    """Within a ``with`` of this, there is so much to spend."""

    __slots__ = ("_effort", "_token")

    def __init__(self, effort: Effort) -> None:
        self._effort = effort

    def __enter__(self) -> Effort:
        self._token: Token[Effort | None] = _CURRENT.set(self._effort)
        return self._effort

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _CURRENT.reset(self._token)


_CURRENT: Final[ContextVar[Effort | None]] = ContextVar("effort", default=None)


def effort() -> Effort:
    """What there is to spend of here."""
    return _CURRENT.get() or Effort()


# --- schemas --------------------------------------------------------------------------

CHECKED: Final = 100
"""Steps for each place in a schema when it is held against the schema of schemas, which
``jsonschema`` takes up to 300 µs for."""

_VALUES: Final = frozenset(("const", "enum", "default", "examples"))
"""Keywords under which there are values and no schemas."""


def schema_places(schema: Any) -> Iterator[Any]:
    """Every place in a JSON Schema, or in something that has some in it."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, Mapping):
            waiting += (inner for key, inner in each.items() if key not in _VALUES)
        elif isinstance(each, (list, tuple)):
            waiting += each


def spend_on_checking(schema: Any) -> None:
    """Spend what it costs to find out whether this is a schema, wherever that is done.

    Raises:
        EffortExceeded: There is not so much to spend.
    """
    spent = effort()
    for _ in schema_places(schema):
        spent.spend(CHECKED)
