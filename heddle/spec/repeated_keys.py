"""Keys that are written more than once in one object of JSON, and where.

A reader keeps the last of them without a word, so that what its author sees first is not
what counts.
"""

import re
from collections import Counter
from typing import Any, Final

from heddle.spec.problems import (
    MAX_PROBLEMS,
    DocumentError,
    Path,
    Problem,
    shown,
    write_path,
)
from heddle.spec.source import position

MOST_SEARCHED: Final = 1 << 20
"""Characters of a text in which the first of two keys is looked for: it takes a tenth of a
second in so many. Of longer ones it is told that there are two."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],]', re.DOTALL)


class _Object(dict[str, Any]):
    """An object whose keys in the text were ``written``, some more than once."""

    written: tuple[str, ...] = ()


def refuse_repeated_keys(text: str, name: str) -> None:
    """See that no object of a JSON text has two values for one key.

    Args:
        text: JSON in which there is no other mistake.
        name: What errors call the document.

    Raises:
        DocumentError: With a problem for each key that is repeated.
    """
    import json

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = _Object(pairs)
        if len(read) != len(pairs):
            read.written = tuple(key for key, _ in pairs)
        return read

    repeated: list[tuple[tuple[Path, str], int]] = []
    waiting: list[tuple[Any, Path]] = [(json.loads(text, object_pairs_hook=read), None)]
    while waiting and len(repeated) < MAX_PROBLEMS:
        value, path = waiting.pop()
        if isinstance(value, _Object):
            repeated += [
                ((path, key), times)
                for key, times in Counter(value.written).items()
                if times > 1
            ]
            waiting += [(inner, (path, key)) for key, inner in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [
                (value[index], (path, index)) for index in reversed(range(len(value)))
            ]
    if repeated:
        first = _first_places(text) if len(text) <= MOST_SEARCHED else {}
        problems = []
        for path, times in repeated[:MAX_PROBLEMS]:
            what = f"the key {shown(path[1])} is written {times} times in one object"
            if path in first:
                what += f", first at {position(text, first[path])}"
            where = write_path(path)
            problems.append(Problem(where, what, "Keep one of them.", key=where))
        raise DocumentError(problems, name=name)


def _first_places(text: str) -> dict[Path, int]:
    """Where keys that are repeated stand first, by their paths."""
    import json

    found: dict[Path, int] = {}
    # What is open: its path, and where each of its keys was met; a list has none.
    path: Path = None
    keys: dict[Any, int] | None = None
    outer: list[tuple[Path, dict[Any, int] | None]] = []
    is_key = False
    for token in _TOKEN.finditer(text):
        match token[0][0]:
            case "{" | "[" as bracket:
                outer.append((path, keys))
                keys = {} if bracket == "{" else None
                path = (path, 0)
                is_key = bracket == "{"
            case "}" | "]":
                path, keys = outer.pop()
                is_key = False
            case ",":
                assert path is not None, "a comma is between brackets"
                if keys is None:
                    path = (path[0], int(path[1]) + 1)
                is_key = keys is not None
            case _ if is_key and keys is not None and path is not None:
                key = json.loads(token[0])
                path = (path[0], key)
                if key in keys:
                    found[path] = keys[key]
                keys.setdefault(key, token.start())
                is_key = False
    return found
