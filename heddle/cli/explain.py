"""``heddle explain``: who would be asked where, and with which settings. Runs nothing."""

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from heddle.cli.options import debug_option
from heddle.cli.reading.flows import read_flow
from heddle.cli.text.wording import fit_json
from heddle.flags import (
    COUNT,
    components_option,
    flow_format_option,
    limit_options,
    plugin_options,
)

if TYPE_CHECKING:
    from heddle.preview.explanation import Explanation


@click.command(
    "explain",
    short_help="Say who is asked where, and with which settings.",
    epilog="""\b
Examples:
  heddle explain flow.json --plugin gate.json --plugin audit.json
  heddle explain flow.json --plugin gate.json --plugin-config ApprovalGate=@gate.conf
  heddle explain flow.json --all
  heddle explain flow.json --plugin gate.json --json | jq '.places[].policies'
""",
)
@click.argument("flow", type=click.Path())
@click.option(
    "--all",
    "everywhere",
    is_flag=True,
    help="Also show the places where nobody is asked.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--width",
    metavar="N",
    type=COUNT,
    help="Columns that the page may take.  [default: those of the terminal]",
)
@flow_format_option
@components_option()
@plugin_options
@limit_options
@debug_option
def command(
    flow: str,
    width: int | None,
    flow_format: str | None,
    components: tuple[str, ...],
    plugins: tuple[str, ...],
    plugin_config: tuple[str, ...],
    plugin_env: tuple[str, ...],
    tool_timeout: float,
    timeout: float,
    max_iterations: int,
    max_node_attempts: int,
    plugin_timeout: float,
    *,
    everywhere: bool,
    as_json: bool,
) -> int:
    """Say what policies would do in a run of FLOW, an Agent Spec document in JSON or YAML.

    Each policy with its settings, each place where policies are asked in the order in
    which a run meets them, what is never asked and why, and the limits that apply. Nothing
    is started. Settings that hold secrets are named, not shown. The exit status is 1 when
    something is wrong with the flow, which is then told as `heddle validate` tells it.
    """
    from heddle import launch

    options = launch.RunOptions(
        plugins=plugins,
        plugin_config=plugin_config,
        plugin_env=plugin_env,
        tool_timeout=tool_timeout,
        timeout=timeout,
        max_iterations=max_iterations,
        max_node_attempts=max_node_attempts,
        plugin_timeout=plugin_timeout,
    )
    read = read_flow(flow, options, flow_format, components)
    if read is None:
        return 1
    installed, prepared = read
    from heddle.preview.explanation import explain
    from heddle.preview.limits import Bounds

    bounds = Bounds(options.limits, options.tool_timeout, options.plugin_timeout)
    told = explain(prepared.plan, installed, bounds, everywhere=everywhere)
    if as_json:
        import msgspec

        from heddle.cli.explained import as_data

        click.echo(fit_json(msgspec.json.encode(as_data(flow, told))))
    else:
        show(told, width or shutil.get_terminal_size().columns)
    return 0


def show(told: "Explanation", width: int) -> None:
    """Print the page, coloured where somebody sees it."""
    from heddle.cli.explained import page, plain

    lines = page(told, width)
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        click.echo(plain(lines), nl=False)
        return
    from rich.console import Console

    from heddle.cli.live.telling import as_text

    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for spans in lines:
        console.print(as_text(spans))
