"""What there is to measure: a module ``bench_<subject>`` each, and what its docstring says.

A docstring has a title and three parts, which are told beside the numbers:

    Question: what is asked
    Workload: what is done, and what the floor is
    Answer:   what comes out
"""

import importlib
import pkgutil
import re
from types import ModuleType
from typing import Final

from msgspec import Struct

import bench

_PART: Final = re.compile(
    r"^(Question|Workload|Answer):(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL
)


class About(Struct, frozen=True):
    """What a benchmark is about, one line a field."""

    subject: str
    title: str
    question: str
    workload: str
    answer: str


def subjects() -> list[str]:
    """Every subject that there is a ``bench_<subject>`` module for."""
    names = (module.name for module in pkgutil.iter_modules(bench.__path__))
    return sorted(
        name.removeprefix("bench_") for name in names if name.startswith("bench_")
    )


def module_of(subject: str) -> ModuleType:
    """Its module."""
    return importlib.import_module(f"bench.bench_{subject}")


def about(subject: str) -> About:
    """What its docstring says.

    Raises:
        KeyError: a part is missing.
    """
    return about_module(subject, module_of(subject))


def about_module(subject: str, module: ModuleType) -> About:
    """What the docstring of any such module says.

    Raises:
        KeyError: a part is missing.
    """
    text = module.__doc__ or ""
    parts = {name: " ".join(said.split()) for name, said in _PART.findall(text)}
    title = " ".join(text.partition("\n\n")[0].split())
    return About(subject, title, parts["Question"], parts["Workload"], parts["Answer"])
