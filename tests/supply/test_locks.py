"""What is installed beside heddle is pinned, hashed, declared, and free to go along."""

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
LOCKS: Final = sorted(ROOT.glob("requirements*.lock"))
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUNTIME: Final = "requirements.lock"

LICENCES: Final = frozenset(
    ("MIT", "MIT-0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC", "PSF-2.0")
)
"""Under which everything may be that users of heddle install with it: no conditions but to
keep the notice."""

CLASSIFIERS: Final = {
    "MIT License": "MIT",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
}
"""What older packages say instead."""


def pinned(lock: Path) -> dict[str, list[Requirement]]:
    """The requirements of a lock, by name. Another one for each system there may be."""
    found: dict[str, list[Requirement]] = {}
    for line in re.sub(r"\\\n", " ", lock.read_text(encoding="utf-8")).splitlines():
        if line and not line.startswith("#"):
            each = Requirement(line.split(" --hash")[0].strip())
            found.setdefault(canonicalize_name(each.name), []).append(each)
    return found


def version(requirement: Requirement) -> str:
    """What it is pinned to."""
    [only] = requirement.specifier
    assert only.operator == "=="
    return only.version


def declared() -> dict[str, list[str]]:
    """What is asked for, by the lock that it is in."""
    groups = PROJECT["dependency-groups"]
    asked = {RUNTIME: PROJECT["project"]["dependencies"]}
    return asked | {f"requirements-{name}.lock": groups[name] for name in groups}


def test_there_is_a_lock_for_everything_that_is_asked_for() -> None:
    assert {lock.name for lock in LOCKS} == set(declared())


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_is_pinned_hashed_and_comes_from_nowhere(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\w)", text.strip())
    assert len(entries) > 5
    for entry in entries:
        assert re.match(r"[\w.-]+==[\w.+]+ (; .+ )?\\\n", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry
    # No index, no place on anybody's machine.
    assert not re.search(r"://|^--|^-[ef]| @ ", text, re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_has_what_is_asked_for(lock: Path) -> None:
    locked = pinned(lock)
    for each in map(Requirement, declared()[lock.name]):
        found = locked[canonicalize_name(each.name)]
        assert all(each.specifier.contains(version(one)) for one in found), each


@pytest.mark.parametrize(
    "lock",
    # In the environments of the others heddle itself is not run.
    [
        each
        for each in LOCKS
        if each.stem not in ("requirements-docs", "requirements-audit")
    ],
    ids=lambda lock: lock.name,
)
def test_what_is_tested_is_what_is_run(lock: Path) -> None:
    others = pinned(lock)
    for name, found in pinned(ROOT / RUNTIME).items():
        assert {version(one) for one in others[name]} == {version(one) for one in found}


def licences(name: str) -> set[str]:
    """Those of which one may be chosen; what all of them hold for is one."""
    about = metadata.metadata(name)
    said = about.get("License-Expression") or about.get("License") or ""
    if len(said) > 80 or not said:
        told = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier", [])]
        return {CLASSIFIERS[each] for each in told if each in CLASSIFIERS}
    said = re.sub(r"[Aa]pache 2.0", "Apache-2.0", said)
    return set(re.split(r" OR ", said))


def test_what_users_install_is_free_to_go_along() -> None:
    looked_at = 0
    for name, found in pinned(ROOT / RUNTIME).items():
        if not any(one.marker is None or one.marker.evaluate() for one in found):
            continue
        looked_at += 1
        may = licences(name)
        assert any(set(each.split(" AND ")) <= LICENCES for each in may), (name, may)
    assert looked_at > 10


def test_what_is_imported_is_asked_for() -> None:
    project = PROJECT["project"]
    extras = [each for some in project["optional-dependencies"].values() for each in some]
    asked = {
        canonicalize_name(Requirement(each).name)
        for each in (*project["dependencies"], *extras)
    }
    # Words of sentences are found as well, and are no packages.
    words = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
    used: set[str] = set()
    for package in ("actors", "plugins_host", "heddle"):
        for file in (ROOT / package).rglob("*.py"):
            used.update(words.findall(file.read_text(encoding="utf-8")))
    theirs = {
        canonicalize_name(home)
        for name, homes in metadata.packages_distributions().items()
        if name in used
        for home in homes
    } - {"heddle"}
    assert len(theirs) > 8
    assert theirs - asked == set()
