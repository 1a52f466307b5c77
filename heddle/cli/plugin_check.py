"""``heddle plugin check``: a plugin is asked all that its manifest promises."""

from typing import TYPE_CHECKING

import click

from heddle.cli.options import debug_option, is_debugging
from heddle.cli.text.wording import fit, line
from heddle.flags import plugin_settings_options, plugin_timeout_option

if TYPE_CHECKING:
    from plugins_host import Finding


@click.command(
    "check",
    epilog="""\b
Examples:
  heddle plugin check policies.json
  heddle plugin check ./gate.py --plugin-config Gate='{"limit": 3}'
""",
)
@click.argument("plugin", metavar="FILE", type=click.Path())
@plugin_settings_options
@plugin_timeout_option(10_000)
@debug_option
def command(
    plugin: str,
    plugin_config: tuple[str, ...],
    plugin_env: tuple[str, ...],
    plugin_timeout: float,
) -> int:
    """Ask the plugin of FILE, a manifest or Python module, all that it promises.

    Each try is a line: ok, odd or fault. A fault comes with the frames that show it. The
    exit status is 0 when there is none and 1 otherwise.
    """
    from heddle.spec import COMPONENTS
    from plugins_host import load_plugins

    loaded = load_plugins(
        (plugin,), plugin_config, builtin_types=COMPONENTS, variables=plugin_env
    )
    for warning in loaded.warnings:
        click.echo(f"! {fit(warning)}", err=True)

    import trio

    from heddle.cli.reporting.logs import told_to
    from heddle.cli.session import Session
    from plugins_host import check_plugin

    async def check() -> bool:
        return await check_plugin(loaded, tell, patience=plugin_timeout)

    with told_to(lambda text: click.echo(text, err=True), tracebacks=is_debugging()):
        return 0 if trio.run(Session[bool]().execute, check) else 1


def tell(finding: "Finding") -> None:
    """Print one try."""
    click.echo(f"{finding.outcome.value:6}{line(finding.asked)}: {indented(finding.said)}")
    for frame in finding.frames:
        click.echo(f"        {line(frame, most=2000)}")


def indented(text: str) -> str:
    """Text of several lines, those after the first below it."""
    return fit(text).replace("\n", "\n        ")
