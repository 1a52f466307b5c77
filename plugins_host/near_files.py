"""What to do about a file that is not there: which of those beside it was meant?

flwo.json       Did you mean 'flow.json'?
other.json      In that folder are: flow.json, gate.json.
no/flow.json    There is no folder 'no'.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from plugins_host.faults import nearest

CHECK: Final = "Check the path and its permissions."
COMPARED: Final = 1000
"""Files of a folder that are looked at."""
LISTED: Final = 8
"""Files that are named where none is like the one that is not there."""


def near_file(path: str, suffixes: Collection[str]) -> str:
    """What to do, in one sentence, about a file that cannot be opened.

    Args:
        path: The file.
        suffixes: How names end that would do as well, such as ``.json``.
    """
    folder, name = os.path.split(path)
    with suppress(OSError, ValueError):
        if Path(path).exists():
            return CHECK
        if folder and not Path(folder).is_dir():
            return f"There is no folder {folder!r}."
        wanted = {*suffixes, Path(name).suffix}
        with os.scandir(folder or ".") as entries:
            names = sorted(
                each.name
                for each in islice(entries, COMPARED)
                if Path(each.name).suffix in wanted and each.is_file()
            )
        same = (each for each in names if Path(each).stem == name)
        guess = next(same, None) or nearest(name, names)
        if guess is not None:
            return f"Did you mean {os.path.join(folder, guess)!r}?"  # noqa: PTH118  as written
        if names:
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            return f"In that folder are: {', '.join(names[:LISTED])}{more}."
    return CHECK
