"""The seams: one table that says where a policy is asked, what it sees, what it may say.

    SEAMS[Seam.TOOL_CALL].halves[Half.BEFORE].admits
    (Action.PROCEED, Action.MODIFY, Action.REPLACE, Action.REJECT)

The manifest check (`read_subscription`), the verdict reader, the handshake
(`HANDSHAKE_SEAMS`, `HANDSHAKE_HALVES`), the chain and ``docs/seams.md``
(``python -m plugins_host.seams > docs/seams.md``) all read this table and nothing else.
Adding a seam or a verdict is one edit here. Pure data: no I/O, no trio.
"""

import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct, structs

from plugins_host.faults import Fault, one_of

# Below this many milliseconds a policy may postpone a retry; the wait holds a run open,
# and a run has 300 s by default.
MAX_DELAY_MS: Final = 30_000


class Word(StrEnum):
    """A word of the wire, which shows itself in errors as it is written there."""

    def __repr__(self) -> str:
        """The bare text, in quotes."""
        return repr(self.value)


class Seam(Word):
    """A place in the engine where installed middleware may be consulted."""

    NODE_ERROR = "nodeError"
    NODE = "node"
    TOOL_CALL = "toolCall"
    MODEL_CALL = "modelCall"
    AGENT_ROUND = "agentRound"


class Half(Word):
    """Before or after the place."""

    BEFORE = "before"
    AFTER = "after"


class Action(Word):
    """The word on the wire of every verdict."""

    PROCEED = "proceed"
    MODIFY = "modify"
    REPLACE = "replace"
    REJECT = "reject"
    PASS = "pass"  # noqa: S105  a verdict, not a password
    RETRY = "retry"
    FAIL = "fail"


class Shown(Word):
    """What a question carries beside its subject."""

    INPUT = "input"
    OUTCOME = "outcome"


NodePath: TypeAlias = tuple[str | int, ...]
"""Where a node of a sub-flow is: from the outermost node to itself, by name. A number
tells which item or flow of the node before it, from 0: ``("each", 2, "ask")``."""


class NodeSubject(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which node the question is about; ``node_path`` only of nodes of sub-flows."""

    node_name: str
    node_type: str
    node_path: NodePath | None = None


class AgentSubject(NodeSubject, frozen=True):
    """Which node's model call or round; ``agent_name`` when several agents work in it."""

    agent_name: str | None = None


class ToolSubject(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which tool call of which node, and of which of its agents when it has several."""

    node_name: str
    node_type: str
    tool_name: str
    tool_call_id: str
    node_path: NodePath | None = None
    agent_name: str | None = None


Subject: TypeAlias = NodeSubject | AgentSubject | ToolSubject


class ActionRow(Struct, frozen=True):
    """One verdict: the fields that it must (``needs``) and may carry, and what it means."""

    settles: bool
    meaning: str
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


class HalfRow(Struct, frozen=True):
    """One half of one seam."""

    admits: tuple[Action, ...]
    shows: tuple[Shown, ...]
    data: str


class SeamRow(Struct, frozen=True):
    """One seam. ``halves`` holds the halves that exist and no others."""

    consulted: str
    subject: type[Subject]
    halves: Mapping[Half, HalfRow]


ACTIONS: Final[Mapping[Action, ActionRow]] = {
    Action.PROCEED: ActionRow(False, "go on; the next one is asked"),
    Action.MODIFY: ActionRow(
        False, "go on with this `input`; the next one sees it", needs=("input",)
    ),
    Action.REPLACE: ActionRow(True, "this `value` is the result", needs=("value",)),
    Action.REJECT: ActionRow(
        True, "it must not happen, because of `reason`", needs=("reason",)
    ),
    Action.PASS: ActionRow(False, "the outcome stands; the next one is asked"),
    Action.RETRY: ActionRow(
        True, "do it once more, `delayMs` milliseconds from now", may=("delayMs",)
    ),
    Action.FAIL: ActionRow(True, "stop here, because of `reason`", needs=("reason",)),
}

_WHOLE_BEFORE: Final = (Action.PROCEED, Action.MODIFY, Action.REPLACE, Action.REJECT)

SEAMS: Final[Mapping[Seam, SeamRow]] = {
    Seam.NODE_ERROR: SeamRow(
        "only when an execution of a node failed",
        NodeSubject,
        {
            Half.AFTER: HalfRow(
                (Action.PASS, Action.REPLACE, Action.RETRY, Action.FAIL),
                (Shown.OUTCOME,),
                "`{ok: false, error: {name, message}}`",
            )
        },
    ),
    Seam.NODE: SeamRow(
        "around every execution of every node of every type",
        NodeSubject,
        {
            Half.BEFORE: HalfRow(_WHOLE_BEFORE, (Shown.INPUT,), "the node's input state"),
            Half.AFTER: HalfRow(
                (Action.PASS, Action.REPLACE, Action.FAIL),
                (Shown.OUTCOME,),
                "`{ok: true, value}` with the node's output state, or `{ok: false, error}`",
            ),
        },
    ),
    Seam.TOOL_CALL: SeamRow(
        "around each tool call that the model asked for",
        ToolSubject,
        {
            Half.BEFORE: HalfRow(
                _WHOLE_BEFORE, (Shown.INPUT,), "the arguments about to be used"
            ),
            Half.AFTER: HalfRow(
                (Action.PASS, Action.REPLACE, Action.FAIL),
                (Shown.INPUT, Shown.OUTCOME),
                "the arguments that the call ran with; `{ok: true, value}` with the "
                "result, or `{ok: false, error}`",
            ),
        },
    ),
    Seam.MODEL_CALL: SeamRow(
        "around every request sent to a model, by an agent's round or an LlmNode",
        AgentSubject,
        {
            Half.BEFORE: HalfRow(
                _WHOLE_BEFORE,
                (Shown.INPUT,),
                "the request: model, messages, tools, generation parameters",
            ),
            Half.AFTER: HalfRow(
                (Action.PASS, Action.REPLACE, Action.RETRY, Action.FAIL),
                (Shown.OUTCOME,),
                "`{ok: true, value}` with the response "
                "`{content, finish_reason, tool_calls?, usage?}`, or `{ok: false, error}`",
            ),
        },
    ),
    Seam.AGENT_ROUND: SeamRow(
        "before each round of an agent; after each round that ran tools",
        AgentSubject,
        {
            Half.BEFORE: HalfRow(
                (Action.PROCEED, Action.REJECT),
                (Shown.INPUT,),
                "`{round, maxRounds}`, round from 1",
            ),
            Half.AFTER: HalfRow(
                (Action.PASS, Action.FAIL),
                (Shown.OUTCOME,),
                "`{ok: true, value: {round, toolCalls}}`, the names in call order",
            ),
        },
    ),
}

# What a plugin is told in `init`: per seam the verdicts that any of its halves admits, and
# beside it the same told apart by half. Tuples of plain words, ready to be encoded.
HANDSHAKE_SEAMS: Final[Mapping[str, tuple[str, ...]]] = {
    seam.value: tuple(
        dict.fromkeys(
            action.value for half in row.halves.values() for action in half.admits
        )
    )
    for seam, row in SEAMS.items()
}
HANDSHAKE_HALVES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    seam.value: {
        half.value: tuple(action.value for action in half_row.admits)
        for half, half_row in row.halves.items()
    }
    for seam, row in SEAMS.items()
}

Subscription: TypeAlias = Mapping[Seam, frozenset[Half]]


class SubscriptionError(Fault):
    """A manifest's ``seams`` names what does not exist, or names nothing."""


def admitted(seam: Seam, half: Half) -> tuple[Action, ...]:
    """The verdicts that this half honours; empty for a half that does not exist."""
    row = SEAMS[seam].halves.get(half)
    return () if row is None else row.admits


def read_subscription(raw: object, *, where: str) -> Subscription:
    """Read the ``seams`` of a manifest's component, as decoded from JSON.

    Args:
        raw: What was written, ``{"toolCall": ["before", "after"], ...}`` when right.
        where: Plugin, file and path of the value, for errors; the path is extended.

    Raises:
        SubscriptionError: An unknown seam, a half that the seam does not have, or an
            empty subscription.
    """
    if not isinstance(raw, Mapping):
        raise SubscriptionError(
            f"{_short(raw)} is not an object of seams",
            where=where,
            fix='Write it like {"toolCall": ["before"]}.',
        )
    if not raw:
        raise SubscriptionError(
            "this middleware subscribes to no seam",
            where=where,
            fix=f"Name at least one of: {', '.join(SEAMS)}.",
        )
    return {
        _read_seam(name, where=where): frozenset(_read_halves(name, halves, where=where))
        for name, halves in raw.items()
    }


def _read_seam(name: object, *, where: str) -> Seam:
    try:
        return Seam(str(name))
    except ValueError:
        raise SubscriptionError(
            f"{_short(name)} is not a seam", where=where, fix=one_of(str(name), SEAMS)
        ) from None


def _read_halves(name: str, raw: object, *, where: str) -> Iterator[Half]:
    existing = SEAMS[_read_seam(name, where=where)].halves
    where = f"{where}.{name}"
    if not isinstance(raw, list | tuple):
        raise SubscriptionError(
            f"{_short(raw)} is not an array of halves",
            where=where,
            fix=f"Write an array of: {', '.join(existing)}.",
        )
    if not raw:
        raise SubscriptionError(
            f"the subscription to {name} names no half",
            where=where,
            fix=f"Name at least one of: {', '.join(existing)}.",
        )
    for index, half in enumerate(raw):
        if not isinstance(half, str) or half not in existing:
            raise SubscriptionError(
                f"{name} has no half {_short(half)}",
                where=f"{where}[{index}]",
                fix=one_of(str(half), existing),
            )
        yield Half(half)


def _short(value: object) -> str:
    """The value for an error, cut where it stops helping."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def render_markdown() -> str:
    """The page ``docs/seams.md``, printed from the table."""
    return "\n".join([*_page(), ""])


def _page() -> Iterator[str]:
    yield "# Seams"
    yield ""
    yield "<!-- Printed by `python -m plugins_host.seams`: change the table there. -->"
    yield ""
    yield (
        "A seam is a place in the engine where installed middleware is consulted. The set "
        "is closed, and each half honours the verdicts listed for it and no others."
    )
    yield ""
    yield "| seam | before admits | after admits | consulted |"
    yield "|---|---|---|---|"
    for seam, row in SEAMS.items():
        halves = (
            " ".join(admitted(seam, half)) or "no such half"
            for half in (Half.BEFORE, Half.AFTER)
        )
        yield f"| `{seam}` | {' | '.join(halves)} | {row.consulted} |"
    yield ""
    yield "## What each half is shown, and nothing wider"
    yield ""
    yield "| half | `subject` | beside it |"
    yield "|---|---|---|"
    for seam, row in SEAMS.items():
        shown = structs.fields(row.subject)
        fields = ", ".join(
            f"{each.encode_name}{'' if each.required else '?'}" for each in shown
        )
        for half, half_row in row.halves.items():
            keys = ", ".join(f"`{key}`" for key in half_row.shows)
            yield f"| `{seam}.{half}` | {fields} | {keys}: {half_row.data} |"
    yield ""
    yield (
        "`nodePath` is there for nodes of flows inside a node, and is a list: the "
        "names from the outermost node to this one, each followed by a number where it "
        'has several flows under way: `["each", 2, "ask"]` is node `ask` for the third '
        "item of `each`."
    )
    yield ""
    yield (
        "`agentName` is there when several agents work in the node, as in ManagerWorkers "
        "and a Swarm: whose model call, tool call or round it is."
    )
    yield ""
    yield "## Verdicts"
    yield ""
    yield "| `action` | must carry | may carry | means | ends the walk |"
    yield "|---|---|---|---|---|"
    for action, action_row in ACTIONS.items():
        must, may = (
            ", ".join(f"`{name}`" for name in names) or "–"
            for names in (action_row.needs, action_row.may)
        )
        ends = "yes" if action_row.settles else "no"
        yield f"| `{action}` | {must} | {may} | {action_row.meaning} | {ends} |"
    yield ""
    yield (
        f"`input` and `value` are objects, `reason` is a text with something in it, "
        f"`delayMs` is a number; it is clamped to 0…{MAX_DELAY_MS}, with a warning when "
        f"that changed it."
    )


if __name__ == "__main__":
    sys.stdout.write(render_markdown())
