"""Characters that libyaml takes for line breaks, and YAML 1.2 and JSON do not.

YAML 1.1 broke lines at U+0085, U+2028 and U+2029, and libyaml still does: in quotes it
folds them away with the blanks around them. So it is given a text in which private
characters that the document doesn't have stand for them. Places stay what they are, as
each is one character for one.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

_OLD_BREAKS: Final = ("\x85", "\u2028", "\u2029")
_PRIVATE: Final = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))


class Unbroken(Struct, frozen=True):
    """A text for libyaml, and what stands in it for what, one way and back."""

    text: str
    given: Mapping[int, int]
    back: Mapping[int, int]

    def hidden(self, text: str) -> str:
        """A piece of the document as libyaml reads it."""
        return text.translate(self.given)

    def restored(self, text: str) -> str:
        """A piece of what libyaml read, as the document has it."""
        return text.translate(self.back)


def unbroken(text: str) -> Unbroken:
    """The text with nothing in it that breaks lines in YAML 1.1 alone."""
    found = [each for each in _OLD_BREAKS if each in text]
    if not found:
        return Unbroken(text, {}, {})
    taken = set(text)
    free = (code for codes in _PRIVATE for code in codes if chr(code) not in taken)
    # A document that has all private characters is read as libyaml reads it.
    given = dict(zip(map(ord, found), free, strict=False))
    back = {code: each for each, code in given.items()}
    return Unbroken(text.translate(given), given, back)
