"""What a package offers is what one gets, whatever else has been imported before."""

import importlib
import pkgutil
from types import ModuleType

import pytest

ROOTS = ("actors", "plugins_host", "heddle")


def modules() -> list[tuple[str, bool]]:
    """Every module of ours, and whether it is a package."""
    found = [(root, True) for root in ROOTS]
    for root in ROOTS:
        package = importlib.import_module(root)
        walked = pkgutil.walk_packages(package.__path__, f"{root}.")
        found += [(each.name, each.ispkg) for each in walked]
    return [(name, is_package) for name, is_package in found if "__main__" not in name]


@pytest.mark.parametrize("package", [name for name, is_package in modules() if is_package])
def test_no_module_takes_the_place_of_a_public_name(package: str) -> None:
    for name, _ in modules():
        if name.startswith(package):
            importlib.import_module(name)
    offered = importlib.import_module(package)
    names = getattr(offered, "__all__", ())
    assert not [name for name in names if isinstance(getattr(offered, name), ModuleType)]
