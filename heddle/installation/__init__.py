"""What is installed beside the flows: plugins, and what each kind of them gives to runs.

    installed = install(("policies.json",), ("Gate=@gate.json",))    reads, starts nothing
    async with open_plugins(installed, log=print, patience=30) as plugins:
        plugins.policies, plugins.components, plugins.encoders …      what runs use

Reading is in `reading` and `provided`, what runs use in `opening`. A run may bring plugins
of its own: installed and opened like these, they come beside them with ``and_also``.
"""

from heddle.installation.opening import NONE_OPEN, OpenPlugins, open_plugins
from heddle.installation.reading import (
    NOTHING,
    OWN_PROTOCOL,
    Installed,
    NotServedYet,
    PolicyModelInvalid,
    TypeTaken,
    install,
    installed_of,
)

__all__ = [
    "NONE_OPEN",
    "NOTHING",
    "OWN_PROTOCOL",
    "Installed",
    "NotServedYet",
    "OpenPlugins",
    "PolicyModelInvalid",
    "TypeTaken",
    "install",
    "installed_of",
    "open_plugins",
]
