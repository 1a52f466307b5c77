"""What commands read that look at flows and run nothing: plugins, components, flows.

`heddle validate`, `heddle graph` and `heddle explain` read them alike.
"""

from typing import TYPE_CHECKING

import click

from heddle.cli.reading.inputs import check_format
from heddle.cli.reading.problems import Texts, check, tell_each
from heddle.cli.text.wording import fit

if TYPE_CHECKING:
    from heddle.installation import Installed
    from heddle.launch import RunOptions
    from heddle.preparing import Prepared
    from heddle.spec import Supplied


def read_plugins(
    options: "RunOptions",
    format: str | None,  # noqa: A002  the word users know
    components: tuple[str, ...],
) -> "tuple[Installed, Supplied]":
    """What flows are read with: plugins, whose warnings are told, and supplied components.

    Raises:
        Fault: Something of it can't be used, or there is no such format.
    """
    from heddle import launch, preparing

    installed = launch.install(options)
    check_format(format, installed.formats)
    for warning in installed.warnings:
        click.echo(f"! {fit(warning)}", err=True)
    return installed, preparing.supply(components, installed)


def read_flow(
    flow: str,
    options: "RunOptions",
    format: str | None,  # noqa: A002  the word users know
    components: tuple[str, ...],
) -> "tuple[Installed, Prepared] | None":
    """A flow with its plugins; None when something is wrong with it.

    That is told then, as warnings are in any case, in the words of ``heddle validate``.

    Raises:
        Fault: A plugin or a component can't be used, or there is no such format.
    """
    from heddle import preparing

    installed, supplied = read_plugins(options, format, components)
    report = check(flow, None, installed, format, supplied)
    tell_each(flow, report, Texts(flow, format, installed.formats))
    if not report["valid"]:
        return None
    return installed, preparing.load(
        flow, format=format, installed=installed, supplied=supplied
    )
