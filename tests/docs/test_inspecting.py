"""What the page about looking at flows prints is what the commands print."""

from pathlib import Path

from tests.examples.readme import blocks, run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "inspecting.md"


def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    found = blocks(PAGE.read_text(encoding="utf-8"))
    assert len(found) >= 2
    for block in found:
        assert run(block.command, ROOT, tmp_path) == block.printed, block.head
