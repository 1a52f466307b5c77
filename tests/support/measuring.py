"""Coverage of processes that tests start: measured where they inherit what asks for it."""

from collections.abc import Mapping
from typing import Final

VARIABLES: Final = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""What asks for it in an environment, in this version of coverage and in older ones."""


def unmeasured(environment: Mapping[str, str]) -> dict[str, str]:
    """The same without: for tests of what a process loads, or can not write."""
    return {name: environment[name] for name in environment if name not in VARIABLES}
