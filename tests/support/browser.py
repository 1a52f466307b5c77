"""A headless browser for tests, driven by the DevTools protocol; as little as they need.

with browser() as found:                      a process; None where there is none
    async with found.page(url) as page:
        await page.until("document.title === 'heddle'")
        await page.evaluate("1 + 1")          2
        await page.screenshot(path, width=375)
"""

import base64
import json
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE: Final = 30.0
FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # in containers the tests are root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


def program() -> str | None:
    """The browser, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab. ``problems`` are its uncaught errors, and what its policy kept out."""

    def __init__(self, ws: WebSocketConnection) -> None:
        self.problems: list[str] = []
        self._ws = ws
        self._session: str | None = None
        self._answers: dict[int, Any] = {}
        self._waiting: dict[int, trio.Event] = {}
        self._next = 0

    async def call(self, method: str, **params: Any) -> Any:
        """A command of the protocol."""
        self._next += 1
        number = self._next
        waiting = self._waiting[number] = trio.Event()
        whole = {"id": number, "method": method, "params": params}
        if self._session is not None:
            whole["sessionId"] = self._session
        await self._ws.send_message(json.dumps(whole))
        with trio.fail_after(PATIENCE):
            await waiting.wait()
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    async def read(self) -> None:
        """Take what the browser says, until it is gone."""
        with suppress(ConnectionClosed):
            while True:
                told = json.loads(await self._ws.get_message())
                if "id" in told:
                    self._answers[told["id"]] = told
                    self._waiting.pop(told["id"]).set()
                elif told["method"] == "Runtime.exceptionThrown":
                    details = told["params"]["exceptionDetails"]
                    self.problems.append(json.dumps(details)[:500])
                elif told["method"] == "Log.entryAdded":
                    entry = told["params"]["entry"]
                    if entry["source"] in {"security", "violation"}:
                        self.problems.append(entry["text"])

    async def begin(self, url: str) -> None:
        """Open a tab at an address."""
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        await self.size(1280)
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def size(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Be so wide and high."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def evaluate(self, script: str) -> Any:
        """What an expression comes to."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until an expression comes to something that is true, and have that."""
        found = None
        with trio.move_on_after(PATIENCE):
            while not (found := await self.evaluate(script)):  # noqa: ASYNC110
                await trio.sleep(0.02)
        if not found:
            text = await self.evaluate("document.body.innerText")
            raise AssertionError(f"never: {script}; {self.problems}; the page:\n{text}")
        return found

    async def click(self, selector: str) -> None:
        """Press what a selector finds."""
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    async def screenshot(self, path: Path) -> None:
        """A picture of what is seen."""
        answer = await self.call("Page.captureScreenshot")
        path.write_bytes(base64.b64decode(answer["data"]))


class Browser:
    """A browser that runs; ``address`` is where it is driven from."""

    def __init__(self, address: str) -> None:
        self.address = address

    @asynccontextmanager
    async def page(self, url: str) -> AsyncIterator[Page]:
        """A tab of its own, in a connection of its own."""
        parts = urlsplit(self.address)
        async with (
            await trio.open_tcp_stream(str(parts.hostname), parts.port or 0) as stream,
            trio.open_nursery() as nursery,
        ):
            ws = await wrap_client_stream(
                nursery, stream, parts.netloc, parts.path, max_message_size=64 << 20
            )
            page = Page(ws)
            nursery.start_soon(page.read)
            await page.begin(url)
            yield page
            await page.call("Page.close")
            nursery.cancel_scope.cancel()


@contextmanager
def browser(name: str) -> Iterator[Browser]:
    """Start one, with a profile that is thrown away."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [name, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        try:
            yield Browser(_address(process))
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stderr is not None
            process.stderr.close()


def _address(process: "subprocess.Popen[bytes]") -> str:
    assert process.stderr is not None
    until = time.monotonic() + PATIENCE
    said = ""
    while time.monotonic() < until:
        if select.select([process.stderr], [], [], 1)[0]:
            line = process.stderr.readline().decode(errors="replace")
            said += line
            if "DevTools listening on " in line:
                return line.rpartition(" ")[2].strip()
            if not line:
                break
    raise AssertionError(f"the browser did not start: {said}")
