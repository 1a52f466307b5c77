"""The same protocol with real processes: in Python, JavaScript and shell, written by hand."""

# ruff: noqa: E501  tables of sentences, and headers of tests whose names are sentences

import errno
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from plugins_host.plugin_faults import (
    PluginGone,
    PluginNotStarted,
    PluginOverdue,
    ProtocolBroken,
)
from plugins_host.plugin_log import PluginLine
from plugins_host.processes import child as child_module
from plugins_host.processes.fleet import Fleet, PluginUnknown
from plugins_host.processes.process import PluginProcess
from plugins_host.program import CAPABILITIES, PluginProgram, chosen_environment
from plugins_host.testing import RecordedServices

RAW_PYTHON = """
import json, os, sys, time, threading

def send(frame):
    sys.stdout.write(json.dumps(frame) + "\\n")
    sys.stdout.flush()

def handle(frame):
    {body}

for line in sys.stdin:
    frame = json.loads(line)
    if "method" not in frame:
        continue
    if frame["method"] in ("init", "shutdown", "cancel"):
        send({{"id": frame["id"], "result": {{"protocol": 1}}}})
    else:
        handle(frame)
"""

RAW_JAVASCRIPT = """
const lines = require("node:readline").createInterface({ input: process.stdin });
const waiting = new Map();
let next = 0;
const send = (frame) => process.stdout.write(JSON.stringify(frame) + "\\n");
const ask = (method, params) =>
  new Promise((done) => {
    const id = `r${++next}`;
    waiting.set(id, done);
    send({ id, method, params });
  });
lines.on("line", async (line) => {
  const frame = JSON.parse(line);
  if (!frame.method) return waiting.get(frame.id)(frame);
  if (frame.method === "init") return send({ id: frame.id, result: { protocol: 1 } });
  if (frame.method === "shutdown") return send({ id: frame.id, result: {} });
  if (frame.method === "cancel") return send({ id: frame.id, result: {} });
  const tool = await ask("runTool", { call: frame.id, name: "add", input: frame.params });
  send({ id: frame.id, result: { said: tool.result } });
});
"""

# A plugin that finds the id of a request and lets everything be, in the shell alone.
RAW_SHELL = r"""
while IFS= read -r line; do
  id=${line#*\"id\":}
  id=${id%%[,\}]*}
  case $line in
    *'"method":"init"'*) echo "{\"id\":$id,\"result\":{\"protocol\":1}}" ;;
    *) echo "{\"id\":$id,\"result\":{\"action\":\"proceed\"}}" ;;
  esac
done
"""

Start = Callable[..., AbstractAsyncContextManager[PluginProcess]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start one plugin from its argv; gives the client."""

    @asynccontextmanager
    async def start(
        argv: Sequence[str],
        *,
        log: Callable[[PluginLine], None] = lambda _: None,
        **how: Any,
    ) -> AsyncIterator[PluginProcess]:
        program = PluginProgram(
            "real",
            tuple(argv),
            str(how.pop("cwd", tmp_path)),
            how.pop("environment", chosen_environment(os.environ)),
            frozenset(how.pop("capabilities", CAPABILITIES)),
            shared=how.pop("shared", False),
        )
        async with Fleet([program], log=log, **how) as fleet:
            yield fleet["real"]

    return start


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str], list[str]]:
    """The argv of a plugin in Python whose answer to everything else is ``body``."""

    def python(body: str) -> list[str]:
        script = tmp_path / "plugin.py"
        indented = textwrap.indent(textwrap.dedent(body), "    ").lstrip()
        script.write_text(RAW_PYTHON.format(body=indented))
        return [sys.executable, str(script)]

    return python


ECHO = 'send({"id": frame["id"], "result": frame["params"]})'


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for something that another process does, which nothing tells."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110  nobody would set an event
            await trio.sleep(0.01)


async def echoed(plugin: PluginProcess, value: object) -> Any:
    raw = await plugin.request("echo", msgspec.json.encode({"value": value}))
    return msgspec.json.decode(raw)["value"]


async def test_a_plugin_in_python_answers(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    async with start(python(ECHO)) as plugin:
        assert await echoed(plugin, "grüße 😀") == "grüße 😀"


@pytest.mark.skipif(
    not shutil.which("node"), reason="needs Node.js, which is not installed"
)
async def test_a_plugin_in_javascript_answers_and_asks(
    start: Start, tmp_path: Path
) -> None:
    script = tmp_path / "plugin.cjs"
    script.write_text(RAW_JAVASCRIPT)
    services = RecordedServices({"add": lambda given: {"sum": given["a"] + given["b"]}})
    async with start(["node", str(script)]) as plugin, trio.open_nursery() as nursery:

        async def one(n: int) -> None:
            params = msgspec.json.encode({"a": n, "b": 1})
            raw = await plugin.request(
                "before", params, services=services, components=("X",)
            )
            assert msgspec.json.decode(raw) == {"said": {"sum": n + 1}}

        for n in range(50):
            nursery.start_soon(one, n)


async def test_a_plugin_in_shell_answers(start: Start, tmp_path: Path) -> None:
    script = tmp_path / "plugin.sh"
    script.write_text(RAW_SHELL)
    async with start(["sh", str(script)]) as plugin:
        for _ in range(3):
            raw = await plugin.request("before", b'{"seam":"node"}')
            assert msgspec.json.decode(raw) == {"action": "proceed"}


@pytest.mark.parametrize("size", [200_000, 5_000_000])
async def test_large_frames_go_both_ways(
    start: Start, python: Callable[[str], list[str]], size: int
) -> None:
    async with start(python(ECHO)) as plugin, trio.open_nursery() as nursery:

        async def one(letter: str) -> None:
            assert await echoed(plugin, letter * size) == letter * size

        for letter in "abc":
            nursery.start_soon(one, letter)


async def test_a_line_without_end_costs_its_call_and_no_memory(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    body = """
    if frame["params"].get("endless"):
        sys.stdout.write('{"id":%d,"result":"' % frame["id"])
        while True:
            sys.stdout.write("x" * 100_000)
    send({"id": frame["id"], "result": frame["params"]})
    """
    async with start(python(body), max_line=1_000_000) as plugin:
        with pytest.raises(ProtocolBroken, match="longer than 1000000 bytes"):
            await plugin.request("before", b'{"endless":true}')
        await until(lambda: plugin.counts.started == 1)
        with trio.fail_after(20):
            while True:
                # The call that meets the broken channel fails with it; then a fresh
                # process answers.
                try:
                    assert await echoed(plugin, 1) == 1
                    break
                except ProtocolBroken:
                    continue
        assert plugin.counts.started == 2


async def test_a_megabyte_on_stderr_changes_nothing(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    body = """
    sys.stderr.write("x" * 1_000_000 + "\\n")
    sys.stderr.flush()
    send({"id": frame["id"], "result": frame["params"]})
    """
    lines: list[PluginLine] = []
    async with start(python(body), log=lines.append) as plugin:
        assert await echoed(plugin, 1) == 1
    assert [line.source for line in lines] == ["stderr"]
    assert len(lines[0].text) < 10_000


async def test_kill_minus_nine_under_fifty_calls_fails_them_and_later_ones_work(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    body = """
    if "hang" in frame["params"]:
        sys.stderr.write("hangs\\n")
    else:
        send({"id": frame["id"], "result": os.getpid()})
    """
    lines: list[PluginLine] = []
    async with start(python(body), log=lines.append) as plugin:
        pid = msgspec.json.decode(await plugin.request("pid", b"{}"))
        failures: list[PluginGone] = []

        async def hang() -> None:
            with pytest.raises(
                PluginGone, match=r"killed by signal 9 \(SIGKILL\)"
            ) as caught:
                await plugin.request("hang", b'{"hang":true}')
            failures.append(caught.value)

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(hang)
            await until(lambda: len(lines) == 50)
            os.kill(pid, signal.SIGKILL)
        assert [failure.status for failure in failures] == [-9] * 50
        again = msgspec.json.decode(await plugin.request("pid", b"{}"))
        assert again != pid


async def test_what_a_killed_process_had_not_read_is_asked_again(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    body = """
    if "hang" in frame["params"]:
        time.sleep(600)
    send({"id": frame["id"], "result": os.getpid()})
    """
    outcomes: list[Any] = []
    async with start(python(body)) as plugin, trio.open_nursery() as nursery:
        pid = msgspec.json.decode(await plugin.request("pid", b"{}"))

        async def ask(params: bytes) -> None:
            try:
                outcomes.append(msgspec.json.decode(await plugin.request("x", params)))
            except PluginGone as gone:
                outcomes.append(gone.status)

        nursery.start_soon(ask, b'{"hang":true}')
        channel = plugin._channel
        assert channel is not None
        pipe = channel._child.outlet
        await until(lambda: channel._open != {} and pipe.taken() == channel._writer.sent)
        for size in (1, 100_000, 1_000_000):
            nursery.start_soon(ask, b'{"x":"%b"}' % (b"x" * size))
        await trio.testing.wait_all_tasks_blocked()
        os.kill(pid, signal.SIGKILL)
        with trio.fail_after(30):
            await until(lambda: len(outcomes) == 4)
    assert outcomes[0] == -9
    assert len(set(outcomes[1:])) == 1
    assert outcomes[1] not in (pid, -9)


async def test_a_plugin_takes_what_it_started_with_it(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    body = """
    import signal, subprocess
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)
    send({"id": frame["id"], "result": child.pid})
    """
    async with start(python(body)) as plugin:
        grandchild = msgspec.json.decode(await plugin.request("spawn", b"{}"))
        assert alive(grandchild)
    await until(lambda: not alive(grandchild))


async def test_a_plugin_that_ignores_everything_is_gone_a_second_after_leaving(
    start: Start, tmp_path: Path
) -> None:
    script = tmp_path / "stubborn.py"
    script.write_text(
        "import sys, time, json, signal, os\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "frame = json.loads(sys.stdin.readline())\n"
        'print(json.dumps({"id": frame["id"], "result": os.getpid()}), flush=True)\n'
        "while True: time.sleep(1)\n"
    )
    pids: list[int] = []
    async with start([sys.executable, str(script)]) as plugin:
        await plugin.start()
        pids += [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and str(script) in _command(entry)
        ]
        assert len(pids) == 1
    assert not alive(pids[0])


def _command(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_text()
    except OSError:
        return ""


async def test_cancelling_leaves_no_process(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    pids: list[int] = []
    body = """
    if "hang" not in frame["params"]:
        send({"id": frame["id"], "result": os.getpid()})
    """
    with trio.CancelScope() as scope:
        async with start(python(body)) as plugin:
            pids.append(msgspec.json.decode(await plugin.request("pid", b"{}")))
            scope.cancel()
            await plugin.request("hang", b'{"hang":true}')
    assert scope.cancelled_caught
    assert not alive(pids[0])


async def test_a_busy_plugin_that_cannot_be_cancelled_is_replaced(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    body = """
    if "hang" in frame["params"]:
        time.sleep(600)
    send({"id": frame["id"], "result": os.getpid()})
    """
    async with start(python(body)) as plugin:
        first = msgspec.json.decode(await plugin.request("pid", b"{}"))
        with pytest.raises(PluginOverdue):
            await plugin.request("before", b'{"hang":true}', patience=0.2)
        await until(lambda: plugin.counts.retired == 1)
        second = msgspec.json.decode(await plugin.request("pid", b"{}"))
        assert first != second
        await until(lambda: not alive(first))


async def test_nothing_is_inherited_but_what_was_chosen(
    start: Start, python: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    monkeypatch.setenv("GRANTED", "yes")
    monkeypatch.setenv("LANG", "C.UTF-8")
    body = 'send({"id": frame["id"], "result": dict(os.environ)})'
    for granted, submitted in (
        ((), False),
        (("GRANTED", "ABSENT"), False),
        (("GRANTED",), True),
    ):
        environment = chosen_environment(os.environ, granted=granted, submitted=submitted)
        async with start(python(body), environment=environment) as plugin:
            seen = msgspec.json.decode(await plugin.request("environment", b"{}"))
        assert "SECRET" not in seen
        assert ("GRANTED" in seen) is ("GRANTED" in granted and not submitted)
        assert ("PATH" in seen) is not submitted


async def test_the_plugin_starts_in_its_folder_and_holds_no_descriptor_of_ours(
    start: Start, python: Callable[[str], list[str]], tmp_path: Path
) -> None:
    body = """
    fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
    send({"id": frame["id"], "result": [os.getcwd(), len(fds), os.getsid(0) == os.getpid()]})
    """
    folder = tmp_path / "home"
    folder.mkdir()
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), False)
        async with start(python(body), cwd=folder) as plugin:
            cwd, count, leads = msgspec.json.decode(await plugin.request("look", b"{}"))
    assert cwd == str(folder)
    assert count == 4  # the three of the protocol, and the folder that is being listed
    assert leads


NOT_STARTED = [
    (["./missing"], "its program './missing' was not found"),
    (["no-such-program-anywhere"], "its program 'no-such-program-anywhere' was not found"),
    (["./text"], "its program './text' is not executable. chmod +x ./text"),
    (["./garbage"], "its program './garbage' is no program. Begin it with a line like"),
    (["./lost"], "what the first line of './lost' names to run it was not found"),
    (["false"], "it did not start: its process exited with status 1"),
    (["sh", "-c", "echo why >&2; exit 3"], "exited with status 3; on stderr it said: why"),
    (["sh", "-c", "kill -TERM $$"], "its process was killed by signal 15 (SIGTERM)"),
    (["echo", "{oops"], "a frame is not valid JSON: '{oops'"),
]


@pytest.mark.parametrize(
    ("argv", "told"), NOT_STARTED, ids=[argv[-1] for argv, _ in NOT_STARTED]
)
async def test_a_program_that_does_not_start_says_why(
    start: Start, tmp_path: Path, argv: list[str], told: str
) -> None:
    (tmp_path / "text").write_text("not a program")
    for name, content in (("garbage", b"\x00\x01\x02"), ("lost", b"#!/no/such/thing\n")):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o755)
    async with start(argv) as plugin:
        with pytest.raises(PluginNotStarted) as caught:
            await plugin.request("before", b"{}")
    assert told in str(caught.value)


async def test_a_missing_runtime_is_named(start: Start, tmp_path: Path) -> None:
    async with start(["node", "x.mjs"], environment={"PATH": str(tmp_path)}) as plugin:
        with pytest.raises(PluginNotStarted) as caught:
            await plugin.request("before", b"{}")
    assert str(caught.value) == (
        "plugin 'real': its program 'node' was not found. Install Node.js, or put node on "
        "heddle's PATH."
    )


async def test_a_machine_without_descriptors_left_is_told_and_recovers(
    start: Start, python: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*, room: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    async with start(python(ECHO)) as plugin:
        with monkeypatch.context() as patch:
            patch.setattr(child_module, "open_pipe", none_left)
            with pytest.raises(
                PluginNotStarted, match=r"no pipe can be opened: .* Raise the limit"
            ):
                await plugin.request("before", b"{}")
        assert await echoed(plugin, 1) == 1


async def test_a_missing_folder_is_named(start: Start, tmp_path: Path) -> None:
    async with start([sys.executable], cwd=tmp_path / "gone") as plugin:
        with pytest.raises(PluginNotStarted, match="its folder '.*gone' is not there"):
            await plugin.request("before", b"{}")


async def test_a_plugin_recovers_once_the_cause_is_gone(
    start: Start, python: Callable[[str], list[str]], tmp_path: Path
) -> None:
    argv = python(ECHO)
    script = Path(argv[1])
    hidden = script.rename(tmp_path / "hidden.py")
    async with start(argv) as plugin:
        with pytest.raises(PluginNotStarted):
            await plugin.request("before", b"{}")
        hidden.rename(script)
        assert await echoed(plugin, 1) == 1


async def test_no_descriptor_is_left_however_a_plugin_ends(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    body = 'sys.exit(1) if "die" in frame["params"] else send({"id": frame["id"], "result": 1})'
    async with start(python(body)) as plugin:
        await plugin.request("warm", b"{}")
    before = descriptors()
    async with start(python(body)) as plugin:
        for _ in range(3):
            await plugin.request("live", b"{}")
            with pytest.raises(PluginGone):
                await plugin.request("die", b'{"die":true}')
    async with start(["./missing"]) as plugin:
        with pytest.raises(PluginNotStarted):
            await plugin.request("before", b"{}")
    assert descriptors() == before


async def test_a_grandchild_that_keeps_stdout_open_does_not_hide_the_end(
    start: Start, python: Callable[[str], list[str]]
) -> None:
    body = """
    import subprocess
    subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
    os._exit(5)
    """
    async with start(python(body)) as plugin:
        with trio.fail_after(10), pytest.raises(PluginGone, match="exited with status 5"):
            await plugin.request("die", b"{}")


# --- the fleet -----------------------------------------------------------------------------


def program(name: str, argv: Sequence[str], folder: Path) -> PluginProgram:
    return PluginProgram(name, tuple(argv), str(folder), chosen_environment(os.environ))


async def test_a_fleet_starts_all_and_names_the_first_that_does_not(
    python: Callable[[str], list[str]], tmp_path: Path
) -> None:
    programs = [
        program("good", python(ECHO), tmp_path),
        program("bad", ["false"], tmp_path),
        program("worse", ["./missing"], tmp_path),
    ]
    async with Fleet(programs, log=lambda _: None) as fleet:
        with pytest.raises(PluginNotStarted) as caught:
            await fleet.start()
        assert caught.value.plugin == "bad"
        assert list(fleet) == ["good", "bad", "worse"]
        assert await echoed(fleet["good"], 1) == 1
        with pytest.raises(PluginUnknown, match="Did you mean 'good'"):
            fleet["goood"]


async def test_a_fleet_starts_nobody_by_being_entered(tmp_path: Path) -> None:
    async with Fleet(
        [program("bad", ["./missing"], tmp_path)], log=lambda _: None
    ) as fleet:
        assert len(fleet) == 1
        assert fleet["bad"].counts.started == 0


def test_two_plugins_of_one_name_are_refused(tmp_path: Path) -> None:
    twins = [program("twin", ["true"], tmp_path)] * 2
    with pytest.raises(PluginUnknown, match="two plugins are called 'twin'"):
        Fleet(twins, log=lambda _: None)
