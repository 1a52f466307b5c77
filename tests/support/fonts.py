"""How wide the letters of a TrueType font are, and the tables that are printed of it.

    python -m tests.support.fonts FOLDER

measures DejaVuSans.ttf and DejaVuSans-Bold.ttf of FOLDER and writes two tables: what the
pictures of flows go by, rounded up (`heddle.cli.drawing.letters`), and what their test
measures them with, exact (``tests/heddle/cli/drawing/dejavu.txt``). Neither needs the
fonts afterwards.
"""

import math
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from heddle.cli.drawing import letters

ROOT: Final = Path(__file__).parents[2]
MEASURED: Final = ROOT / "tests/heddle/cli/drawing/dejavu.txt"
UNITS: Final = 2048
"""Of an em, in the table of the test."""
FACES: Final = {"REGULAR": "DejaVuSans.ttf", "BOLD": "DejaVuSans-Bold.ttf"}
BLOCKS: Final = ((0x20, 0x700), (0x1E00, 0x27C0))
"""What pictures know the width of."""
MORE: Final = ((0xFB00, 0xFB50), (0x1F600, 0x1F650))
"""What they guess the width of, and the test does not."""
WIDE: Final = 76
PRINTED: Final = "# What is below is printed by `tests.support.fonts`.\n"


def advances(data: bytes) -> dict[int, float]:
    """The width of each character of a font, in ems."""
    (count,) = struct.unpack_from(">H", data, 4)
    tables: dict[bytes, int] = {}
    for number in range(count):
        tag, _, offset, _ = struct.unpack_from(">4sLLL", data, 12 + 16 * number)
        tables[tag] = offset
    (units,) = struct.unpack_from(">H", data, tables[b"head"] + 18)
    (metrics,) = struct.unpack_from(">H", data, tables[b"hhea"] + 34)
    at = tables[b"hmtx"]
    widths = [struct.unpack_from(">H", data, at + 4 * n)[0] for n in range(metrics)]
    return {
        code: widths[min(glyph, metrics - 1)] / units
        for code, glyph in _glyphs(data, tables[b"cmap"])
    }


def _glyphs(data: bytes, cmap: int) -> Iterator[tuple[int, int]]:
    """Characters and the numbers of their glyphs."""
    (count,) = struct.unpack_from(">H", data, cmap + 2)
    for number in range(count):
        _, _, offset = struct.unpack_from(">HHL", data, cmap + 4 + 8 * number)
        at = cmap + offset
        if struct.unpack_from(">H", data, at)[0] == 12:
            (groups,) = struct.unpack_from(">L", data, at + 12)
            for group in range(groups):
                first, last, glyph = struct.unpack_from(">LLL", data, at + 16 + 12 * group)
                for code in range(first, last + 1):
                    yield code, glyph + code - first
            return
    raise ValueError("the font has no table of characters of format 12")


def read() -> dict[str, dict[str, float]]:
    """What was measured: face → character → its width in ems."""
    found: dict[str, dict[str, float]] = {name: {} for name in FACES}
    for row in MEASURED.read_text(encoding="ascii").splitlines():
        name, first, widths = row.split()
        for number, told in enumerate(re.findall("...", widths)):
            if told != "---":
                found[name][chr(int(first, 16) + number)] = int(told, 16) / UNITS
    return found


def _measured(name: str, widths: dict[int, float]) -> Iterator[str]:
    for first, end in (*BLOCKS, *MORE):
        for at in range(first, end, 0x20):
            told = [
                f"{round(widths[code] * UNITS):03x}" if code in widths else "---"
                for code in range(at, min(at + 0x20, end))
            ]
            yield f"{name} {at:x} {''.join(told)}"


def _printed(name: str, widths: dict[int, float]) -> Iterator[str]:
    yield f"{name}: Final[Table] = ("
    for first, end in BLOCKS:
        told = "".join(
            letters.DIGITS[math.ceil(widths[code] * letters.STEPS - 0.001)]
            if code in widths
            else letters.UNKNOWN
            for code in range(first, end)
        )
        yield f"    (\n        0x{first:X},\n        ("
        for at in range(0, len(told), WIDE):
            yield f'            "{told[at : at + WIDE]}"'
        yield "        ),\n    ),"
    yield ")"


def main(folder: Path) -> None:
    """Measure and write."""
    fonts = {name: advances((folder / file).read_bytes()) for name, file in FACES.items()}
    rows = [row for name, widths in fonts.items() for row in _measured(name, widths)]
    MEASURED.write_text("\n".join(rows) + "\n", encoding="ascii")
    path = Path(letters.__file__)
    kept, mark, _ = path.read_text(encoding="utf-8").partition(PRINTED)
    tables = ["\n".join(_printed(name, widths)) for name, widths in fonts.items()]
    path.write_text(f"{kept}{mark}" + "\n".join(tables) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
