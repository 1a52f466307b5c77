"""``heddle graph``: a picture of a flow, with who is asked where. Runs nothing."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from heddle.cli.exits import WrongUsage
from heddle.cli.options import debug_option
from heddle.cli.reading.flows import read_flow
from heddle.cli.whole_file import write_whole
from heddle.flags import (
    COUNT,
    GuessedChoice,
    components_option,
    flow_format_option,
    plugin_options,
)
from heddle.standard_streams import OutputFailed
from plugins_host import shortage

if TYPE_CHECKING:
    from heddle.engine.plan import Plan
    from heddle.installation import Installed
    from heddle.preview.sketch import Sketch

FORMATS: Final = ("text", "svg", "mermaid")

BY_EXTENSION: Final[Mapping[str, str]] = {
    ".svg": "svg",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
}
"""What a file is drawn as when nothing else was said; text otherwise."""


@click.command(
    "graph",
    short_help="Draw a flow, and where policies are asked.",
    epilog="""\b
Examples:
  heddle graph flow.json
  heddle graph flow.json -o flow.svg
  heddle graph flow.json --format mermaid
  heddle graph flow.json --plugin gate.json --plugin audit.json
""",
)
@click.argument("flow", type=click.Path())
@click.option(
    "--format",
    "picture",
    type=GuessedChoice(FORMATS),
    help="What to draw it as.  [default: by the extension of FILE, else text]",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Write the picture to this file instead of stdout.",
)
@click.option(
    "--width",
    metavar="N",
    type=COUNT,
    help="Columns that text may take.  [default: those of the terminal]",
)
@flow_format_option
@components_option()
@plugin_options
@debug_option
def command(
    flow: str,
    picture: str | None,
    output: str | None,
    width: int | None,
    flow_format: str | None,
    components: tuple[str, ...],
    plugins: tuple[str, ...],
    plugin_config: tuple[str, ...],
    plugin_env: tuple[str, ...],
) -> int:
    """Draw FLOW, an Agent Spec document in JSON or YAML, without running it.

    Each node has the policies that are asked there, of those that --plugin loads. Text
    that is too wide for the terminal is a list instead. The exit status is 1 when
    something is wrong with the flow, which is then told as `heddle validate` tells it.
    """
    from heddle import launch

    options = launch.RunOptions(
        plugins=plugins, plugin_config=plugin_config, plugin_env=plugin_env
    )
    read = read_flow(flow, options, flow_format, components)
    if read is None:
        return 1
    installed, prepared = read
    sketch = sketch_of(prepared.plan, installed)
    chosen = picture or BY_EXTENSION.get(Path(output or "").suffix.lower(), "text")
    encoding = "utf-8" if output else getattr(sys.stdout, "encoding", None)
    drawn = draw(sketch, chosen, encoding, width or shutil.get_terminal_size().columns)
    # Pages are UTF-8 whatever the locale; text is what the stream takes.
    data = drawn.encode("utf-8" if output or chosen != "text" else encoding or "ascii")
    if output is None:
        click.echo(data, nl=False)
        return 0
    try:
        write_whole(Path(output), data)
    except OSError as error:
        short = shortage(error)
        raise OutputFailed(
            f"cannot write it: {error.strerror or error}",
            where=output,
            fix=short.fix if short else "Check the path and its permissions.",
        ) from error
    return 0


def sketch_of(plan: "Plan", installed: "Installed") -> "Sketch":
    """The flow and its policies, ready to be drawn."""
    from heddle.preview.policies import models_called, policies_of
    from heddle.preview.seams import places
    from heddle.preview.sketch import sketch

    met = places(plan.graph, plan.graphs, lambda each: models_called(installed, each))
    return sketch(plan, met, policies_of(installed))


def draw(sketch: "Sketch", picture: str, encoding: str | None, width: int) -> str:
    """The picture as text of whatever kind, with a newline at its end."""
    match picture:
        case "svg":
            from heddle.cli.drawing.layers import TooManyBends
            from heddle.cli.drawing.svg import svg

            try:
                return svg(sketch)
            except TooManyBends as error:
                raise WrongUsage(
                    "the flow has too many lines over too many nodes to be drawn",
                    where="--format svg",
                    fix="Have it as text, which is a list then, or as mermaid.",
                ) from error
        case "mermaid":
            from heddle.cli.drawing.mermaid import mermaid

            return mermaid(sketch)
        case _:
            from heddle.cli.drawing.signs import signs_for
            from heddle.cli.drawing.text import text

            signs = signs_for(encoding, os.environ)
            return "\n".join(text(sketch, signs, width)) + "\n"
