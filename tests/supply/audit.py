"""Ask what is known to be wrong with everything that is installed: ``make audit``.

What asks is pip-audit, of all that the lock files name. It needs the package index: without
it nothing is known, which is said, and is no success. Only ``make check``, which looks at
much else, goes on then (``--if-told``).
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
AUDIT: Final = Path(sys.executable).parent / "pip-audit"

UNKNOWN: Final = (
    "The package index does not say what is known of these packages, so nothing is known.\n"
    "Run this where it can be reached: make audit"
)


def main(program: Path = AUDIT, root: Path = ROOT, *, if_told: bool = False) -> int:
    """The exit status: 0 when nothing is known to be wrong, 1 when something is, 2 when
    it could not be asked, which with ``if_told`` is 0 as well."""
    status = 0
    for lock in sorted(root.glob("requirements*.lock")):
        asked = subprocess.run(
            [
                *(program, "--strict", "--disable-pip", "--require-hashes"),
                *("--progress-spinner", "off", "--requirement", lock),
            ],
            capture_output=True,
            check=False,
        )
        sys.stdout.write(f"{lock.name}\n{asked.stdout.decode(errors='replace')}")
        told = asked.stderr.decode(errors="replace").strip().splitlines()
        sys.stdout.write("".join(f"  {line}\n" for line in told[-1:]))
        if any(line.startswith(("ERROR", "Traceback")) for line in told):
            print(UNKNOWN)
            return 0 if if_told and not status else status or 2
        status |= asked.returncode
    return status


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--if-told", action="store_true", help="go on where nothing is told")
    sys.exit(main(if_told=given.parse_args().if_told))
