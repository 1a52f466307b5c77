"""``python -m docs.printing``: write the pages of ``docs/reference`` that the code says.

With ``--check``, only say which of them are not what would be printed; exit status 1 then.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from docs.printing import benchmarks, errors, events, flags, http

FOLDER: Final = Path(__file__).parents[1] / "reference"
PRINTED: Final = "<!-- Printed by `python -m docs.printing`: change the code it reads. -->"

PAGES: Final[Mapping[str, Callable[[str], Iterator[str]]]] = {
    "benchmarks.md": benchmarks.page,
    "errors.md": errors.page,
    "events.md": events.page,
    "flags.md": flags.page,
    "http.md": http.page,
}


def rendered() -> dict[str, str]:
    """The pages as the code has them now, by file name."""
    return {name: "\n".join(page(PRINTED)).rstrip() + "\n" for name, page in PAGES.items()}


def main() -> int:
    """Write or compare them."""
    stale = {
        name: text
        for name, text in rendered().items()
        if not (FOLDER / name).exists()
        or (FOLDER / name).read_text(encoding="utf-8") != text
    }
    for name, text in stale.items():
        if "--check" in sys.argv:
            sys.stderr.write(f"docs/reference/{name} is not what the code says\n")
        else:
            (FOLDER / name).write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
