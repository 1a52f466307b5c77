"""What it takes to start a plugin, as data, and the environment it is given."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

# What an installed plugin may know of the machine without anybody granting it.
COMMON_VARIABLES: Final = ("PATH", "HOME", "LANG", "TMPDIR")

# How long a call may be silent. Seconds; `--plugin-timeout` changes it.
PATIENCE: Final = 30.0

CAPABILITIES: Final = ("runTool", "callModel", "emitEvent", "log")


class PluginProgram(Struct, frozen=True):
    """A plugin that runs in a process of its own.

    Attributes:
        name: The plugin's name, for errors and logs.
        argv: The program and its arguments; the program is a path or is found on PATH.
        cwd: The plugin's folder, which the process starts in.
        environment: All that the process finds in its environment.
        capabilities: The reverse calls that the manifest asks for and the host grants.
        shared: One process serves many runs, so nothing it writes on stderr may reach the
            error of one of them.
    """

    name: str
    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str] = {}
    capabilities: frozenset[str] = frozenset()
    shared: bool = False


def chosen_environment(
    host: Mapping[str, str], *, granted: Iterable[str] = (), submitted: bool = False
) -> dict[str, str]:
    """The environment of a plugin: chosen variable by variable, never inherited.

    Args:
        host: heddle's own environment.
        granted: Names that the operator grants this plugin beside the common ones.
        submitted: It came with a request; it is given nothing.
    """
    if submitted:
        return {}
    names = (*COMMON_VARIABLES, *granted)
    return {name: host[name] for name in names if name in host}
