"""How a fault is told: what is wrong, where to look, and what to do about it.

Every error that heddle shows a person is a `Fault`: three short texts and a class that
says whose fault it is. Programs read the fields and the class, people read ``str()``:

    policies.json $.components[0].seams: 'toolcall' is not a seam. Did you mean 'toolCall'?
    ─────────────── where ─────────────  ───────── what ─────────  ──────── fix ────────
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

COMPARED: Final = 1000
"""Choices that a misspelt name is compared with. More take a second to go through, for an
error that may be one of hundreds."""

LISTED: Final = 40
"""Choices that an error lists: what a person reads."""


class Fault(Exception):
    """Base of every error with a what, a where and a fix.

    Args:
        what: The fact, with the offending value; no full stop at its end.
        where: The narrowest thing the reader can open: a file and path in it, a node,
            a plugin and seam. Empty when ``what`` says it.
        fix: One imperative sentence or a question, with its own punctuation; may be empty.

    Attributes:
        of_the_machine: Whether it is nobody's who takes part: there was no room on a disk,
            no process or no file to be had.
    """

    of_the_machine = False

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        return sentence(self.what, where=self.where, fix=self.fix)


def sentence(what: str, *, where: str = "", fix: str = "") -> str:
    """Join the three texts the way every error of heddle reads."""
    head = f"{where}: {what}" if where else what
    if not fix:
        return head
    stop = "" if head.endswith((".", "!", "?", "…")) else "."
    return f"{head}{stop} {fix}"


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that ``name`` is most likely a misspelling of, or None.

    One of the same letters in another order is, however short: ``rnu`` for ``run``.
    """
    import difflib  # only for who misspelt something

    folded: dict[str, str] = {}
    for choice in islice(choices, COMPARED):
        folded.setdefault(choice.casefold(), choice)
    typed = name.casefold()
    if found := difflib.get_close_matches(typed, folded, n=1, cutoff=0.7):
        return folded[found[0]]
    letters = sorted(typed)
    mixed = (each for each in folded if len(each) == len(typed) > 2)
    return next((folded[each] for each in mixed if sorted(each) == letters), None)


def one_of(name: str, choices: Iterable[str]) -> str:
    """A fix for a name that does not exist: a guess for a typo, else all the choices."""
    known = list(choices)
    guess = nearest(name, known)
    if guess is not None:
        return f"Did you mean {guess!r}?"
    if not known:
        return "There is none to choose from."
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    return f"Choose from: {', '.join(known[:LISTED])}{more}."
