"""Pages whose commands are typed from the top, in an empty folder, as a newcomer does."""

import json
import re
import shlex
from pathlib import Path
from typing import Final

from tests.examples.readme import blocks, run
from tests.heddle.server.serving import Served, server

DOCS: Final = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def typed(block: str, folder: Path, temporary: Path) -> tuple[Path, list[str]]:
    """Run the commands of a block up to one that serves; where that is, and its flags."""
    for command in block.replace("\\\n", " ").splitlines():
        words = shlex.split(command)
        if words[0] == "cd":
            folder /= words[1]
        elif words[0] == "heddle-server":
            return folder, words[1:]
        else:
            run(command, folder, temporary)
    return folder, []


def shells(text: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


def answered(served: Served, command: str) -> dict[str, object]:
    """What a server says to a ``curl`` of a page."""
    words = shlex.split(command)
    url = next(each for each in words if each.startswith("localhost:4319"))
    body = words[words.index("-d") + 1]
    answer = served.ask("POST", url.removeprefix("localhost:4319"), body.encode())
    return {**json.loads(answer.body), "run": ""}


def test_the_page_about_policies_begins_with_one_that_runs(tmp_path: Path) -> None:
    text = page("plugins/middleware.md")
    folder, _ = typed(shells(text)[0], tmp_path, tmp_path)
    first = blocks(text)[0]
    assert run(first.command, folder, tmp_path) == first.printed


def test_the_page_about_the_server_begins_with_one_that_answers(tmp_path: Path) -> None:
    text = page("server.md")
    folder, flags = typed(shells(text)[0], tmp_path, tmp_path)
    first = blocks(text)[0]
    with server(folder, *flags) as served:
        assert answered(served, first.command) == {**json.loads(first.printed), "run": ""}


def test_the_page_about_the_client_begins_with_a_whole_program(tmp_path: Path) -> None:
    folder, flags = typed(shells(page("server.md"))[0], tmp_path, tmp_path)
    text = page("client.md")
    (program,) = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    first = blocks(text)[0]
    with server(folder, *flags) as served:
        code = program.replace("http://127.0.0.1:4319", served.address)
        (folder / "ask.py").write_text(code, encoding="utf-8")
        assert run(first.command, folder, tmp_path) == first.printed


def test_the_plugin_in_a_shell_refuses_what_its_page_says(tmp_path: Path) -> None:
    text = page("plugins/protocol.md")
    run("heddle init hello", tmp_path, tmp_path)
    folder = tmp_path / "hello"
    files = re.findall(r"`(word-gate[.\w]*)`[^\n]*\n```\w+\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in files] == ["word-gate.json", "word-gate"]
    for name, content in files:
        (folder / name).write_text(content, encoding="utf-8")
    assert "`chmod +x word-gate`" in text
    (folder / "word-gate").chmod(0o755)
    first = blocks(text)[0]
    assert run(first.command, folder, tmp_path) == first.printed


def test_the_example_of_a_format_runs_from_the_top_of_the_repository(
    tmp_path: Path,
) -> None:
    first = blocks(page("plugins/formats.md"))[0]
    assert run(first.command, DOCS.parent, tmp_path) == first.printed


def test_the_page_for_browsers_is_allowed_to_ask_the_server_that_it_starts(
    tmp_path: Path,
) -> None:
    text = page("browser.md")
    files, heddle = shells(text)
    port = re.search(r"http.server (\d+) --bind (\S+)", files)
    assert port is not None
    folder, flags = typed(heddle, tmp_path, tmp_path)
    origin = f"http://{port[2]}:{port[1]}"
    assert f"<{origin}/page.html>" in text
    flow = json.loads((folder / "hello" / "flow.json").read_text(encoding="utf-8"))
    with server(folder, *flags) as served:
        answer = served.ask(
            "POST", "/v1/runs", {"flow": flow, "inputs": {}}, headers={"Origin": origin}
        )
    assert answer.headers["access-control-allow-origin"] == origin
    assert answer.json["state"] == {"result": "The text has 9 words and 43 characters."}
