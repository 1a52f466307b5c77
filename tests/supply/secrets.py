"""Look for keys and passwords in all files of the repository: ``make secrets``.

What looks is detect-secrets, with all its detectors. A finding that is none is marked on
its line: ``# pragma: allowlist secret``. Tests make up secrets all the time; as long as
these are short they are let pass.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
HOOK: Final = Path(sys.executable).parent / "detect-secrets-hook"

MADE_UP: Final = "^.{0,19}$"
"""A secret in a test. Those that providers give out are longer."""

# In two parts, so that it is found where it is meant to be found alone.
CANARY: Final = 'key = "AKIA' + 'Z7QX2M4T6RWB3PLK"\n'


def main(hook: Path = HOOK, root: Path = ROOT) -> int:
    """The exit status: 0 when there is no secret, 1 when there is one, 2 when it is not
    known."""
    with tempfile.TemporaryDirectory() as folder:
        canary = Path(folder, "canary.py")
        canary.write_text(CANARY)
        if not found(hook, [canary], root):
            print("a key that is there to be found was not, so nothing else would be")
            return 2
    tests, others = [], []
    for file in files(root):
        (tests if file.parts[0] == "tests" else others).append(file)
    if not others:
        print("there is no file to look at")
        return 2
    bad = found(hook, others, root)
    bad |= found(hook, tests, root, "--exclude-secrets", MADE_UP)
    if not bad:
        print(f"{len(tests) + len(others)} files, and no secret in them")
    return int(bad)


def files(root: Path) -> list[Path]:
    """All files that are in the repository, or would be after the next ``git add``."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        stdout=subprocess.PIPE,
        check=True,
    )
    names = {Path(each.decode()) for each in listed.stdout.split(b"\0") if each}
    # Hashes look like keys.
    kept = (each for each in names if each.suffix != ".lock")
    return sorted(each for each in kept if (root / each).is_file())


def found(hook: Path, looked_at: Sequence[Path], root: Path, *options: str) -> bool:
    """Whether there is a secret in one of these files; it is told on stdout."""
    if not looked_at:
        return False
    told = subprocess.run(
        [hook, *options, *map(str, looked_at)],
        cwd=root,
        capture_output=True,
        check=False,
    )
    if told.returncode not in (0, 1):
        raise SystemExit(told.stderr.decode(errors="replace"))
    if told.returncode and root in (root / looked_at[0]).parents:
        sys.stdout.write(told.stdout.decode(errors="replace"))
    return told.returncode == 1


if __name__ == "__main__":
    sys.exit(main())
