"""Imports a plugin that is a Python module, and tells in one sentence why it cannot.

./policies/audit.py      a file, whatever folder it is in
my_company.policies      a module that this Python can import
"""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Final

from plugins_host.faults import Fault, one_of
from plugins_host.serving import importing

_OURS: Final = str(Path(__file__).parents[1])


class ModuleUnusable(Fault):
    """A module that was named as a plugin cannot be imported."""


def import_module(source: str) -> tuple[ModuleType, Path]:
    """Import the module that ``--plugin`` names.

    Returns:
        The module, and the folder that it is in.

    Raises:
        ModuleUnusable: It is not there, is no Python, or fails when it is imported.
    """
    path = Path(source)
    if path.suffix == ".py" and path.is_file():
        return _guarded(source, lambda: _from_file(path)), path.resolve().parent
    names = source.split(".")
    if path.suffix == ".py" or path.exists() or not all(n.isidentifier() for n in names):
        raise _no_plugin(path, source)
    module = _guarded(source, lambda: importlib.import_module(source))
    file = getattr(module, "__file__", None)
    return module, Path(file).resolve().parent if file else Path.cwd()


def _from_file(path: Path) -> ModuleType:
    real = path.resolve()
    # Two files of one name in different folders are two modules; one file is one, so that
    # pickling and dataclasses in it find it under its name.
    digest = blake2b(str(real).encode(), digest_size=6).hexdigest()
    name = f"heddle_plugin_{digest}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, real)
    assert spec is not None  # the name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # What lies beside it can be imported, as it can when it runs by itself; after
    # everything else, so that it takes no name from heddle.
    if str(real.parent) not in sys.path:
        sys.path.append(str(real.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _no_plugin(path: Path, source: str) -> ModuleUnusable:
    if path.is_dir():
        return ModuleUnusable(
            "this is a folder", where=source, fix="Name the manifest in it."
        )
    manifest = path.with_suffix(".json")
    if path.exists() and manifest.exists():
        return ModuleUnusable(
            "a program is installed by its manifest",
            where=source,
            fix=f"Pass --plugin {manifest}.",
        )
    if not path.exists() and path.parent.is_dir():
        names = [str(path.parent / each.name) for each in path.parent.iterdir()]
        near = one_of(source, names)
        fix = near if near.startswith("Did") else "Check the path."
        return ModuleUnusable("there is no such file", where=source, fix=fix)
    return ModuleUnusable(
        "this is neither a manifest (.json) nor a Python module",
        where=source,
        fix="Write a manifest beside the program and name that.",
    )


def _guarded(source: str, load: Callable[[], ModuleType]) -> ModuleType:
    try:
        with importing(source):
            return load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything, sys.exit() included
        raise _told(source, error) from error


def _told(source: str, error: BaseException) -> ModuleUnusable:
    said = str(error) or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and error.name == source.partition(".")[0]:
        return ModuleUnusable(
            f"there is no module {error.name!r}",
            where=source,
            fix="Name a .py file, or a module that heddle's Python can import.",
        )
    if isinstance(error, SyntaxError):
        return ModuleUnusable(
            f"it is not valid Python: {error.msg}", where=f"{error.filename}:{error.lineno}"
        )
    return ModuleUnusable(
        f"it cannot be imported: {type(error).__name__}: {said}", where=_line(source, error)
    )


def _line(source: str, error: BaseException) -> str:
    """The line of the plugin that failed: the last one that is not of what loaded it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", _OURS))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else source
