"""Hunt for inputs that break what reads them, or look at one that was found.

Each target begins with its seeds, so that a seed says what is tried as far as time allows.
Exit status 1 when something was found: the input is in a file, and the command that shows
what it does is printed.
"""

import argparse
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.targets import ALL, TARGETS
from tests.fuzz.variants import variants

SECONDS: Final = 10
ROOT: Final = Path(__file__).parents[2]
FOUND: Final = ROOT / "build" / "fuzz"

SLOW: Final = 10
"""Seconds after which an input counts as one that hangs what reads it."""

MEMORY: Final = 2048
"""MiB that a target may take; some take hundreds with nothing wrong, atheris among it."""

_NOISE: Final = ("INFO: ", "WARNING: ", "#", "\tNEW_FUNC")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--target", choices=list(ALL), help="One of them; all in turn by default."
    )
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, help="For each target; 10 by default."
    )
    parser.add_argument("--seed", type=int, help="Another each time by default.")
    parser.add_argument("--corpus", type=Path, help="Keep what reaches new code in here.")
    parser.add_argument("--found", type=Path, default=FOUND, help=argparse.SUPPRESS)
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="Run a target on an input once."
    )
    given = parser.parse_args(arguments)
    if given.replay is not None:
        return replay(given.replay, given.target)
    seed = given.seed or secrets.randbelow(1_000_000) + 1
    print(f"seed {seed}")
    bad = 0
    for name in [given.target] if given.target else TARGETS:
        bad += not hunt(name, given.seconds, seed, given.found, given.corpus)
    return int(bad > 0)


def replay(file: Path, name: str | None) -> int:
    """Run the target that broke on this; its traceback is the answer."""
    name = name or file.resolve().parent.name
    if name not in ALL:
        print(f"{file} is not in the folder of a target: say which with TARGET=…")
        return 2
    try:
        data = file.read_bytes()
    except OSError as error:
        print(f"{file} cannot be read: {error.strerror}. What was found is in {FOUND}")
        return 2
    ALL[name].run(data)
    print(f"{name}: nothing is wrong with {file}")
    return 0


def hunt(name: str, seconds: int, seed: int, found: Path, corpus: Path | None) -> bool:
    """Whether nothing was found."""
    folder = found / name
    folder.mkdir(parents=True, exist_ok=True)
    before = _written(folder)
    with tempfile.TemporaryDirectory() as temporary:
        begin = Path(temporary, "seeds")
        begin.mkdir()
        words = write(ALL[name], begin)
        kept = Path(temporary, "corpus") if corpus is None else corpus / name
        kept.mkdir(parents=True, exist_ok=True)
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz.hunt", name, str(folder)),
                f"-artifact_prefix={folder}/",
                *([f"-dict={words}"] if words else []),
                f"-max_total_time={seconds}",
                f"-seed={seed}",
                f"-max_len={ALL[name].longest}",
                f"-timeout={SLOW}",
                f"-rss_limit_mb={MEMORY}",
                *(str(kept), str(begin)),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    told = ended.stdout.decode(errors="replace")
    if ended.returncode == 0:
        print(f"{name}: {_count(told)}")
        return True
    print("\n".join(line for line in told.splitlines() if not line.startswith(_NOISE)))
    files = _inputs(_written(folder) - before)
    print(f"{name}: {'this breaks it' if files else 'the hunt itself failed'}")
    for file in files:
        print(f"  make fuzz-replay FILE={_short(file)}")
    return False


def write(target: Target, folder: Path) -> Path | None:
    """Write what a target begins with into a folder; where its words are, if it has any."""
    begun = (data for seed in target.seeds for data in (seed, *variants(seed)))
    for number, data in enumerate(begun):
        (folder / f"{number:05}").write_bytes(data)
    if not target.words:
        return None
    words = folder.parent / "words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    return words


def _escaped(word: bytes) -> str:
    """A word as libFuzzer's dictionaries have it."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def _written(folder: Path) -> set[tuple[Path, int]]:
    """The files in a folder, and when they were written."""
    return {(file, file.stat().st_mtime_ns) for file in folder.iterdir()}


def _inputs(files: set[tuple[Path, int]]) -> list[Path]:
    """Each input once: libFuzzer writes one that crashed too, under a longer name."""
    names = sorted((file for file, _ in files), key=lambda file: len(file.name))
    return list({file.read_bytes(): file for file in reversed(names)}.values())


def _short(file: Path) -> Path:
    return file.relative_to(ROOT) if file.is_relative_to(ROOT) else file


def _count(told: str) -> str:
    """How much was tried, as libFuzzer says it last."""
    said = [line for line in told.splitlines() if line.startswith("Done ")]
    return said[-1].removeprefix("Done ") if said else "done"


if __name__ == "__main__":
    sys.exit(main())
