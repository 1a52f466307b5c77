"""From files and options to runs: what is kept, what is refused before anything runs."""

from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from heddle import launch, preparing
from heddle.launch import Engine, RunOptions, ToolsMissing
from heddle.preparing import Plans, UnreadableFile
from heddle.spec import Effort, EffortExceeded, spending
from heddle.tools import ToolProgram
from tests.support.flows import agent, document, end, flow, model, server_tool, start, tool

PLAIN = document(flow([start(), end()], ["start", "end"]))


def test_the_same_bytes_are_compiled_once() -> None:
    assert preparing.prepare(PLAIN, name="a") is preparing.prepare(PLAIN, name="a")


def test_the_same_bytes_under_another_name_tell_their_own_name() -> None:
    first = preparing.prepare(PLAIN, name="a.json")
    second = preparing.prepare(PLAIN, name="b.json")
    assert (first.name, second.name) == ("a.json", "b.json")


@given(st.lists(st.integers(0, 5), max_size=30))
def test_no_more_plans_are_kept_than_there_is_room_for(wanted: list[int]) -> None:
    plans = Plans(3, 1000)
    compiled: list[int] = []
    recent: list[int] = []
    for number in wanted:
        before = len(compiled)

        def compile_it(number: int = number) -> preparing.Prepared:
            compiled.append(number)
            return preparing.prepare(PLAIN, name=f"{number}.json")

        assert plans.get(str(number).encode(), "json", compile_it).name == f"{number}.json"
        assert (len(compiled) == before) == (number in recent[-3:])
        recent = [each for each in recent if each != number] + [number]


def test_plans_of_long_documents_make_room_for_one_another() -> None:
    plans = Plans(100, 1000)
    compiled: list[bytes] = []

    def get(data: bytes) -> None:
        def compile_it() -> preparing.Prepared:
            compiled.append(data[:1])
            return preparing.prepare(PLAIN, name="x.json")

        plans.get(data, "json", compile_it)

    for name in (b"a", b"b", b"c", b"c", b"b", b"a", b"c", b"d"):
        get(name * (10 if name == b"d" else 400))
    assert b"".join(compiled) == b"abcacd"


def test_a_document_is_read_within_an_effort() -> None:
    long = PLAIN + b" " * 100_000
    with spending(Effort(1000)), pytest.raises(EffortExceeded):
        preparing.prepare(long, name="long.json")
    with spending(Effort(20_000)):
        preparing.prepare(long, name="long.json")


def test_a_missing_file_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile) as caught:
        preparing.load(str(tmp_path / "no.json"))
    assert str(caught.value) == (
        f"{tmp_path}/no.json: cannot read it: No such file or directory. Check the path "
        "and its permissions."
    )


def test_a_folder_is_no_document(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="Is a directory"):
        preparing.load(str(tmp_path))


def test_a_document_that_is_too_large_is_refused_without_reading_all_of_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    with pytest.raises(UnreadableFile, match="has 50 MiB, and a document has at most 16"):
        preparing.load(str(path))


async def test_missing_tools_are_told_all_at_once_before_anything_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / "serch").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "serch").chmod(0o755)
    (tmp_path / "plain.py").write_text("", encoding="utf-8")
    plain = flow(
        [start(), agent("a", tools=[server_tool("search")]), tool("plain"), end()],
        ["start", "a", "plain", "end"],
        shared=[model()],
    )
    prepared = preparing.prepare(document(plain), name="flow.json")
    events: list[object] = []
    with pytest.raises(ToolsMissing) as caught:
        await launch.run(prepared, RunOptions(tools_dir=str(tmp_path)), events.append)
    text = str(caught.value)
    assert "node 'a'" in text
    assert "Did you mean 'serch'?" in text
    assert "node 'plain'" in text
    assert "chmod +x" in text
    assert events == []


async def test_a_flow_without_tools_needs_no_folder() -> None:
    prepared = preparing.prepare(PLAIN, name="flow.json")
    assert await launch.run(prepared, RunOptions(inputs={"x": 1}), lambda _: None) == {
        "x": 1
    }


async def test_tools_that_runs_bring_take_turns_where_there_are_no_others(
    tmp_path: Path,
) -> None:
    program = tmp_path / "alone"
    program.write_text(
        # One at a time finds the folder free; what it does takes a moment.
        f"#!/bin/sh\nmkdir {tmp_path}/busy || exit 3\nsleep 0.1\n"
        f"rmdir {tmp_path}/busy\necho '{{}}'\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    brought = {"alone": ToolProgram("alone", str(program))}
    plain = flow([start(), tool("alone"), end()], ["start", "alone", "end"])
    prepared = preparing.prepare(document(plain), name="flow.json")
    ended: list[object] = []

    async def run(engine: Engine) -> None:
        ended.append(await engine.run(prepared, {}, lambda _: None, stream=False))

    async with (
        launch.open_engine(RunOptions(max_tools=1)) as engine,
        trio.open_nursery() as nursery,
    ):
        for _ in range(3):
            nursery.start_soon(run, engine.bringing(brought, within=str(tmp_path)))
    assert ended == [{}, {}, {}]
