"""The status page in a real browser: what it shows, survives and never runs."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from heddle.client import Client, RunFailed, connect
from heddle.events import NodeStarted
from heddle.server.status.page import page as status_page
from tests.heddle.server.serving import STRAIGHT, Served, server, write_tools
from tests.support.browser import Browser, Page, browser, program
from tests.support.flows import end, flow, start, tool

PROGRAM: Final = program()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no browser")

TOKEN: Final = "open-sesame"
HOSTILE: Final = '<img src=x onerror="window.hacked=1">\'"><script>hacked=1</script>'
PICTURES: Final = os.environ.get("HEDDLE_PICTURES")
"""A folder for screenshots, for who wants to look."""


def named(name: str, node: str) -> dict[str, Any]:
    """A flow that waits at a node."""
    waiting = {**tool(node), "tool": tool("wait")["tool"]}
    return {**flow([start(), waiting, end()], ["start", node, "end"]), "name": name}


POLICY: Final = """
import os
from heddle.plugin import proceed, reject, serve

def before(event, ctx):
    if event.input.get("die") == "{0}":
        os._exit(3)
    return reject("not on a Wednesday") if event.input.get("deny") else proceed()

serve({{"{0}": {{"node": {{"before": before}}}}}})
"""


def plugin(folder: Path, name: str, component: str) -> str:
    """A policy in a process of its own."""
    (folder / f"{name}.py").write_text(POLICY.format(component))
    manifest = {
        "name": name,
        "version": "1",
        "components": [
            {
                "componentType": component,
                "kind": "middleware",
                "seams": {"node": ["before"]},
            }
        ],
    }
    (folder / f"{name}.json").write_text(json.dumps(manifest))
    return f"{name}.json"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    assert PROGRAM is not None
    with browser(PROGRAM) as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("page")
    plugins = (plugin(folder, "gate", "Gate"), plugin(folder, "audit", "Audit"))
    flags = [flag for each in plugins for flag in ("--plugin", each)]
    flags += ["--tools-dir", write_tools(folder), "--auth-token", TOKEN]
    with server(folder, *flags, "--max-concurrent", "8") as found:
        yield found


ROWS: Final = "[...document.querySelectorAll('#%s tr')]"


def row(name: str) -> str:
    """The row of a flow, as an expression."""
    return f"{ROWS % 'runs'}.find(r => r.innerText.includes({json.dumps(name)}))"


STICKS_OUT: Final = (
    "[...document.querySelectorAll('section td, section button')].filter(e =>"
    " e.getBoundingClientRect().right > e.closest('section').getBoundingClientRect().right"
    ").map(e => e.innerText)"
)
"""What is wider than the box it is in."""


async def enter(page: Page) -> None:
    """Show the token."""
    await page.until("!document.querySelector('#door').hidden")
    await page.evaluate(f"document.querySelector('#token').value = '{TOKEN}'")
    await page.click("#door button")
    await page.until("!document.querySelector('#board').hidden")


async def busy(client: Client) -> list[str]:
    """Runs of every kind, and a plugin whose process has died; those that go on."""
    for n in range(12):
        await client.run(STRAIGHT, {"n": n})
    going_on = [
        await client.start(named(name, node), detach=True)
        for name, node in (
            ("triage inbox", "classify"),
            ("nightly report", "collect figures"),
            (HOSTILE, HOSTILE),
        )
    ]
    for run in going_on:
        async for entry in client.follow(run):
            if isinstance(entry.event, NodeStarted) and entry.event.node_name != "start":
                break
    for inputs in ({"deny": True}, {"die": "Audit"}):
        with pytest.raises(RunFailed):
            await client.run(STRAIGHT, inputs)
    return going_on


async def test_the_page_shows_runs_policies_and_plugins_and_runs_nothing_of_theirs(
    served: Served, chromium: Browser
) -> None:
    async with (
        connect(served.address, token=TOKEN) as client,
        chromium.page(served.address) as page,
    ):
        await page.until("!document.querySelector('#door').hidden")
        await page.evaluate("document.querySelector('#token').value = 'wrong'")
        await page.click("#door button")
        await page.until("!document.querySelector('#wrong').hidden")
        await enter(page)
        running = await busy(client)

        await page.until(f"{row('classify')}?.innerText")
        hostile = await page.until(f"{row(HOSTILE)}?.innerText")
        assert hostile.count(HOSTILE) == 2
        assert not await page.evaluate("document.querySelector('img') || window.hacked")
        await page.until("document.querySelector('#active').textContent === '3'")
        assert (
            await page.evaluate("document.querySelector('#accepted').textContent") == "17"
        )
        policies = await page.until(
            "[...document.querySelectorAll('#policies tr')].map(r => r.innerText)"
            ".find(t => t.includes('Gate') && t.includes('reject 1'))"
        )
        assert "node.before" in policies
        plugins = await page.until(
            f"{ROWS % 'plugins'}.map(r => r.innerText)"
            ".find(t => t.includes('audit') && t.includes('failed'))"
        )
        assert "status 3" in plugins
        # Nothing of the token in any address or in what lasts.
        assert TOKEN not in await page.evaluate(
            "location.href + JSON.stringify(localStorage) + document.cookie"
        )
        await pictures(page, "board")

        await page.evaluate(f"{row(HOSTILE)}.querySelector('button').click()")
        await page.until("document.querySelector('#events-list').children.length > 2")
        assert await page.evaluate("document.querySelector('#events').open")
        assert HOSTILE in await page.evaluate(
            "document.querySelector('#events-title').textContent"
        )
        await pictures(page, "events")
        # What can't be taken back is asked for twice.
        await page.click("#events-cancel")
        assert (await client.get(running[2])).running
        await page.click("#events-cancel")
        await page.until(
            "document.querySelector('#events-state').innerText === 'cancelled'"
        )
        await page.click("#events-close")
        await page.evaluate("open('nobody-knows-it')")
        await page.until(
            "document.querySelector('#events-state').innerText === 'not known'"
        )
        assert await page.evaluate("document.querySelector('#events-cancel').hidden")
        await page.click("#events-close")
        await page.evaluate(
            f"{{ const b = {row('classify')}.querySelector('.danger');"
            " b.click(); b.click(); }"
        )
        await page.until(f"{row('classify')}.innerText.includes('cancelled')")
        assert (await client.get(running[0])).status == "cancelled"
        await client.cancel(running[1])
        assert page.problems == []
        assert not await page.evaluate("document.querySelector('img') || window.hacked")


async def pictures(page: Page, name: str) -> None:
    """Nothing sticks out at the side, at a desk, on a phone and on what is between."""
    for width, dark in (
        *((1280, False), (1280, True), (880, False)),
        *((700, False), (375, False), (375, True), (320, False)),
    ):
        await page.size(width, 900 if width > 600 else 760, dark=dark)
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (name, width)
        assert await page.evaluate(STICKS_OUT) == [], (name, width)
        if PICTURES:
            path = Path(PICTURES) / f"{name}-{width}{'-dark' if dark else ''}.png"
            await page.screenshot(path)
    await page.size(1280)


def test_programs_get_json_and_browsers_a_page_that_admits_its_own_script_alone(
    served: Served,
) -> None:
    for accept in ("*/*", "application/json", None):
        headers = {} if accept is None else {"Accept": accept}
        assert served.ask("GET", "/", headers=headers).json["name"] == "heddle"
    browsers = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    answer = served.ask("GET", "/", headers={"Accept": browsers})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["vary"] == "Accept"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert answer.body == status_page().body
    assert b"innerHTML" not in answer.body
    assert b"http:" not in answer.body
    assert b"https:" not in answer.body
