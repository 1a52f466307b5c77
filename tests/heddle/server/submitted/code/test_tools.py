"""Tools that come with a request: run in a folder and an environment of their own, and
nothing of them is left."""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from heddle.server.settings import MAX_BODY
from heddle.server.submitted.code.reading import MAX_SOURCE, MAX_TOOLS
from tests.heddle.server.serving import STRAIGHT, Served, server, sse, write_tools
from tests.heddle.server.sockets.test_socket import connected
from tests.support.flows import end, flow, prop, start, tool

ONE = flow(
    [start(), tool("act", inputs=[prop("a", None)], outputs=[prop("out", None)]), end()],
    ["start", "act", "end"],
)
"""A flow that runs the tool "act" once."""

ECHO = {
    "sh": """printf '{"out":{"said":%s,"all":"%s"}}' "$(cat)" "$(env | tr '\\n' ' ')" """,
    "bash": """read -r given; printf '{"out":{"said":%s,"all":"%s"}}' \\
        "$given" "$(env | tr '\\n' ' ')" """,
    "python3": "import json, os, sys; print(json.dumps("
    "{'out': {'said': json.load(sys.stdin), 'all': ' '.join(os.environ)}}))",
    "node": "const said = JSON.parse(require('fs').readFileSync(0)); console.log(JSON."
    "stringify({out: {said, all: Object.keys(process.env).join(' ')}}))",
}
"""Programs that tell what they are given and which variables they find."""


def tool_of(source: str, interpreter: str = "sh", name: str = "act") -> dict[str, str]:
    return {"name": name, "interpreter": interpreter, "source": source}


def asking(source: str, interpreter: str = "sh", **more: Any) -> dict[str, Any]:
    return {"flow": ONE, "tools": [tool_of(source, interpreter)], **more}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("submitted")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    flows = folder / "flows"
    flows.mkdir()
    (flows / "one.json").write_text(json.dumps(ONE))
    with server(
        folder,
        *("--allow-request-code", "--flows-root", "flows"),
        *("--tools-dir", write_tools(folder), "--tool-timeout", "20000"),
        variables={"OPERATORS_SECRET": "sesame"},
    ) as found:
        yield found


@pytest.fixture
def code(folder: Path, served: Served) -> Iterator[Path]:
    """The server's folder for code, empty before and after."""
    [found] = (folder / "tmp").glob("heddle-runs-*")
    assert not list(found.iterdir())
    yield found
    served.until(lambda: not list(found.iterdir()))
    assert list((folder / "tmp").iterdir()) == [found]


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("interpreter", list(ECHO))
def test_a_tool_is_run_without_any_variable_of_the_server_s(
    served: Served, code: Path, interpreter: str
) -> None:
    body = asking(ECHO[interpreter], interpreter, inputs={"a": [1]})
    done = served.ask("POST", "/v1/runs", body)
    assert done.status == 200, done.body
    assert done.json["state"]["out"]["said"] == {"a": [1]}
    names = {word.partition("=")[0] for word in done.json["state"]["out"]["all"].split()}
    # What shells and Python set for themselves, and where the node works.
    assert names <= {"HEDDLE_WORKSPACE", "LC_CTYPE", "PWD", "SHLVL", "_"}


def test_a_flow_of_the_server_may_be_run_with_a_tool_of_the_caller_s(
    served: Served, code: Path
) -> None:
    body = {"flowPath": "one.json", "tools": [tool_of("echo '{\"out\":1}'")]}
    assert served.ask("POST", "/v1/runs", body).json["state"] == {"out": 1}
    # It is that run's alone.
    assert served.ask("POST", "/v1/runs", {"flowPath": "one.json"}).status == 400


def test_programs_are_found_and_the_server_s_own_tools_are_there(
    served: Served, code: Path
) -> None:
    two = flow(
        [start(), tool("act"), tool("wait"), end()],
        ["start", "act", "wait", "end"],
    )
    body = {"flow": two, "tools": [tool_of('ls / | head -1 >/dev/null && echo "{}"')]}
    assert served.ask("POST", "/v1/validate", body).json["valid"] is True
    assert served.ask("POST", "/v1/validate", {"flow": two}).status == 400


def test_runs_with_a_tool_of_one_name_each_have_their_own(
    served: Served, code: Path
) -> None:
    def ask(n: int) -> Any:
        body = asking(f"sleep 0.1; echo '{{\"out\":{n}}}'")
        return served.ask("POST", "/v1/runs", body).json["state"]["out"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(16))) == list(range(16))


def test_a_run_s_folder_is_its_user_s_alone_and_has_one_folder_a_tool(
    served: Served, code: Path
) -> None:
    look = (
        "import json, os, pathlib, stat\n"
        "run = pathlib.Path(__file__).parents[2]\n"
        "mode = lambda p: oct(stat.S_IMODE(p.stat().st_mode))\n"
        "print(json.dumps({'out': [mode(run), mode(run.parent), str(run.parent),\n"
        "  os.getcwd().startswith(str(run)), sorted(os.listdir(run / 'tools'))]}))"
    )
    body = {
        "flow": ONE,
        # A program that looks for a module finds none of the other's.
        "tools": [tool_of(look, "python3"), tool_of("x", name="json")],
    }
    done = served.ask("POST", "/v1/runs", body)
    private = "0o700"
    assert done.json["state"]["out"] == [private, private, str(code), True, ["act", "json"]]


IGNORING = """trap '' TERM INT HUP
setsid sleep 300 &
echo $$ $! > {mark}.new; mv {mark}.new {mark}
while :; do sleep 1; done
"""
LEAVING = """sleep 300 >/dev/null 2>&1 &
a=$!
setsid sh -c 'setsid sleep 300; :' >/dev/null 2>&1 &
echo $a $! > {mark}.new; mv {mark}.new {mark}
echo '{{"out":1}}'
"""


@pytest.mark.parametrize("how", ["cancel", "leave", "answer"])
def test_nothing_that_a_tool_started_outlives_its_run(
    served: Served, tmp_path: Path, code: Path, how: str
) -> None:
    mark = tmp_path / "mark"
    source = (LEAVING if how == "answer" else IGNORING).format(mark=mark)
    begun = time.monotonic()
    if how == "answer":
        assert served.ask("POST", "/v1/runs", asking(source)).status == 200
    elif how == "cancel":
        run = served.ask("POST", "/v1/runs?detach=true", asking(source)).json["run"]
        served.until(mark.exists)
        assert list(code.iterdir())
        assert served.ask("DELETE", f"/v1/runs/{run}").status == 202
    else:
        with served.opened("POST", "/v1/runs?stream=true", asking(source)):
            served.until(mark.exists)
    pids = [int(word) for word in mark.read_text().split()]
    served.until(lambda: not any(map(lives, pids)))
    served.until(lambda: not list(code.iterdir()))
    assert time.monotonic() - begun < 20


def test_a_tool_that_prints_without_end_is_ended(served: Served, code: Path) -> None:
    done = served.ask("POST", "/v1/runs", asking("yes xxxxxxxxxxxxxxxxxxxxxxxxx"))
    assert done.status == 500
    assert "over 16 MiB" in done.error[1]


def test_what_a_tool_complains_about_shows_no_folder(
    served: Served, folder: Path, code: Path
) -> None:
    done = served.ask("POST", "/v1/runs", asking("raise OSError('no')", "python3"))
    assert done.status == 500
    assert "OSError: no" in done.error[1]
    assert "main.py" in done.error[1]
    assert str(folder) not in done.body.decode()
    assert code.name not in done.body.decode()


def test_the_stream_and_the_socket_take_them_too(served: Served, code: Path) -> None:
    done = served.ask("POST", "/v1/runs?stream=true", asking("echo '{\"out\":3}'"))
    assert json.loads(sse(done.body)[-1]["data"])["state"] == {"out": 3}


async def test_a_run_frame_brings_its_tools(served: Served, code: Path) -> None:
    tools = [tool_of("echo '{\"out\":4}'")]
    async with connected(served) as client:
        await client.run(flow=ONE, tools=tools)
        [*_, told] = await client.until(type="end")
        assert told["state"] == {"out": 4}
        await client.say(type="run", ref="b", flow=ONE, tools=[{"name": "act"}])
        [*_, told] = await client.until(type="refused")
        assert (told["status"], told["error"]["type"]) == (400, "bad_request")


GOOD = tool_of("echo")


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ({}, "no array"),
        ("act", "no array"),
        ([1], "tools[0]: Expected `object`"),
        ([{"name": "act", "source": "x"}], "interpreter"),
        ([{**GOOD, "interpreter": "perl"}], "sh, bash, python3, node"),
        ([{**GOOD, "interpreter": 1}], "tools[0].interpreter"),
        ([{**GOOD, "environment": {"PATH": "/"}}], "environment"),
        ([{**GOOD, "name": "../act"}], "no name"),
        ([{**GOOD, "name": ""}], "no name"),
        ([{**GOOD, "name": "a.b"}], "no name"),
        ([{**GOOD, "name": "a\n"}], "no name"),
        ([{**GOOD, "name": "ä"}], "no name"),
        ([{**GOOD, "name": "x" * 65}], "no name"),
        ([GOOD, GOOD], "two of the name 'act'"),
        ([{**GOOD, "name": "wait"}], "a tool 'wait' of its own"),
        ([{**GOOD, "source": ""}], "is empty"),
        ([{**GOOD, "source": 3}], "tools[0].source"),
        ([{**GOOD, "source": "x" * (MAX_SOURCE + 1)}], "is the most"),
        ([{**GOOD, "name": f"t{n}"} for n in range(MAX_TOOLS + 1)], "is the most"),
        ([{**GOOD, "name": f"t{n}", "source": "x" * MAX_SOURCE} for n in range(5)], "all"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/validate"])
def test_a_malformed_tool_is_a_400(
    served: Served, code: Path, path: str, tools: Any, words: str
) -> None:
    done = served.ask("POST", path, {"flow": ONE, "tools": tools})
    assert done.status == 400
    assert words in done.error[1]


def test_a_body_has_eight_mebibytes_at_most(served: Served) -> None:
    whole = json.dumps({"flow": STRAIGHT, "inputs": {"a": ""}}).encode()
    filled = whole.replace(b'""', b'"%b"' % (b"x" * (MAX_BODY - len(whole))))
    assert len(filled) == MAX_BODY
    assert served.ask("POST", "/v1/runs", filled).status == 200
    assert served.ask("POST", "/v1/runs", filled + b" ").status == 413


@pytest.mark.parametrize("nothing", [[], None])
def test_no_code_is_no_code(served: Served, nothing: Any) -> None:
    body = {"flow": STRAIGHT, "tools": nothing, "plugins": nothing}
    assert served.ask("POST", "/v1/runs", body).status == 200


def test_capabilities_tell_what_may_be_brought(served: Served) -> None:
    shown = served.ask("GET", "/v1/capabilities").json
    assert shown["allowRequestCode"] is True
    assert set(shown["interpreters"]) == {"sh", "bash", "python3", "node"}
    assert shown["limits"]["maxSource"] == MAX_SOURCE


def test_what_a_killed_server_left_is_cleaned_up_by_the_next_one(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with server(tmp_path, "--allow-request-code") as served:
        body = asking(f"echo $$ > {mark}.new; mv {mark}.new {mark}; sleep 300; :")
        served.ask("POST", "/v1/runs?detach=true", body)
        served.until(mark.exists)
        [left] = (tmp_path / "tmp").glob("heddle-runs-*")
        # Another server beside it leaves alone what is in use.
        with server(tmp_path, "--allow-request-code") as other:
            assert list(left.iterdir())
            assert other.ask("GET", "/readyz").status == 200
            os.kill(served.process.pid, signal.SIGKILL)
            served.ended()
    assert list(left.iterdir())
    pid = int(mark.read_text())
    with server(tmp_path, "--allow-request-code") as served:
        assert not left.exists()
        served.until(lambda: not lives(pid))
        assert len(list((tmp_path / "tmp").glob("heddle-runs-*"))) == 1
    assert not list((tmp_path / "tmp").iterdir())
