import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.heddle.cli.conftest import (
    COMMAND,
    Heddle,
    Script,
    WriteFlow,
    WriteTool,
    agent_node,
    document,
    surroundings,
    tool_node,
)


def test_the_result_is_the_only_thing_on_stdout(heddle: Heddle, flow: WriteFlow) -> None:
    done = heddle("run", flow(), "--input", '{"a": [1, "ä"]}')
    assert done.status == 0
    assert done.stdout == '{"a":[1,"ä"]}\n'
    assert done.stderr == "> start (StartNode)\n> end (EndNode)\n"


def test_input_comes_from_a_file_or_from_stdin(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path
) -> None:
    (tmp_path / "state.json").write_text('{"a": 1}')
    assert heddle("run", flow(), "--input", "@state.json").stdout == '{"a":1}\n'
    assert heddle("run", flow(), "--input", "-", stdin='{"b": 2}').stdout == '{"b":2}\n'


def test_a_flow_in_yaml_runs_the_same(heddle: Heddle, tmp_path: Path) -> None:
    # JSON is YAML, and the name decides what reads it.
    (tmp_path / "flow.yaml").write_text(json.dumps(document(), indent=1))
    assert heddle("run", "flow.yaml", "--input", '{"a": 1}').stdout == '{"a":1}\n'


def test_a_tool_of_the_folder_does_the_work(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool
) -> None:
    tool("double", """read x; printf '{"got":%s}' "$x" """)
    done = heddle(
        "run", flow(tool_node("double")), "--tools-dir", "tools", "--input", '{"n":2}'
    )
    assert json.loads(done.stdout) == {"n": 2, "got": {"n": 2}}


def test_an_agent_with_a_scripted_model_uses_a_tool(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool
) -> None:
    tool("look", """printf '{"seen":"a\\u001b[31m cat"}'""")
    script: Script = [{"tool_calls": [{"name": "look"}]}, {"content": "I see {{seen}}."}]
    done = heddle("run", flow(agent_node("ask", script, "look")), "--tools-dir", "tools")
    assert json.loads(done.stdout)["result"] == "I see a\x1b[31m cat."
    assert "> ask (AgentNode)\n  ask: look\n" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_quiet_leaves_errors_only(heddle: Heddle, flow: WriteFlow) -> None:
    assert heddle("run", flow(), "-q").stderr == ""
    done = heddle("run", flow(tool_node("t")), "-q")
    assert done.status == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_verbose_shows_what_goes_in_and_comes_out(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool
) -> None:
    tool("t", "echo '{\"out\":1}'")
    done = heddle(
        "run", flow(tool_node("t")), "--tools-dir", "tools", "-v", "--input", '{"in":1}'
    )
    assert '> t (ToolNode) {"in":1}\n' in done.stderr
    assert ' {"out":1}\n' in done.stderr


def test_a_warning_of_the_document_is_told_once(heddle: Heddle, flow: WriteFlow) -> None:
    done = heddle("run", flow(surprise=1), "--debug")
    assert done.status == 0
    assert done.stderr.count("surprise") == 1
    assert done.stderr.startswith("! flow.json $")


# ---- frames


def test_the_protocol_puts_every_event_on_stdout(heddle: Heddle, flow: WriteFlow) -> None:
    done = heddle("run", flow(), "--protocol", "heddle", "--input", '{"a": 1}')
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert [frame["type"] for frame in frames] == [
        "flow_start",
        "node_start",
        "node_complete",
        "node_start",
        "node_complete",
        "flow_complete",
    ]
    assert frames[-1]["state"] == {"a": 1}
    assert done.stderr == ""


def test_a_failed_run_ends_with_an_error_frame(heddle: Heddle, flow: WriteFlow) -> None:
    done = heddle("run", flow(agent_node("a", [])), "--protocol", "heddle")
    last = json.loads(done.stdout.splitlines()[-1])
    assert done.status == 1
    assert last["type"] == "error"
    assert last["error"]["name"] == "NodeFailed"
    assert done.stderr == f"Error: {last['error']['message']}\n"


@pytest.mark.parametrize(
    ("more", "name"), [([], "DocumentError"), (["--plugin", "gone.json"], "ManifestError")]
)
def test_a_run_that_cannot_begin_ends_in_the_error_frame_too(
    heddle: Heddle, tmp_path: Path, more: list[str], name: str
) -> None:
    (tmp_path / "bad.json").write_text("{}")
    done = heddle("run", "bad.json", "--protocol", "heddle", *more)
    frame = json.loads(done.stdout)
    assert (done.status, frame["type"], frame["error"]["name"]) == (1, "error", name)
    assert done.stderr == f"Error: {frame['error']['message']}\n"


def test_an_unknown_protocol_is_wrong_usage(heddle: Heddle, flow: WriteFlow) -> None:
    done = heddle("run", flow(), "--protocol", "hedle")
    assert done.status == 2
    assert done.stderr == (
        "Error: --protocol: there is no protocol 'hedle'. Did you mean 'heddle'?\n"
    )


def test_text_is_streamed_unless_that_is_not_wanted(
    heddle: Heddle, flow: WriteFlow
) -> None:
    name = flow(agent_node("ask", [{"content": "one two three"}]))
    arguments = ["run", name, "--protocol", "heddle"]

    def pieces(*more: str, **environment: str) -> int:
        done = heddle(*arguments, *more, environment=environment)
        assert done.status == 0
        return done.stdout.count('"token_delta"')

    assert pieces() == 3
    assert pieces(HEDDLE_STREAM="1") == 3
    assert pieces("--no-stream") == 0
    assert pieces(HEDDLE_STREAM="0") == 0


# ---- stdout that cannot be written


@pytest.mark.parametrize("more", [[], ["--protocol", "heddle"]])
def test_a_full_disk_is_told(flow: WriteFlow, tmp_path: Path, more: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "run", flow(), "-q", *more],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=surroundings(tmp_path),
            check=False,
        )
    assert done.stderr.decode() == "Error: stdout: cannot write: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("more", [[], ["--protocol", "heddle"]])
def test_a_reader_that_is_gone_is_told(
    flow: WriteFlow, tmp_path: Path, more: list[str]
) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, "run", flow(), "-q", *more],
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        check=False,
    )
    os.close(write)
    assert done.stderr.decode() == "Error: stdout: cannot write: Broken pipe\n"
    assert done.returncode == 1


def test_a_reader_that_leaves_ends_a_run_that_is_read_as_frames(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("quick", "echo '{}'")
    tool("slow", "sleep 600")
    name = flow(tool_node("quick"), tool_node("slow"))
    arguments = ["run", name, "--tools-dir", "tools", "--protocol", "heddle"]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=surroundings(tmp_path),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"flow_start" in process.stdout.readline()
        process.stdout.close()
        # Whether a frame is written after that is a matter of time; the next one is.
        told = process.stderr.read().decode() if _ends(process) else ""
        if told:
            assert told == "Error: stdout: cannot write: Broken pipe\n"
            assert process.returncode == 1


def _ends(process: "subprocess.Popen[bytes]") -> bool:
    """Whether it ends by itself; ended otherwise."""
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait(30)
        return False
    return True


def test_a_stderr_that_cannot_be_written_does_not_matter(
    flow: WriteFlow, tmp_path: Path
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "run", flow(surprise=1), "-v"],
            stdout=subprocess.PIPE,
            stderr=full,
            cwd=tmp_path,
            env=surroundings(tmp_path),
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, b"{}\n")


@pytest.mark.parametrize("files", [6, 8])
def test_a_limit_that_is_too_low_is_told_as_that(
    flow: WriteFlow, tmp_path: Path, files: int
) -> None:
    command = " ".join([f"ulimit -n {files};", *COMMAND, "run", flow()])
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        capture_output=True,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        check=False,
    )
    assert done.returncode == 1
    told = done.stderr.decode()
    assert "this process may have no more files open. Raise the limit (ulimit -n" in told
    assert "bug" not in told


def test_an_agent_does_not_answer_without_a_tool_that_cannot_be_started(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "echo '{}'")
    asks = {"name": "t"}
    script = [{"tool_calls": [asks]}, {"content": "all is well"}]
    name = flow(agent_node("ask", script, "t"))
    shell = f"ulimit -n 12; {' '.join(COMMAND)} run {name} --tools-dir tools -q"
    done = subprocess.run(
        ["/bin/sh", "-c", shell],
        capture_output=True,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"has too many files open to start a program. Lower --max-tools" in done.stderr


def test_a_frame_tells_a_lack_of_the_machine_as_stderr_does(
    flow: WriteFlow, tmp_path: Path
) -> None:
    shell = f"ulimit -n 8; {' '.join(COMMAND)} run {flow()} --protocol heddle"
    done = subprocess.run(
        ["/bin/sh", "-c", shell],
        capture_output=True,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        check=False,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["type"], told["error"]["name"]) == ("error", "Shortage")
    assert done.stderr.decode() == f"Error: {told['error']['message']}\n"


@pytest.mark.parametrize("closed", [">&-", "1</dev/null"])
@pytest.mark.parametrize(
    "arguments", ["explain {}", "graph {}", "validate {}", "completion bash", "--version"]
)
def test_what_goes_to_a_closed_stdout_is_no_success(
    flow: WriteFlow, tmp_path: Path, arguments: str, closed: str
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", " ".join([*COMMAND, arguments.format(flow()), closed])],
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (
        1,
        "Error: stdout: it is closed. Leave it open, or lead it to a file or to "
        "/dev/null.\n",
    )


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_closed_descriptors_do_not_matter_where_they_are_not_needed(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path, closed: str
) -> None:
    tool("t", "echo '{\"done\":1}'")
    command = " ".join([*COMMAND, "run", flow(tool_node("t")), "--tools-dir tools", closed])
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b'{"done":1}\n')


def test_a_closed_stdout_is_told_before_anything_runs(
    flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", f"touch {tmp_path}/ran")
    command = " ".join([*COMMAND, "run", flow(tool_node("t")), "--tools-dir tools >&-"])
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=surroundings(tmp_path),
        check=False,
    )
    assert done.returncode == 2
    assert (
        done.stderr.decode() == "Error: stdout: it is closed, and the result goes there\n"
    )
    assert not (tmp_path / "ran").exists()


# ---- wrong usage


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing argument 'FLOW'"),
        (["flow.json", "extra"], "unexpected extra argument"),
        (["flow.json", "--max-iterations", "0"], "0 is not in the range x>=1"),
        (["flow.json", "--max-iterations", "x"], "'x' is not a valid whole number"),
        (["flow.json", "--plugin-env", "A=1"], "'A=1' is not the name of a variable"),
        (["flow.json", "--plugin-env", ""], "'' is not the name of a variable"),
        (["flow.json", "--timeout", "0"], "'0' is not a number of milliseconds above 0"),
        (["flow.json", "--timeout", "-1"], "'-1' is not a number of milliseconds"),
        (["flow.json", "--timeout", "nan"], "'nan' is not a number of milliseconds"),
        (["flow.json", "--timeout", "inf"], "'inf' is not a number of milliseconds"),
        (["flow.json", "--timeout", "soon"], "'soon' is not a number of milliseconds"),
        (["flow.json", "--tool-dir", "x"], "--tools-dir"),
        (["flow.json", "--input", "[]"], "--input: this is an array"),
        (["flow.json", "--input", "@nothing"], "--input @nothing: cannot read it"),
    ],
)
def test_wrong_usage_is_status_2(
    heddle: Heddle, flow: WriteFlow, arguments: list[str], says: str
) -> None:
    flow()
    done = heddle("run", *arguments)
    assert done.status == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_an_unknown_command_gets_a_guess(heddle: Heddle) -> None:
    assert "Did you mean 'run'?" in heddle("rnu").stderr
    done = heddle("walk")
    assert done.status == 2
    assert done.stderr.endswith(
        "Choose from: run, validate, graph, explain, init, plugin, completion.\n"
    )
    assert "Did you mean 'validate'?" in heddle("valdate").stderr


# ---- what is wrong on the disk, or in the run


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("f.json", None, "Error: f.json: cannot read it: No such file or directory"),
        ("f.json", b"", "this document is empty"),
        ("f.json", b'{"a":\n1,}', "f.json line 2, column"),
        ("f.yaml", b"a:\n  - b\n c: [", "f.yaml line "),
        ("f.json", b"[1]", "this holds a list"),
        ("f.json", b'{"a": "\xff"}', "is not UTF-8"),
        ("f.json", b'{"component_type": "Flo"}', "Did you mean 'Flow'"),
        ("f.json", b"[" * 10_000 + b"]" * 10_000, "nested more than"),
        ("f.json", b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "nested more than"),
        ("f.yaml", b"[" * 10_000 + b"]" * 10_000, "nested more than"),
    ],
)
def test_a_document_that_cannot_be_used_is_status_1(
    heddle: Heddle, tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = heddle("run", name)
    assert done.status == 1
    assert says in done.stderr
    assert done.stdout == ""


def test_a_folder_is_no_flow(heddle: Heddle, tmp_path: Path) -> None:
    assert "Error: tmp: cannot read it: Is a directory" in heddle("run", "tmp").stderr


def test_a_document_of_50_megabytes_is_refused_quickly(
    heddle: Heddle, tmp_path: Path
) -> None:
    with (tmp_path / "big.json").open("wb") as file:
        file.write(b'{"a": "' + b"x" * 50 * 2**20 + b'"}')
    done = heddle("run", "big.json")
    assert done.status == 1
    assert "MiB" in done.stderr


def test_yaml_aliases_that_explode_are_refused(heddle: Heddle, tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "bomb.yaml").write_text("\n".join(rows))
    done = heddle("run", "bomb.yaml")
    assert done.status == 1
    assert "aliases expand to more than" in done.stderr


def test_a_flow_of_10_000_nodes_is_read_and_stopped_by_its_limit(
    heddle: Heddle, flow: WriteFlow
) -> None:
    many = [tool_node(f"n{n}", "t") for n in range(10_000)]
    done = heddle("run", flow(*many), "-q")
    assert done.status == 1
    assert len(done.stderr) < 20_000


def test_what_is_wrong_with_a_document_is_told_with_its_lines(
    heddle: Heddle, tmp_path: Path
) -> None:
    (tmp_path / "bad.json").write_text('{\n  "a": None\n}')
    done = heddle("run", "bad.json")
    assert done == (1, "", heddle("validate", "bad.json").stderr)
    assert done.stderr == (
        "x bad.json line 2, column 8: malformed JSON: expecting value. Write null, which "
        "JSON has in place of None.\n"
        "   --> bad.json:2:8\n"
        '  2 |   "a": None\n'
        "    |        ^^^^\n"
        "bad.json: 1 problem\n"
    )


def test_so_is_what_is_wrong_with_a_file_of_components(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path
) -> None:
    (tmp_path / "more.json").write_text('{"$referenced_component": {}}')
    done = heddle("run", flow(), "--components", "more.json")
    assert done.status == 1
    assert '  1 | {"$referenced_component": {}}\n' in done.stderr


def test_a_screen_of_problems_is_told_and_where_the_others_are(
    heddle: Heddle, flow: WriteFlow
) -> None:
    done = heddle("run", flow(*(tool_node(f"n{n}", "t") for n in range(31))))
    assert done.stderr.count("\n  -") + done.stderr.count("\n   -") == 20
    assert done.stderr.endswith(
        "flow.json: 30 problems, of which `heddle validate` shows all\n"
    )


def test_a_misspelt_input_is_not_ignored_without_a_word(
    heddle: Heddle, flow: WriteFlow
) -> None:
    given = [{"title": "text", "type": "string", "default": "x"}]
    name = flow(inputs=given)
    done = heddle("run", name, "--input", '{"txt": "y", "other": 1}')
    assert done.status == 0
    assert done.stderr.startswith(
        "! --input: the flow has no input 'txt', and 'text' is left at its default. Did "
        "you mean 'text'?\n"
    )
    assert "'other'" not in done.stderr
    assert "!" not in heddle("run", name, "--input", '{"text": "y"}').stderr


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("flwo.json", "Did you mean 'flow.json'?"),
        ("flow.jsn", "Did you mean 'flow.json'?"),
        ("nope.json", "In that folder are: flow.json, other.yaml."),
        ("flow", "Did you mean 'flow.json'?"),
        ("./flwo.json", "Did you mean './flow.json'?"),
        ("no/flow.json", "There is no folder 'no'."),
        ("empty/flow.json", "Check the path and its permissions."),
    ],
)
def test_a_flow_that_is_not_there_is_looked_for_in_its_folder(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path, named: str, says: str
) -> None:
    flow()
    (tmp_path / "other.yaml").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    done = heddle("run", named)
    assert done.status == 1
    assert done.stderr.endswith(f"No such file or directory. {says}\n")


def test_so_is_a_plugin_and_a_file_of_input(heddle: Heddle, flow: WriteFlow) -> None:
    name = flow()
    plugin = heddle("run", name, "--plugin", "flw.json")
    given = heddle("run", name, "--input", "@flw.json")
    assert "Did you mean 'flow.json'?" in plugin.stderr
    assert "Did you mean 'flow.json'?" in given.stderr


def test_a_flow_and_a_manifest_that_were_mixed_up_are_told_apart(
    heddle: Heddle, flow: WriteFlow
) -> None:
    name = flow()
    heddle("plugin", "new", "gate")
    as_plugin = heddle("run", name, "--plugin", name)
    assert (
        "this is a document of Agent Spec, and no manifest of a plugin" in as_plugin.stderr
    )
    as_flow = heddle("run", "gate/gate.json")
    assert as_flow.status == 1
    assert (
        "this is the manifest of a plugin, and no document of Agent Spec. Give it with "
        "--plugin, and the document where the flow belongs.\n"
    ) in as_flow.stderr


def test_input_that_is_no_json_is_quoted(heddle: Heddle, flow: WriteFlow) -> None:
    done = heddle("run", flow(), "--input", '{"text": True}')
    assert done.status == 2
    assert done.stderr == (
        "Error: --input: this is not JSON: line 1, column 10: expecting value. Write true, "
        "which JSON has in place of True.\n"
        "   --> --input:1:10\n"
        '  1 | {"text": True}\n'
        "    |          ^^^^\n"
    )


def test_two_starts_and_no_end_are_refused(heddle: Heddle, flow: WriteFlow) -> None:
    second = {"component_type": "StartNode", "id": "second", "name": "second"}
    done = heddle("run", flow(second))
    assert done.status == 1
    assert "'second'" in done.stderr
    no_end = document()
    no_end["nodes"].pop()
    no_end["control_flow_connections"] = []
    done = heddle("run", flow(**no_end))
    assert done.status == 1
    assert "EndNode" in done.stderr


def test_every_problem_of_a_document_is_told_at_once(
    heddle: Heddle, flow: WriteFlow
) -> None:
    done = heddle(
        "run", flow(name="flow.json", nodes=[], start_node={"$component_ref": "no"})
    )
    assert done.status == 1
    assert "problems" in done.stderr


def test_a_missing_tools_folder_is_told(heddle: Heddle, flow: WriteFlow) -> None:
    done = heddle("run", flow(tool_node("t")), "--tools-dir", "absent")
    assert done.status == 1
    assert "absent: the tools folder does not exist. Make it, or correct" in done.stderr


def test_unknown_and_unusable_tools_are_told_before_anything_runs(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("search", "touch ran")
    (tmp_path / "tools" / "locked").touch(mode=0o644)
    name = flow(tool_node("search"), tool_node("serch"), tool_node("locked"))
    done = heddle("run", name, "--tools-dir", "tools")
    assert done.status == 1
    assert "Did you mean 'search'?" in done.stderr
    assert "chmod +x" in done.stderr
    assert "> " not in done.stderr


def test_a_tool_that_fails_ends_the_run_with_what_it_said(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "printf 'no \\033[31msuch city' >&2; exit 3")
    done = heddle("run", flow(tool_node("t")), "--tools-dir", "tools")
    assert done.status == 1
    assert done.stderr == (
        "> start (StartNode)\n> t (ToolNode)\nError: node 't' (ToolNode): "
        "tool 't': exited with status 3: no \\x1b[31msuch city\n"
    )
    assert done.stdout == ""
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_tool_that_is_too_slow_ends_the_run(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool
) -> None:
    tool("t", "sleep 600")
    name = flow(tool_node("t"))
    done = heddle("run", name, "--tools-dir", "tools", "--tool-timeout", "200")
    assert done.status == 1
    assert "timed out after 0.2 s" in done.stderr


def test_a_run_that_is_too_slow_is_ended(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("t", "sleep 600")
    name = flow(tool_node("t"))
    done = heddle("run", name, "--tools-dir", "tools", "--timeout", "700")
    assert done.status == 1
    assert "took longer than 0.7 s" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_traceback_is_shown_only_with_debug(heddle: Heddle, flow: WriteFlow) -> None:
    name = flow(tool_node("t"))
    assert "Traceback" not in heddle("run", name).stderr
    assert "Traceback" in heddle("run", name, "--debug").stderr
    assert "Traceback" in heddle("run", "--debug", name).stderr


# ---- help


def test_help_has_examples_and_goes_to_stdout(heddle: Heddle) -> None:
    for arguments in (["--help"], ["run", "--help"], ["validate", "-h"], ["init", "-h"]):
        done = heddle(*arguments)
        assert done.status == 0
        assert "Example" in done.stdout
        assert done.stderr == ""


def test_help_names_every_option_of_run(heddle: Heddle) -> None:
    said = heddle("run", "--help").stdout
    for option in (
        "--input",
        "--tools-dir",
        "--plugin ",
        "--plugin-config",
        "--max-iterations",
        "--max-node-attempts",
        "--timeout",
        "--tool-timeout",
        "--plugin-timeout",
        "--max-tools",
        "--no-stream",
        "--protocol",
        "--interactive",
        "--verbose",
        "--quiet",
        "--debug",
    ):
        assert option in said


def test_the_version_is_told(heddle: Heddle) -> None:
    from heddle import __version__

    assert heddle("--version").stdout == f"heddle {__version__}\n"


def test_help_onto_a_full_disk_is_told(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=surroundings(tmp_path),
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.decode() == "Error: stdout: cannot write: No space left on device\n"
