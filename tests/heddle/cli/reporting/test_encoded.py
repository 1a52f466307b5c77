"""``--protocol`` of an encoder: frames on stdout, and what happens when it fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.heddle.cli.conftest import Heddle, WriteFlow, WriteTool, tool_node

MODULE = """
manifest = {{"name": "lines", "version": "1", "components": [
    {{"componentType": "Lines", "kind": "encoder", "protocol": "lines",
     "contentType": "text/plain"}}]}}

def encode(event, ctx):
    kind = event["type"]
    if kind == {fails!r}:
        raise ValueError("cannot")
    if kind == "error" and {deaf!r}:
        return []
    return [{{"event": kind, "data": event.get("error", {{"run": bool(ctx.run_id)}})}}]

def finish(ctx):
    print("finished")
    return [{{"data": "the end"}}]

handlers = {{"Lines": {{"encode": encode, "finish": finish}}}}

if __name__ == "__main__":
    from heddle.plugin import serve
    serve(handlers)
"""


def encoder(folder: Path, *, fails: str = "", deaf: bool = False) -> str:
    (folder / "lines.py").write_text(MODULE.format(fails=fails, deaf=deaf))
    return "lines.py"


def shown(stdout: str) -> list[Any]:
    return [json.loads(line) for line in stdout.splitlines()]


def test_the_frames_of_an_encoder_are_lines_on_stdout(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path
) -> None:
    done = heddle("run", flow(), "--plugin", encoder(tmp_path), "--protocol", "lines")

    assert done.status == 0, done.stderr
    frames = shown(done.stdout)
    assert frames[0] == {"event": "flow_start", "data": {"run": True}}
    assert frames[-2] == {"event": "flow_complete", "data": {"run": True}}
    assert frames[-1] == {"data": "the end"}


def test_a_failed_run_is_shown_to_the_encoder(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("bad", "exit 3")
    flags = ("--tools-dir", "tools", "--plugin", encoder(tmp_path), "--protocol", "lines")
    done = heddle("run", flow(tool_node("bad")), *flags)

    assert done.status == 1
    *_, error, last = shown(done.stdout)
    assert error["event"] == "error"
    assert set(error["data"]) == {"name", "message"}
    assert last == {"data": "the end"}


def test_one_that_makes_nothing_of_a_failure_has_it_told_for_it(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool, tmp_path: Path
) -> None:
    tool("bad", "exit 3")
    plugin = encoder(tmp_path, deaf=True).replace(".py", "")
    source = (tmp_path / "lines.py").read_text().replace('[{"data": "the end"}]', "[]")
    (tmp_path / "lines.py").write_text(source)
    flags = ("--tools-dir", "tools", "--plugin", f"{plugin}.py", "--protocol", "lines")
    done = heddle("run", flow(tool_node("bad")), *flags)

    (last,) = [each for each in shown(done.stdout) if each["event"] == "error"]
    assert last["data"]["type"] == "error"
    assert last["data"]["error"]["name"] == "NodeFailed"


@pytest.mark.parametrize("fails", ["flow_start", "node_start", "flow_complete"])
def test_an_encoder_that_fails_ends_the_stream_and_not_the_run(
    heddle: Heddle, flow: WriteFlow, tool: WriteTool, tmp_path: Path, fails: str
) -> None:
    tool("mark", f"echo ran > {tmp_path}/mark; echo '{{}}'")
    flags = ("--tools-dir", "tools", "--protocol", "lines")
    plugin = encoder(tmp_path, fails=fails)
    done = heddle("run", flow(tool_node("mark")), "--plugin", plugin, *flags)

    assert (tmp_path / "mark").exists()
    assert done.status == 1
    last = shown(done.stdout)[-1]
    assert last["event"] == "error"
    assert last["data"]["error"]["name"] == "EncoderFailed"
    assert "cannot" in last["data"]["error"]["message"]
    assert "encoder 'lines' (plugin 'lines'): it failed with ValueError" in done.stderr
    assert done.stderr.count("finished") == 1


def test_an_unknown_protocol_is_wrong_usage_that_lists_the_known_ones(
    heddle: Heddle, flow: WriteFlow, tmp_path: Path
) -> None:
    name = flow()
    none = heddle("run", name, "--protocol", "soap")
    near = heddle("run", name, "--plugin", encoder(tmp_path), "--protocol", "line")

    assert (none.status, none.stdout) == (2, "")
    assert "there is no protocol 'soap'" in none.stderr
    assert "heddle" in none.stderr
    assert near.status == 2
    assert "Did you mean 'lines'?" in near.stderr


def test_a_reader_of_stdout_that_leaves_ends_the_run(tmp_path: Path) -> None:
    import subprocess
    import sys

    from tests.heddle.cli.conftest import document, surroundings

    (tmp_path / "flow.json").write_text(json.dumps(document()))
    command = f"{sys.executable} -m heddle run flow.json --protocol lines --plugin "
    done = subprocess.run(
        ["sh", "-c", f"{command}{encoder(tmp_path)} | head -n 1"],
        cwd=tmp_path,
        env=surroundings(tmp_path),
        capture_output=True,
        timeout=100,
        check=False,
    )

    assert done.stdout.count(b"\n") == 1
    assert b"Traceback" not in done.stderr


async def test_an_encoder_that_is_too_far_behind_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import trio

    from heddle.cli.reporting import encoded
    from heddle.events import TokenDelta
    from plugins_host import Encoder, HandlerTable, InProcessPlugin

    async def encode(event: Any, ctx: Any) -> list[Any]:
        return [{"data": event["type"]}]

    table = HandlerTable({"E": {"encode": encode}})
    plugin = InProcessPlugin("p", table, capabilities=frozenset(), log=lambda _: None)
    monkeypatch.setattr(encoded, "FRAMES_WAITING", 1000)
    with (tmp_path / "out").open("wb") as out:
        reader = encoded.Encoded(lambda _: None, out.fileno())

        async def run() -> str:
            for _ in range(100):
                reader.see(TokenDelta("n", "x"))
            await trio.lowlevel.checkpoint()
            return "done"

        with pytest.raises(encoded.EncoderBehind, match="of events wait for it"):
            await reader.run(Encoder("e", "a/b", "E", plugin), run)

    last = shown((tmp_path / "out").read_text())[-1]
    assert last["data"]["error"]["name"] == "EncoderBehind"
