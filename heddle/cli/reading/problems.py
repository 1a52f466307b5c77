"""What is wrong with a flow: looked for without running it, told to a program or a person.

    {"flow": "flow.json", "valid": false, "warnings": [],
     "problems": [{"path": "$.nodes[1]", "what": "…", "fix": "…"}]}    what `check` gives
    {…, "line": 12, "column": 23}                                      after `locate`

`tell_each` says the same in lines, each problem below the text that it is about.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from heddle.cli.exits import DocumentRefused
from heddle.cli.text.wording import fit
from heddle.cli.text.wrapping import width_of_stderr, wrapped
from plugins_host import Fault

if TYPE_CHECKING:
    from heddle.installation import Installed
    from heddle.spec import DocumentError, Formats, Supplied
    from heddle.spec.places import Places, Span

MOST_QUOTED: Final = 1 << 20
"""Bytes of a document whose lines are quoted: each problem is looked for from its start."""


def check(
    flow: str,
    tools_dir: str | None,
    installed: "Installed",
    format: str | None = None,  # noqa: A002  the word users know
    supplied: "Supplied | None" = None,
) -> dict[str, Any]:
    """What is to be said about one document, ready for JSON."""
    from heddle import preparing
    from heddle.spec import NOTHING_SUPPLIED, DocumentError

    report: dict[str, Any] = {"flow": flow, "valid": False, "problems": [], "warnings": []}
    try:
        prepared = preparing.load(
            flow,
            format=format,
            installed=installed,
            supplied=supplied or NOTHING_SUPPLIED,
        )
    except DocumentError as error:
        report["problems"] = [described(each) for each in error.problems]
        return report
    except preparing.UnreadableFile as error:
        report["problems"] = [{"path": "", "what": error.what, "fix": error.fix}]
        return report
    report["warnings"] = [described(each) for each in prepared.warnings]
    if tools_dir is not None:
        report["problems"] = tool_problems(prepared.plan.tools, tools_dir, installed)
    report["valid"] = not report["problems"]
    return report


def described(problem: Any) -> dict[str, str]:
    """One problem of a document as fields: ``file`` when it is in one of components,
    ``key`` when that is to be marked, and not what is at ``path``."""
    fields = {"path": problem.path, "what": problem.what, "fix": problem.fix}
    more = {"file": problem.file, "key": problem.key}
    return {**fields, **{name: value for name, value in more.items() if value}}


def tool_problems(
    used: Any, tools_dir: str, installed: "Installed"
) -> list[dict[str, str]]:
    """What stands against the tools that the nodes of a flow use.

    Plugins that find tools are not asked, for nothing is started: with one of them, a tool
    that is not there may be theirs.
    """
    from heddle.tools import Tools

    plugins = () if installed.plugins is None else installed.plugins.plugins
    theirs = {tool.name for plugin in plugins for tool in plugin.manifest.tools}
    found = any(plugin.manifest.discover_tools for plugin in plugins)
    try:
        tools = Tools.in_folder(Path(tools_dir))
        if theirs:
            from heddle.plugin_tools import refuse_taken

            refuse_taken(plugins, tools.names)
    except Fault as error:
        return [{"path": "", "what": f"{error.where}: {error.what}", "fix": error.fix}]
    return [
        {"path": f"node {node!r}", "what": f"{fault.where}: {fault.what}", "fix": fault.fix}
        for node, names in used.items()
        for fault in tools.problems(names)
        if fault.tool not in theirs and not (found and fault.tool not in tools.names)
    ]


class Texts:
    """The texts of a flow and of what was supplied to it, read when a line is looked for.

    Args:
        flow: The file of the flow.
        format: Its format, when it was said.
        formats: The formats there are.
    """

    def __init__(self, flow: str, format: str | None, formats: "Formats") -> None:  # noqa: A002
        self._flow = flow
        self._format = format
        self._formats = formats
        self._read: dict[str, Places | None] = {}

    def places(self, file: str = "") -> "Places | None":
        """Where things are in a file, or in the flow; None where that can't be told."""
        if file not in self._read:
            format_ = None if file else self._format
            self._read[file] = places_of(file or self._flow, format_, self._formats)
        return self._read[file]


def places_of(flow: str, format: str | None, formats: "Formats") -> "Places | None":  # noqa: A002
    """Where things are in a document; None where nobody would look, or can tell."""
    from heddle.spec.places import Places

    try:
        if not Path(flow).is_file() or Path(flow).stat().st_size > MOST_QUOTED:
            return None
        data = Path(flow).read_bytes()
        entry = formats.named(format) if format else formats.of(data, flow)
        if entry.name not in ("json", "yaml"):
            return None
        # A mark of the byte order is no part of the text that was read.
        return Places(data.decode("utf-8-sig"), entry.name)
    except (OSError, UnicodeDecodeError):
        return None


def locate(report: dict[str, Any], texts: Texts) -> None:
    """Put line and column, counted from 1, to what can be found in its text."""
    from heddle.spec.places import line_and_column

    for each in (*report["problems"], *report["warnings"]):
        places = texts.places(each.get("file", ""))
        span = None if places is None else spot(places, each)
        each.pop("key", None)
        if places is not None and span is not None:
            each["line"], each["column"] = line_and_column(places.text, span.start)


def tell(flow: str, report: dict[str, Any], texts: Texts) -> None:
    """The same for a person: problems and warnings on stderr, a verdict on stdout."""
    tell_each(flow, report, texts)
    if report["valid"]:
        count = len(report["warnings"])
        noted = f", {count} warning{'s' * (count != 1)}" if count else ""
        click.echo(f"{fit(flow)}: valid{noted}")


def tell_each(flow: str, report: dict[str, Any], texts: Texts) -> None:
    """Problems and warnings on stderr, and how many problems there are when there are."""
    for line in lines_of(flow, report, texts, width_of_stderr()):
        click.echo(line, err=True)


def lines_of(
    flow: str, report: dict[str, Any], texts: Texts, width: int | None
) -> Iterator[str]:
    """The same as lines of at most ``width`` columns: each problem with the line of the
    document that it is about."""
    from heddle.cli.reading.excerpts import excerpt
    from plugins_host import sentence

    for mark, group in (("x", "problems"), ("!", "warnings")):
        for each in report[group]:
            text = sentence(each["what"], where=each["path"], fix=each["fix"])
            file = each.get("file", "")
            yield from wrapped(f"{mark} {fit(file or flow)} {fit(text)}", width)
            places = texts.places(file)
            span = None if places is None else spot(places, each)
            if places is not None and span is not None:
                yield from excerpt(file or flow, places.text, span, width=width)
    if not report["valid"]:
        yield f"{fit(flow)}: {_counted(len(report['problems']))}"


def _counted(problems: int) -> str:
    return f"{problems} problem{'s' * (problems != 1)}"


def refusal(
    error: "DocumentError",
    flow: str,
    format: str | None,  # noqa: A002  the word users know
    formats: "Formats",
) -> DocumentRefused:
    """The error of a document as a person reads it; that of ``flow``, or of components.

    What of it is more than a screen is left to `heddle validate`.
    """
    from heddle.spec.problems import SHOWN_PROBLEMS

    told = [described(each) for each in error.problems[:SHOWN_PROBLEMS]]
    report: dict[str, Any] = {"valid": True, "problems": told, "warnings": []}
    texts = Texts(error.name, format if error.name == flow else None, formats)
    last = f"{fit(error.name)}: {_counted(len(error.problems))}"
    if len(error.problems) > len(told):
        last += ", of which `heddle validate` shows all"
    return DocumentRefused([*lines_of(error.name, report, texts, width_of_stderr()), last])


def spot(places: "Places", problem: dict[str, str]) -> "Span | None":
    """What a problem is about in the text; None where it says nothing about it."""
    key = problem.get("key")
    return places.find(key, key=True) if key else places.find(problem["path"])
