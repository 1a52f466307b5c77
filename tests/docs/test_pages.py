"""The pages as a whole: links lead somewhere, printed pages are current, claims held."""

import inspect
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
import yaml
from markdown_it import MarkdownIt

from docs.printing.__main__ import FOLDER, rendered
from docs.printing.errors import KINDS, faults
from heddle.server.sockets import frames as socket_frames
from heddle.server.sockets import outgoing
from heddle.server.sockets import session as socket
from heddle.server.status import board as status_board
from tests.docs.claims import missing

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(
    page
    for page in [
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *(ROOT / "examples").rglob("README.md"),
    ]
)
MARKDOWN: Final = MarkdownIt("commonmark").enable("table")


@cache
def anchors(page: Path) -> frozenset[str]:
    """The ids that a page's headings get: lower case, words joined by hyphens."""
    tokens = MARKDOWN.parse(page.read_text(encoding="utf-8"))
    headings = [
        inline.content
        for opened, inline in pairwise(tokens)
        if opened.type == "heading_open"
    ]
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in headings
    )


def links(page: Path) -> Iterator[str]:
    """Where a page's links lead."""
    for token in MARKDOWN.parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            if child.type == "link_open":
                yield str(child.attrs["href"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    for link in links(page):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize(("name", "text"), rendered().items())
def test_what_is_printed_from_the_code_is_current(name: str, text: str) -> None:
    current = (FOLDER / name).read_text(encoding="utf-8")
    assert current == text, "run: python -m docs.printing"


def test_every_error_is_explained_once() -> None:
    rows = [name for kind in KINDS.values() for name in kind]
    assert sorted(rows) == sorted(set(rows))
    assert set(rows) == set(faults())


def test_the_site_has_every_page_and_no_other() -> None:
    class Loader(yaml.SafeLoader):
        """What the site's own extensions say in tags is not looked at."""

    Loader.add_multi_constructor("", lambda *_: None)
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.load(text, Loader)["nav"]

    def flat(entry: object) -> Iterator[str]:
        match entry:
            case str():
                yield entry
            case list():
                for each in entry:
                    yield from flat(each)
            case dict():
                for each in entry.values():
                    yield from flat(each)

    listed = list(flat(nav))
    there = {
        str(page.relative_to(DOCS))
        for page in DOCS.rglob("*.md")
        if "changes" not in page.parts
    }
    assert len(listed) == len(set(listed))
    assert set(listed) == there


def test_every_rule_of_the_threat_model_is_held_by_a_test() -> None:
    page = (DOCS / "threat-model.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 40
    assert missing(named) == []
    for row in re.findall(r"^\| (?!could|---)(.*) \|$", page, re.MULTILINE):
        assert "`test_" in row, row


def test_every_message_of_the_socket_is_on_its_page() -> None:
    page = (DOCS / "reference" / "websocket.md").read_text(encoding="utf-8")
    _, asked, answered, bounds = page.split("\n## ")
    rows = [
        set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) - {"type"}
        for part in (asked, answered)
    ]
    assert rows[0] == {*socket._ACTS, "auth"}
    sources = "".join(
        inspect.getsource(each) for each in (socket, outgoing, socket_frames, status_board)
    )
    said = set(re.findall(r"""\btype"?[=:]\s?"(\w+)\"""", sources))
    assert rows[1] == said - {"auth"}
    for number in (socket.MAX_FOLLOWED, outgoing.MAX_UNREAD):
        assert f"{number:,}" in bounds


def test_pages_speak_of_no_version_that_is_not_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    least = project["requires-python"].removeprefix(">=")
    assert f"Python {least} or newer" in (DOCS / "getting-started.md").read_text("utf-8")
