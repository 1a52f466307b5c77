"""docs/browser.md: the page on it, run as it stands in a real browser."""

import functools
import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from heddle.client import connect
from tests.heddle.server.serving import WAITING, Served, server, write_tools
from tests.support.browser import Page, browser, program
from tests.support.flows import component, end, flow, llm, start

PROGRAM: Final = program()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no browser")
TOKEN: Final = "open-sesame"
PAGE: Final = Path(__file__).parents[2] / "docs" / "browser.md"

MODEL: Final = component(
    "OpenAiCompatibleConfig",
    "model",
    model_id="m",
    url="scripted:",
    metadata={"script": [{"content": "one fox 🦊 and a dog"}]},
)
TALKING: Final = flow(
    [start(), llm("say", "x", llm_config=MODEL), end()], ["start", "say", "end"]
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the page is served from: not heddle."""
    folder = tmp_path_factory.mktemp("origin")
    [page] = re.findall(r"```html\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (folder / "page.html").write_text(page)
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as files:
        thread = threading.Thread(target=files.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{files.server_address[1]}"
        files.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, origin: str) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("browser-page")
    flags = ("--auth-token", TOKEN, "--cors-origin", origin)
    with server(folder, *flags, "--tools-dir", write_tools(folder)) as found:
        yield found


async def begin(page: Page, button: str, document: Any) -> None:
    """Ask for a run."""
    await page.evaluate(f"$('flow').value = {json.dumps(json.dumps(document))}")
    await page.evaluate("$('status').textContent = ''")
    await page.click(button)


async def test_the_page_runs_a_flow_comes_again_and_takes_back(
    served: Served, origin: str
) -> None:
    assert PROGRAM is not None
    with browser(PROGRAM) as chromium:
        async with (
            connect(served.address, token=TOKEN) as client,
            chromium.page(f"{origin}/page.html") as page,
        ):
            await page.evaluate(
                f"$('server').value = '{served.address}'; $('token').value = 'wrong'"
            )
            for button in ("#run", "#stream"):
                await begin(page, button, TALKING)
                await page.until(
                    "$('status').textContent.startsWith('refused: this server')"
                )
            await page.evaluate(f"$('token').value = '{TOKEN}'")
            for button in ("#run", "#stream"):
                await begin(page, button, TALKING)
                await page.until("$('status').textContent === 'completed'")
                text = await page.evaluate("$('text').textContent")
                assert text == "one fox 🦊 and a dog"
                await begin(page, button, {"component_type": "Flow"})
                await page.until("$('status').textContent.startsWith('refused')")

            # A connection that is lost is had again, and no event is shown twice.
            await begin(page, "#run", WAITING)
            await page.until("$('events').children.length === 4")
            [run] = await client.runs(status="running")
            await page.evaluate("window.first = window.socket; window.socket.close()")
            await page.until(
                "window.socket !== window.first && window.socket.readyState === 1"
            )
            await client.cancel(run.run)
            await page.until("$('status').textContent.startsWith('cancelled')")
            shown = await page.evaluate(
                "[...$('events').children].map(e => parseInt(e.textContent))"
            )
            assert shown == list(range(1, len(shown) + 1))

            # What a policy made void goes away, by characters.
            await page.evaluate(
                "window.shown = new Shown();"
                "shown.event(1, {type: 'token_delta', nodeName: 'a', delta: 'ab🦊'});"
                "shown.event(2, {type: 'token_discard', nodeName: 'a', characters: 2});"
                "shown.event(2, {type: 'token_delta', nodeName: 'a', delta: 'twice'})"
            )
            assert await page.evaluate("$('text').textContent") == "a"

            # A run that the server has forgotten is not asked for without end.
            await page.evaluate(
                "window.asked = 0; window.fetch = async () => window.asked++ === 0"
                " ? new Response('', {headers: {'Heddle-Run': 'r'}})"
                ' : new Response(\'{"error": {"message": "forgotten"}}\', {status: 404})'
            )
            await begin(page, "#stream", TALKING)
            await page.until("$('status').textContent === 'lost: forgotten'")
            assert await page.evaluate("window.asked") == 2
            assert page.problems == []
