from pathlib import Path

import pytest
import trio

from heddle.tools import (
    Slots,
    ToolFolderInvalid,
    Tools,
    ToolTimedOut,
    ToolUnusable,
    UnknownTool,
    default_limit,
    open_workspace,
)
from tests.heddle.tools.conftest import WriteTool


async def test_a_tool_is_run_by_its_name(tools: Path, tool: WriteTool) -> None:
    tool("cat", name="echo.sh")
    found = Tools.in_folder(tools)
    assert list(found.names) == ["echo"]
    async with open_workspace() as workspace:
        answer = await found.run("echo", {"a": 1}, workspace=workspace, run_key="r")
    assert answer == {"a": 1}


async def test_an_unknown_tool_is_refused_with_a_guess(
    tools: Path, tool: WriteTool
) -> None:
    tool(name="search_web")
    tool(name="send")
    found = Tools.in_folder(tools)
    async with open_workspace() as workspace:
        with pytest.raises(UnknownTool) as caught:
            await found.run("serch_web", {}, workspace=workspace, run_key="r")
    assert str(caught.value) == (
        "tool 'serch_web': there is no such tool. Did you mean 'search_web'?"
    )
    (fault,) = found.problems(["calculate"])
    assert str(fault).endswith("Choose from: search_web, send.")


def test_without_a_folder_there_are_no_tools() -> None:
    found = Tools.in_folder(None)
    assert list(found.names) == []
    (fault,) = found.problems(["a"])
    assert str(fault) == (
        "tool 'a': there is no such tool. "
        "There are none: give the folder that it is in with --tools-dir, or the plugin "
        "that serves it with --plugin."
    )


def test_what_stands_against_a_flows_tools_is_told_at_once(
    tools: Path, tool: WriteTool
) -> None:
    tool(name="fine")
    Path(tool(name="locked").path).chmod(0o644)
    found = Tools.in_folder(tools)
    faults = found.problems(["fine", "locked", "absent", "locked"])
    assert [type(fault) for fault in faults] == [ToolUnusable, UnknownTool]
    assert f"Run: chmod +x {tools}/locked" in str(faults[0])
    assert found.problems(["fine"]) == []


async def test_a_tool_that_is_not_executable_is_refused_at_its_use(
    tools: Path, tool: WriteTool
) -> None:
    Path(tool(name="locked").path).chmod(0o644)
    async with open_workspace() as workspace:
        with pytest.raises(ToolUnusable, match="is not executable"):
            await Tools.in_folder(tools).run("locked", {}, workspace=workspace, run_key="r")


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolFolderInvalid):
        Tools.in_folder(tmp_path / "absent")


async def test_the_time_out_may_differ_for_one_call(tools: Path, tool: WriteTool) -> None:
    tool("sleep 600", name="slow")
    found = Tools.in_folder(tools, timeout=600)
    async with open_workspace() as workspace:
        with pytest.raises(ToolTimedOut):
            await found.run("slow", {}, workspace=workspace, run_key="r", timeout=0.3)


async def test_no_more_than_the_limit_run_at_a_time(
    tools: Path, tool: WriteTool, tmp_path: Path
) -> None:
    running = tmp_path / "running"
    running.mkdir()
    tool(f"""touch {running}/$$; n=$(ls {running} | wc -l); sleep 0.02; rm {running}/$$
    printf '{{"n":%d}}' $n""")
    found = Tools.in_folder(tools, slots=Slots(3))
    seen: list[int] = []

    async def one(run_key: int) -> None:
        async with open_workspace() as workspace:
            answer = await found.run("t", {}, workspace=workspace, run_key=run_key)
        seen.append(answer["n"])

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number % 4)
    assert len(seen) == 20
    assert max(seen) <= 3


async def test_waiting_for_a_slot_is_not_counted_as_running(
    tools: Path, tool: WriteTool
) -> None:
    tool("sleep 0.4")
    found = Tools.in_folder(tools, slots=Slots(1), timeout=10)

    async def one() -> None:
        async with open_workspace() as workspace:
            await found.run("t", {}, workspace=workspace, run_key="r", timeout=2)

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(one)


def test_the_default_is_four_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert default_limit() == 32
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert default_limit() == 4
