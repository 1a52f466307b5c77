"""One target under atheris, in a process of its own: ``python -m tests.fuzz.hunt …``.

atheris looks for inputs that reach code which no input has reached before, and so needs to
see every module of heddle as it is loaded. It ends the process when it is done.
"""

import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

SEEN: Final = ("actors", "plugins_host", "heddle", "tests.fuzz")
"""Packages whose branches are told apart."""


def keeping(run: Callable[[bytes], None], folder: Path) -> Callable[[bytes], None]:
    """The same target, which leaves an input that breaks it in a file, and raises then."""

    def watched(data: bytes) -> None:
        try:
            run(data)
        except BaseException:
            kept = folder / f"crash-{sha256(data).hexdigest()[:16]}"
            kept.write_bytes(data)
            raise

    return watched


def main(arguments: list[str]) -> None:
    """Hunt until the time is up, or something was found.

    Args:
        arguments: The target, the folder for what is found, and options of libFuzzer with
            the folders that it begins with.
    """
    import atheris  # type: ignore[import-not-found,unused-ignore]  # where it is installed

    name, folder, *options = arguments
    # Modules are also loaded when they are first needed, so this is never left.
    atheris.instrument_imports(include=list(SEEN)).__enter__()
    from tests.fuzz.targets import ALL

    atheris.Setup([name, *options], keeping(ALL[name].run, Path(folder)))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
