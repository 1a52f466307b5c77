"""docs/client.md: every snippet on it runs, and prints what it should."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.heddle.server.serving import STRAIGHT, Served, server

PAGE: Final = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
SNIPPETS: Final = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTS: Final = (
    "Ada",
    "2 start\n4 end\n{'name': 'Ada'}",
    "completed\n['completed']\n[6]",
    f"{[str(n) for n in range(10)]}\n[5, 6]",
    "400 DocumentError None\n'name' is missing",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("client-page")
    with server(folder, "--auth-token", "open-sesame") as found:
        yield found


@pytest.mark.parametrize(("snippet", "prints"), list(zip(SNIPPETS, PRINTS, strict=True)))
async def test_a_snippet_prints_what_it_should(
    served: Served, snippet: str, prints: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = snippet.replace("http://127.0.0.1:4319", served.address)
    names: dict[str, Any] = {"flow": STRAIGHT}
    exec(f"async def snippet():\n{textwrap.indent(code, '    ')}", names)
    await names["snippet"]()
    assert capsys.readouterr().out.strip() == prints
