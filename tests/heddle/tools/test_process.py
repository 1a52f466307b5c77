import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec import structs

from heddle.tools import (
    ToolAnswerInvalid,
    ToolFailed,
    ToolProgram,
    ToolTimedOut,
    ToolUnusable,
    Workspace,
    open_workspace,
    run_program,
)
from heddle.tools.answer import MAX_OUTPUT
from heddle.tools.group import ProcessGroup
from plugins_host.processes.guard import Guard
from tests.heddle.tools.conftest import WriteTool, appears, processes_of

PYTHON = f"#!{sys.executable}\n"


async def run(
    program: ToolProgram, given: dict[str, Any] | None = None, *, timeout: float = 60
) -> dict[str, Any]:
    async with open_workspace() as workspace:
        return await run_program(program, given or {}, workspace=workspace, timeout=timeout)


# ---- what a tool may rely on


async def test_the_input_arrives_on_stdin_and_stdout_is_the_answer(tool: WriteTool) -> None:
    given = {"text": "grüße\n", "n": [1, 2.5, None, True]}
    assert await run(tool("cat"), given) == given


async def test_a_tool_that_prints_nothing_answers_with_an_empty_object(
    tool: WriteTool,
) -> None:
    assert await run(tool("exit 0")) == {}


async def test_no_stop_reaches_it_while_it_is_being_started(
    tool: WriteTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stopped between fork and exec it would hold up its parent, and so the shell of both.
    blocked: list[bool] = []
    masked = partial(signal.pthread_sigmask, signal.SIG_BLOCK, ())
    popen = subprocess.Popen

    def noting(*given: Any, **named: Any) -> Any:
        blocked.append(signal.SIGTSTP in masked())
        return popen(*given, **named)

    monkeypatch.setattr(subprocess, "Popen", noting)
    answer = await run(tool("cat"), {"a": 1})
    assert answer == {"a": 1}
    assert blocked == [True]
    assert signal.SIGTSTP not in await trio.to_thread.run_sync(masked)


async def test_it_works_in_its_workspace(tool: WriteTool) -> None:
    shell = """printf '{"a":"%s","b":"%s","c":"%s"}' \\
        "$(pwd -P)" "$PWD" "$HEDDLE_WORKSPACE" """
    async with open_workspace() as workspace:
        answer = await run_program(tool(shell), {}, workspace=workspace, timeout=60)
        assert set(answer.values()) == {workspace.folder()}


async def test_calls_in_one_workspace_see_each_others_files(tool: WriteTool) -> None:
    async with open_workspace() as workspace:
        writes = tool("echo '{\"a\":1}' > file", name="writes")
        reads = tool("cat file", name="reads")
        await run_program(writes, {}, workspace=workspace, timeout=60)
        answer = await run_program(reads, {}, workspace=workspace, timeout=60)
    assert answer == {"a": 1}


async def test_it_has_the_environment_of_heddle_itself(
    tool: WriteTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_THE_OPERATOR", "s3cret")
    program = tool("""printf '{"x":"%s"}' "$TOKEN_OF_THE_OPERATOR" """)
    assert await run(program) == {"x": "s3cret"}


async def test_it_has_another_environment_where_that_is_asked_for(tool: WriteTool) -> None:
    program = tool("""printf '{"x":"%s","home":"%s"}' "$X" "$HOME" """)
    alone = structs.replace(program, environment={"X": "1"})
    assert await run(alone) == {"x": "1", "home": ""}


async def test_an_interpreter_runs_what_is_no_program_by_itself(
    tool: WriteTool, tools: Path
) -> None:
    program = tool(script='printf \'{"all":"%s"}\' "$0 $*"')
    path = Path(program.path)
    path.chmod(0o600)
    run_by = structs.replace(program, interpreter=("/bin/sh",))
    assert await run(run_by) == {"all": f"{path} "}


async def test_it_inherits_no_open_file_and_no_terminal(tool: WriteTool) -> None:
    script = (
        PYTHON
        + """if True:
        import json, os
        listed = os.listdir("/proc/self/fd")
        links = [f"/proc/self/fd/{fd}" for fd in listed]
        print(json.dumps({
            "open": [int(link[14:]) for link in links if os.path.exists(link)],
            "leads": os.getsid(0) == os.getpid() == os.getpgid(0),
        }))
        """
    )
    assert await run(tool(script=script)) == {"open": [0, 1, 2], "leads": True}


async def test_a_tool_that_never_reads_its_input_is_fine(tool: WriteTool) -> None:
    big = {"text": "x" * 4_000_000}
    assert await run(tool("echo '{\"ok\":1}'"), big) == {"ok": 1}
    assert await run(tool("exec <&-; echo '{\"ok\":1}'"), big) == {"ok": 1}


async def test_megabytes_go_both_ways_at_once(tool: WriteTool) -> None:
    given = {"text": "x" * 6_000_000}
    assert await run(tool("cat"), given) == given


# ---- what a tool gets wrong


async def test_another_status_than_0_is_told_with_stderr(tool: WriteTool) -> None:
    with pytest.raises(ToolFailed) as caught:
        await run(tool("echo '{\"a\":1}'; echo no such city >&2; exit 3"))
    assert str(caught.value) == "tool 't': exited with status 3: no such city"
    assert (caught.value.status, caught.value.signal) == (3, None)
    assert caught.value.stderr == "no such city"
    assert caught.value.tool == "t"


async def test_only_the_end_of_stderr_is_kept(tool: WriteTool) -> None:
    shell = (
        "head -c 3000000 /dev/zero | tr '\\0' x >&2; printf '\\303\\244 end' >&2; exit 1"
    )
    with pytest.raises(ToolFailed) as caught:
        await run(tool(shell))
    assert caught.value.stderr.startswith("…xxx")
    assert caught.value.stderr.endswith("xä end")
    assert len(caught.value.stderr.encode()) == 4096 + len("…".encode())


async def test_stderr_that_is_cut_inside_a_character_or_is_no_text_is_readable(
    tool: WriteTool,
) -> None:
    script = PYTHON + "import os; os.write(2, 'ä'.encode() * 3000 + b'\\xff!'); exit(1)\n"
    with pytest.raises(ToolFailed) as caught:
        await run(tool(script=script))
    assert caught.value.stderr.startswith("…ä")
    assert caught.value.stderr.endswith("ä\ufffd!")


async def test_a_failure_without_a_word_is_told_by_its_status(tool: WriteTool) -> None:
    with pytest.raises(ToolFailed) as caught:
        await run(tool("exit 7"))
    assert str(caught.value) == "tool 't': exited with status 7"


@pytest.mark.parametrize(
    ("number", "name"), [(11, "SIGSEGV"), (9, "SIGKILL"), (40, "signal 40")]
)
async def test_a_signal_that_ended_it_is_named(
    tool: WriteTool, number: int, name: str
) -> None:
    with pytest.raises(ToolFailed) as caught:
        await run(tool(f"kill -{number} $$; sleep 60"))
    assert str(caught.value) == f"tool 't': was ended by {name}"
    assert (caught.value.status, caught.value.signal) == (None, name)


async def test_output_over_the_limit_is_an_error_and_not_memory(tool: WriteTool) -> None:
    with pytest.raises(ToolAnswerInvalid) as caught:
        await run(tool("exec cat /dev/zero"))
    assert str(caught.value) == (
        "tool 't': stdout is over 16 MiB. "
        "Answer with less, or write to a file and answer with its path."
    )


async def test_output_at_the_limit_is_fine(tool: WriteTool) -> None:
    padding = MAX_OUTPUT - len('{"a":""}')
    shell = f"""printf '{{"a":"'; head -c {padding} /dev/zero | tr '\\0' x; printf '"}}'"""
    assert len((await run(tool(shell)))["a"]) == padding


async def test_an_answer_that_is_no_json_is_told(tool: WriteTool) -> None:
    with pytest.raises(ToolAnswerInvalid, match="stdout is not JSON"):
        await run(tool("echo hello"))


# ---- what keeps a tool from starting


async def unusable(program: ToolProgram) -> str:
    with pytest.raises(ToolUnusable) as caught:
        await run(program)
    assert caught.value.tool == "t"
    return str(caught.value)


async def test_a_missing_interpreter_is_told(tool: WriteTool) -> None:
    program = tool(script="#!/usr/bin/perl6000 -w\n")
    assert await unusable(program) == (
        f"tool 't': the interpreter in the first line of {program.path}, "
        "'#!/usr/bin/perl6000 -w', does not exist. Correct the line, or install the "
        "interpreter."
    )


async def test_windows_line_ends_are_told(tool: WriteTool) -> None:
    program = tool(script="#!/bin/sh\r\necho\r\n")
    assert (await unusable(program)).endswith("End its lines with LF, not CR LF.")


async def test_an_interpreter_that_may_not_be_executed_is_told(
    tool: WriteTool, tmp_path: Path
) -> None:
    (tmp_path / "interpreter").touch(mode=0o644)
    program = tool(script=f"#!{tmp_path}/interpreter\n")
    assert "may not be executed" in await unusable(program)


async def test_a_script_without_a_first_line_is_told(tool: WriteTool) -> None:
    program = tool(script="echo hello\n")
    assert await unusable(program) == (
        f"tool 't': {program.path} is neither a program for this machine nor a script. "
        "Begin a script with a line such as #!/bin/sh"
    )


async def test_a_program_that_is_gone_is_told(tool: WriteTool) -> None:
    program = tool()
    Path(program.path).unlink()
    assert "is gone" in await unusable(program)


async def test_a_program_that_lost_its_execute_bit_is_told(tool: WriteTool) -> None:
    program = tool(script="\x7fELF")
    Path(program.path).chmod(0o644)
    assert f"Run: chmod +x {program.path}" in await unusable(program)


async def test_a_program_that_is_still_being_written_is_waited_for(tool: WriteTool) -> None:
    program = tool(script="")
    Path(program.path).write_bytes(Path("/bin/true").read_bytes())
    writing = os.open(program.path, os.O_WRONLY)
    threading.Timer(0.015, os.close, (writing,)).start()
    assert await run(program) == {}


async def test_a_program_that_stays_open_for_writing_is_told(tool: WriteTool) -> None:
    program = tool(script="")
    Path(program.path).write_bytes(Path("/bin/true").read_bytes())
    with Path(program.path).open("ab"):
        assert "is being written to" in await unusable(program)


async def test_exhaustion_is_told_with_the_limit_to_change(
    tool: WriteTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tool()

    def exhausted() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe", exhausted)
        with pytest.raises(ToolUnusable) as caught:
            await run(program)
    assert "too many files open" in str(caught.value)
    assert "--max-tools" in str(caught.value)
    assert caught.value.of_the_machine


async def test_any_other_cause_is_told_in_the_words_of_the_system(
    tool: WriteTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    program = tool()
    monkeypatch.setattr(subprocess, "Popen", broken)
    assert "cannot be started: Input/output error" in await unusable(program)


# ---- the end: time-out, cancellation, and what is left behind


async def test_a_tool_that_runs_too_long_is_ended_and_told(tool: WriteTool) -> None:
    with pytest.raises(ToolTimedOut) as caught:
        await run(tool("echo half way >&2; exec sleep 600"), timeout=0.5)
    assert str(caught.value) == (
        "tool 't': timed out after 0.5 s: half way. "
        "Make it faster, or raise --tool-timeout."
    )
    assert caught.value.seconds == 0.5


STUBBORN = """
trap '' TERM
(trap '' TERM; sleep 600 & echo up > "$HEDDLE_WORKSPACE/../up"; sleep 600; sleep 600) &
sleep 600; sleep 600
"""


async def test_a_group_that_ignores_sigterm_is_gone_after_a_time_out(
    tool: WriteTool, tmp_path: Path
) -> None:
    with pytest.raises(ToolTimedOut):
        await run(tool(STUBBORN), timeout=1)
    assert processes_of(tmp_path / "tmp") == []
    (tmp_path / "tmp" / "up").unlink()


async def test_a_group_that_ignores_sigterm_is_gone_within_a_second_of_cancellation(
    tool: WriteTool, tmp_path: Path
) -> None:
    up = tmp_path / "tmp" / "up"
    started = 0.0
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, tool(STUBBORN))
            await trio.to_thread.run_sync(appears, up)
            started = time.monotonic()
            scope.cancel()
    assert time.monotonic() - started < 10
    assert processes_of(tmp_path / "tmp") == []
    up.unlink()


async def test_a_tool_may_clean_up_on_sigterm(tool: WriteTool, tmp_path: Path) -> None:
    shell = f"trap 'echo bye > {tmp_path}/bye; exit' TERM; sleep 600 & wait"
    with pytest.raises(ToolTimedOut):
        await run(tool(shell), timeout=1)
    assert (tmp_path / "bye").read_text() == "bye\n"


@pytest.mark.parametrize("held", ["", ">/dev/null 2>&1", "<&- >/dev/null 2>&1"])
async def test_what_a_tool_leaves_behind_neither_hangs_its_call_nor_lives_on(
    tool: WriteTool, held: str, tmp_path: Path
) -> None:
    shell = f"(trap '' TERM; sleep 600; sleep 600) {held} & echo '{{\"a\":1}}'"
    assert await run(tool(shell)) == {"a": 1}
    assert processes_of(tmp_path / "tmp") == []


async def test_an_answer_that_a_child_prints_just_after_its_parent_exited_counts(
    tool: WriteTool,
) -> None:
    assert await run(tool("(sleep 0.02; echo '{\"a\":1}') & exit 0")) == {"a": 1}


async def test_a_stopped_tool_is_ended(tool: WriteTool) -> None:
    with pytest.raises(ToolTimedOut):
        await run(tool("kill -STOP $$"), timeout=0.5)


async def test_cancellation_before_the_start_starts_nothing(tool: WriteTool) -> None:
    program = tool('touch "$HEDDLE_WORKSPACE/../started"')
    with trio.CancelScope() as scope:
        scope.cancel()
        await run(program)
    assert scope.cancelled_caught


@pytest.mark.parametrize("delay", [0, 0.001, 0.003, 0.01, 0.03, 0.1])
async def test_cancellation_at_any_point_leaves_nothing(
    tool: WriteTool, delay: float
) -> None:
    program = tool("cat > /dev/null; echo '{}'")
    for extra in range(5):
        with trio.move_on_after(delay + extra * 0.0007):
            await run(program, {"text": "x" * 300_000})


async def test_an_answer_that_was_there_in_time_counts_although_the_loop_was_late(
    tool: WriteTool, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    program = tool(f"sleep 0.1; echo > {started}; sleep 0.2; echo '{{\"a\":1}}'")
    async with trio.open_nursery() as nursery:

        async def block_the_loop() -> None:
            await trio.to_thread.run_sync(appears, started)
            time.sleep(1.5)  # noqa: ASYNC251  the loop is to be blocked

        nursery.start_soon(block_the_loop)
        assert await run(program, timeout=1) == {"a": 1}


@pytest.fixture
def first_process() -> Iterator[None]:
    """Be given orphans, as the first process of a container is."""
    prctl = ctypes.CDLL(None).prctl
    adopt_orphans = 36  # PR_SET_CHILD_SUBREAPER, see prctl(2)
    assert prctl(adopt_orphans, 1, 0, 0, 0) == 0
    yield
    assert prctl(adopt_orphans, 0, 0, 0, 0) == 0


@pytest.mark.usefixtures("first_process")
async def test_orphans_are_collected_where_heddle_is_the_first_process_of_a_container(
    tool: WriteTool,
) -> None:
    assert await run(tool("(sleep 600; :) & (sleep 600; :) & echo '{}'")) == {}
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # noqa: ASYNC222  it does not wait


@pytest.mark.usefixtures("first_process")
async def test_an_orphan_that_ends_just_before_it_is_looked_for_is_collected(
    tool: WriteTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = ProcessGroup.lives

    def ended_just_now(group: ProcessGroup) -> bool:
        group.signal(signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitid(os.P_PGID, group.number, os.WEXITED | os.WNOWAIT)
        return lives(group)

    monkeypatch.setattr(ProcessGroup, "lives", ended_just_now)
    assert await run(tool("sleep 600 & echo '{}'")) == {}
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # noqa: ASYNC222  it does not wait


async def test_without_an_exit_handle_a_thread_waits(
    tool: WriteTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert await run(tool("cat"), {"a": 1}) == {"a": 1}
    with pytest.raises(ToolTimedOut):
        await run(tool("sleep 600"), timeout=0.3)
    with pytest.raises(ToolFailed, match="status 3"):
        await run(tool("exit 3"))


async def test_many_at_once_leave_nothing(tool: WriteTool) -> None:
    program = tool("cat")
    answers: list[dict[str, Any]] = []

    async def one(number: int, workspace: Workspace) -> None:
        answers.append(
            await run_program(program, {"n": number}, workspace=workspace, timeout=60)
        )

    async with open_workspace() as workspace, trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(one, number, workspace)
    assert sorted(answer["n"] for answer in answers) == list(range(50))


async def test_a_tool_that_another_program_signals_to_itself_is_told_apart(
    tool: WriteTool,
) -> None:
    with pytest.raises(ToolFailed) as caught:
        await run(tool(script=PYTHON + "import os; os.abort()\n"))
    assert caught.value.signal == signal.Signals.SIGABRT.name


def test_json_that_is_printed_by_pythons_own_encoder_is_read(tool: WriteTool) -> None:
    given = {"ä": ["\U0001f600", 1e-7, -0.0, 2**53]}
    script = (
        PYTHON + "import json, sys; print(json.dumps(json.load(sys.stdin), indent=2))\n"
    )
    assert trio.run(run, tool(script=script), given) == json.loads(json.dumps(given))


# ---- what ends it when heddle is killed


async def test_the_guard_is_there_before_the_program_and_knows_it_until_its_end(
    tool: WriteTool, tmp_path: Path
) -> None:
    """A guard that came behind it would miss a kill of heddle in between."""
    begun = tmp_path / "begun"
    seen: list[tuple[str, bool]] = []

    class Watching(Guard):
        def prepare(self) -> None:
            super().prepare()
            time.sleep(0.2)  # a program that has been started would be seen
            seen.append(("prepare", begun.exists()))

        def begins(self, group: int) -> None:
            super().begins(group)
            seen.append((f"begins {group}", True))

        def ended(self, group: int) -> None:
            super().ended(group)
            seen.append((f"ended {group}", begun.exists()))

    guard = Watching()
    async with open_workspace() as workspace:
        program = tool(f"touch {begun}; echo $$ > {tmp_path}/group")
        await run_program(program, {}, workspace=workspace, timeout=60, guard=guard)
    guard.close()
    group = (tmp_path / "group").read_text().strip()
    assert seen == [("prepare", False), (f"begins {group}", True), (f"ended {group}", True)]
