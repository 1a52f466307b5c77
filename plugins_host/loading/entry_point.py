"""What to run for a manifest: its ``command``, or the entry point beside it.

    policies.json   with "command": ["./run.sh", "--fast"]
    policies.json   policies            an executable, run by path
    policies.json   policies.py         with the Python that heddle runs on
    policies.json   policies.mjs, .js   with node, and heddle's JavaScript runtime in it

Looking starts nothing. Paths in the folder are real ones, so that a link cannot lead out.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from plugins_host.faults import Fault
from plugins_host.manifests.manifest import Manifest

RUNTIME: Final = Path(__file__).parents[1] / "runtime" / "serve.mjs"

_JAVASCRIPT: Final = frozenset({".mjs", ".js"})

# What lies beside a manifest under the same stem and is no program, even on file systems
# that call every file executable.
_NO_PROGRAMS: Final = frozenset(
    {".json", ".md", ".txt", ".yaml", ".yml", ".toml", ".lock", ".log", ".ts", ".map"}
)


class ProgramMissing(Fault):
    """There is nothing to run for a manifest that needs a program."""


class EntryPoint(Struct, frozen=True):
    """What to run, and the folder to run it in."""

    argv: tuple[str, ...]
    folder: Path


def find_entry_point(
    manifest: Manifest, path: Path, *, search: str | None = None
) -> EntryPoint | None:
    """Find what serves a manifest.

    Args:
        manifest: What was read from ``path``.
        path: The manifest's file.
        search: The PATH that the plugin will have; None for heddle's own.

    Returns:
        None for a manifest that needs no program.

    Raises:
        ProgramMissing: There is none, or several, or it cannot be run.
    """
    real = path.resolve()
    folder = real.parent
    where = f"{path} (plugin {manifest.name!r})"
    if manifest.command is not None:
        head, *rest = manifest.command
        return EntryPoint((_resolve(head, folder, search, where), *rest), folder)
    if not manifest.needs_program:
        return None
    found = list(_beside(real))
    if not found:
        plain = real.with_suffix("")
        if plain != real and plain.is_file():
            raise ProgramMissing(
                f"{plain.name!r} beside the manifest is not executable",
                where=where,
                fix=f"Run chmod +x {shlex.quote(str(plain))}, or write 'command'.",
            )
        raise ProgramMissing(
            "there is no program beside the manifest, and no 'command' in it",
            where=where,
            fix=f"Add {real.stem}.py, {real.stem}.mjs or an executable {real.stem}, or "
            "write 'command'.",
        )
    if len(found) > 1:
        names = " and ".join(repr(each.name) for each in found)
        raise ProgramMissing(
            f"{names} could both be its program",
            where=where,
            fix="Remove one, or write 'command'.",
        )
    return EntryPoint(_run(found[0], search, where), folder)


def _resolve(head: str, folder: Path, search: str | None, where: str) -> str:
    """The program that a ``command`` names, as a path to run."""
    where = f"{where} $.command[0]"
    try:
        real = (folder / head).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise ProgramMissing(f"{head!r} is not a path: {error}", where=where) from error
    if os.sep not in head and not real.is_file():
        on_path = shutil.which(head, path=search)
        if on_path is None:
            raise ProgramMissing(
                f"{head!r} is neither in the plugin's folder nor on PATH",
                where=where,
                fix="Install it, or check the spelling.",
            )
        return on_path
    if not Path(head).is_absolute() and not real.is_relative_to(folder):
        raise ProgramMissing(
            f"{head!r} leads out of the plugin's folder",
            where=where,
            fix="Name a program inside it, one on PATH, or an absolute path.",
        )
    if not real.is_file():
        raise ProgramMissing(
            f"there is no file {head!r}", where=where, fix="Check the path."
        )
    if not os.access(real, os.X_OK):
        raise ProgramMissing(
            f"{head!r} is not executable", where=where, fix=f"Run chmod +x {head}."
        )
    # By its own name, not where its links lead: the python of a virtual environment is a
    # link, and knows its packages by the name that it was called by.
    return head if Path(head).is_absolute() else str(real)


def _beside(path: Path) -> Iterator[Path]:
    """The files beside a manifest that could be its program."""
    for each in sorted(path.parent.iterdir()):
        if each.stem != path.stem or each.name == path.name or not each.is_file():
            continue
        runs_by_name = each.suffix == ".py" or each.suffix in _JAVASCRIPT
        is_program = os.access(each, os.X_OK) and each.suffix not in _NO_PROGRAMS
        if runs_by_name or is_program:
            yield each


def _run(program: Path, search: str | None, where: str) -> tuple[str, ...]:
    real = program.resolve()
    if not real.is_relative_to(program.parent):
        raise ProgramMissing(
            f"{program.name!r} leads out of the plugin's folder",
            where=where,
            fix="Put the program itself beside the manifest.",
        )
    script = program.suffix == ".py" or program.suffix in _JAVASCRIPT
    if os.access(real, os.X_OK) and (not script or _has_shebang(real)):
        return (str(real),)
    return script_command(real, search=search, where=where)


def script_command(
    script: Path, *, search: str | None = None, where: str = ""
) -> tuple[str, ...]:
    """What runs a plugin that is a script in Python or JavaScript, which need not be there.

    Raises:
        ProgramMissing: There is nothing to run it by.
    """
    if script.suffix == ".py":
        return (sys.executable, str(script))
    node = _node(search, script.name, where)
    return (node, "--import", RUNTIME.as_uri(), str(script))


def _has_shebang(program: Path) -> bool:
    # Some file systems call every file executable; a script that means it says by what.
    with program.open("rb") as file:
        return file.read(2) == b"#!"


def _node(search: str | None, script: str, where: str) -> str:
    found = shutil.which("node", path=search)
    if found is None:
        raise ProgramMissing(
            f"{script!r} is run by node, and there is no 'node' on PATH",
            where=where,
            fix="Install Node.js 20 or newer, or put it on PATH.",
        )
    return found
