"""``heddle validate``: everything that is wrong with a flow, at once. Runs nothing."""

import click

from heddle.cli.options import debug_option
from heddle.cli.reading.flows import read_plugins
from heddle.cli.reading.problems import Texts, check, locate, tell
from heddle.cli.text.wording import fit_json
from heddle.flags import components_option, format_option, plugin_options


@click.command(
    "validate",
    short_help="Say everything that is wrong with a flow.",
    epilog="""\b
Examples:
  heddle validate flow.json
  heddle validate flows/*.yaml
  heddle validate flow.json --tools-dir tools
  heddle validate flow.json --json | jq '.problems[].path'
""",
)
@click.argument("flows", metavar="FLOW...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--tools-dir",
    metavar="DIR",
    type=click.Path(),
    help="Also check that the tools the flow names are there and can be run.",
)
@format_option
@components_option()
@plugin_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object for each flow."
)
@debug_option
def command(
    flows: tuple[str, ...],
    tools_dir: str | None,
    format_: str | None,
    components: tuple[str, ...],
    plugins: tuple[str, ...],
    plugin_config: tuple[str, ...],
    plugin_env: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    """Check FLOW, an Agent Spec document in JSON or YAML, without running it.

    Needs no credential and starts nothing. The exit status is 0 when nothing is wrong
    and 1 otherwise; warnings are not wrong.
    """
    from heddle import launch

    options = launch.RunOptions(
        plugins=plugins, plugin_config=plugin_config, plugin_env=plugin_env
    )
    installed, supplied = read_plugins(options, format_, components)
    status = 0
    for flow in flows:
        report = check(flow, tools_dir, installed, format_, supplied)
        status = status if report["valid"] else 1
        texts = Texts(flow, format_, installed.formats)
        if as_json:
            import msgspec

            locate(report, texts)
            click.echo(fit_json(msgspec.json.encode(report)))
        else:
            tell(flow, report, texts)
    return status
