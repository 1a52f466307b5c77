"""The pictures in the pages are of the program as it is."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from docs.screenshots.picture import picture, words
from docs.screenshots.scenes import FOLDER, SCENES, settled, showing

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_shows_what_the_command_prints_today(name: str) -> None:
    scene = SCENES[name]
    with showing(scene) as screen:
        drawn = picture(screen, scene.command, scene.title)
        seen = settled(screen.text).splitlines()
    kept = words((FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
    assert words(drawn) == kept, "run: make screenshots"
    # Empty rows have no text in the picture.
    told = [row for row in seen if row]
    assert kept.splitlines()[-len(told) :] == told


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_needs_nothing_else(name: str) -> None:
    text = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)
    tags = {each.tag.rpartition("}")[2] for each in root.iter()}
    assert tags == {"svg", "title", "rect", "path", "circle", "g", "text"}
    assert not re.search(r"href|url\(|@import|@font-face|<script|<style", text)
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]


def test_every_picture_has_a_place_in_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"!\[[^\]]+\]\(([^)]+\.svg)\)", page.read_text("utf-8"))
    }
    assert {FOLDER / f"{name}.svg" for name in SCENES} <= shown
    assert all(each.exists() for each in shown)
