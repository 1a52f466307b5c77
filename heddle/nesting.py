"""How deep JSON values are nested, found without recursion.

Values that come from outside (a run's input, a tool's answer) are encoded again later,
from deeper in the stack than they were decoded. Bounding their depth at the edge keeps
that from failing in the middle of a run.
"""

from typing import Final

# Far above what data looks like, far below where an encoder runs out of stack.
MAX_DEPTH: Final = 200


def too_deep(value: object, encoded: bytes) -> bool:
    """Whether ``value``, decoded from ``encoded``, is nested beyond `MAX_DEPTH`."""
    # Counting is cheap, and only what has many brackets can be deep.
    brackets = encoded.count(b"[") + encoded.count(b"{")
    return brackets > MAX_DEPTH and depth(value) > MAX_DEPTH


def depth(value: object) -> int:
    """How many containers are inside one another, 1 for a flat one."""
    deepest = 0
    level = [value]
    while level:
        containers = [each for each in level if isinstance(each, (dict, list))]
        deepest += bool(containers)
        level = [
            inner
            for each in containers
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return deepest
