"""The pages about the tree speak of what is there, and of all of it."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PACKAGES: Final = ("actors", "plugins_host", "heddle")
PAGES: Final = ("structure.md", "design.md", "plugin-host.md")

# Short names are read from one of these.
BESIDE: Final = (
    ROOT,
    DOCS,
    ROOT / "heddle",
    ROOT / "heddle" / "engine",
    ROOT / "heddle" / "server",
    ROOT / "plugins_host",
)

# Names and paths in full, in pages and in code.
_NAMED: Final = re.compile(
    r"(?<![\w./@-])(?:actors|plugins_host|heddle)(?:\.[A-Za-z_]\w*)+(?![\w/])"
)
_PLACED: Final = re.compile(
    r"(?<![\w./-])(?:actors|plugins_host|heddle|tests|deploy|examples)/[\w./*-]*[\w*/]"
)

# What looks like a name of code: a protocol, a logger, a method of a command.
OTHERS: Final = {"heddle.v1", "heddle.mcp", "heddle.main"}

_SPAN: Final = re.compile(r"`([^`\n]+)`")
_DOTTED: Final = re.compile(r"[a-z_]+(?:\.\w+)+")
_PATH: Final = re.compile(r"[\w.]+(?:/[\w.*-]+)*/?")


def text_of(page: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"(?ms)^```.*?^```$", "", (DOCS / page).read_text(encoding="utf-8"))


def spans(page: str) -> list[str]:
    """What a page marks as code, between words."""
    return _SPAN.findall(text_of(page))


def folders() -> Iterator[Path]:
    """Every folder of the packages that has code in it, but for what is copied to users."""
    for package in PACKAGES:
        for path in (ROOT / package, *(ROOT / package).rglob("*")):
            copied = {"plugins", "demo"} & set(path.parts) and path != ROOT / package
            if path.is_dir() and not copied and [*path.glob("*.py"), *path.glob("*.mjs")]:
                yield path


def names(dotted: str) -> bool:
    """Whether a dotted name leads to a module, or to something in one."""
    parts = dotted.split(".")
    if ROOT.joinpath(*parts).with_suffix(".py").exists():
        return True
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name, None)
        return found is not None
    return False


def is_there(path: str) -> bool:
    """Whether there is a file or folder of that name; with ``*`` several."""
    return any(
        any(base.glob(path)) if "*" in path else (base / path).exists() for base in BESIDE
    )


def test_every_folder_with_code_is_named() -> None:
    named = {span.rstrip("/") for span in spans("structure.md")}
    found = [str(path.relative_to(ROOT)) for path in folders()]
    assert len(found) > 30
    assert not [path for path in found if path not in named]
    kept = {each.name for each in ROOT.iterdir() if any(each.glob("*.md"))}
    kept |= {each.name for each in ROOT.iterdir() if any(each.glob("*.py"))}
    kept -= {"build", "dist"}
    kept = {name for name in kept if not name.startswith(".")}
    assert kept <= {path.split("/")[0] for path in named}
    suites = {each.name for each in (ROOT / "tests").iterdir() if any(each.glob("*.py"))}
    assert {f"tests/{each}" for each in suites - {*PACKAGES}} <= named


@pytest.mark.parametrize("page", PAGES)
def test_every_path_and_name_is_there(page: str) -> None:
    checked = []
    for span in spans(page):
        first = span.split(".")[0]
        if _DOTTED.fullmatch(span) and first in {*PACKAGES, "bench", "docs"}:
            checked.append((span, names(span) or is_there(span)))
        elif _PATH.fullmatch(span) and ("/" in span or span.endswith((".py", ".mjs"))):
            checked.append((span, is_there(span)))
    assert len(checked) > 8
    assert not [span for span, there in checked if not there]


def test_what_pages_and_code_name_in_full_is_there() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    code = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    # Numbers of benchmarks have names of their own.
    left_out = {*(DOCS / "changes").iterdir(), DOCS / "reference" / "benchmarks.md"}
    named: dict[str, Path] = {}
    for path in {*pages, *code} - left_out:
        text = path.read_text(encoding="utf-8")
        for span in {*_NAMED.findall(text), *_PLACED.findall(text)}:
            named.setdefault(span, path.relative_to(ROOT))
    assert len(named) > 500
    assert not {
        span: str(path)
        for span, path in named.items()
        if span not in OTHERS and not (is_there(span) if "/" in span else names(span))
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_target_of_make_is_there(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = {span.split()[1] for span in spans(page) if span.startswith("make ")}
    assert named <= targets
    if page == "structure.md":
        assert named == targets


def test_the_page_of_the_plugin_host_has_each_of_its_modules() -> None:
    table = text_of("plugin-host.md").split("\n## ")[1]
    named = {
        span.rstrip("/")
        for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
        for span in _SPAN.findall(row)
    }
    package = ROOT / "plugins_host"
    found = {path.stem for path in package.glob("*.py")} - {"__init__"}
    found |= {path.name for path in folders() if path.parent == package} - {"runtime"}
    assert named == {*found, "runtime/serve.mjs"}


def test_what_tests_a_package_lies_as_its_code_does() -> None:
    tests = ROOT / "tests"
    suites = [each for package in PACKAGES for each in (tests / package).rglob("test_*.py")]
    assert len(suites) > 150
    astray = {}
    for suite in suites:
        folder = ROOT / suite.parent.relative_to(tests)
        name = suite.stem.removeprefix("test_")
        beside = any((folder / each).exists() for each in (f"{name}.py", name))
        deeper = [*folder.rglob(f"{name}.py")] if folder.is_dir() else ["no such folder"]
        if deeper and not beside:
            astray[str(suite.relative_to(ROOT))] = deeper
    assert not astray


@pytest.mark.parametrize(
    "folder",
    [path for path in folders() if (path / "__init__.py").exists()],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_first_lines_of_a_folder_name_each_of_its_modules(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    words = set(re.findall(r"\w+", said))
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    assert not modules - words
