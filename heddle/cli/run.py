"""``heddle run``: a flow from start to end, its result on stdout.

stdout carries the result, or the frames of ``--protocol``, and nothing else.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from heddle.cli.exits import WrongUsage, output_failed
from heddle.cli.inputs import read_input
from heddle.cli.options import (
    COUNT,
    MILLISECONDS,
    debug_option,
    is_debugging,
    plugin_options,
    plugin_timeout_option,
)
from heddle.cli.own_stdout import own_stdout
from heddle.cli.wording import fit_json
from plugins_host import Fault, one_of

if TYPE_CHECKING:
    from heddle.cli.readers import Reader
    from heddle.launch import RunOptions

# The protocols of `heddle.cli.frames`, named here so that help need not load it.
PROTOCOLS: Final = ("heddle",)


@click.command(
    "run",
    short_help="Run a flow and print its result as JSON.",
    epilog="""\b
Examples:
  heddle run flow.json
  heddle run flow.json --input '{"question": "why?"}' --tools-dir tools
  heddle run flow.json --input @state.json | jq .result
  echo '{"n": 3}' | heddle run flow.json --input -
  heddle run flow.json --protocol heddle | jq -c 'select(.type == "warning")'
  heddle run flow.json --plugin policies.json --plugin-config Gate='{"limit": 3}'
""",
)
@click.argument("flow", type=click.Path())
@click.option(
    "--input",
    "input_",
    metavar="JSON|@FILE|-",
    help="The starting state, a JSON object; - reads it from stdin.",
)
@click.option(
    "--tools-dir",
    metavar="DIR",
    type=click.Path(),
    help="Folder of tool executables; a tool is named as its file without extension.",
)
@click.option(
    "--max-tools",
    metavar="N",
    type=COUNT,
    help="Tools that run at a time.  [default: 4 for each core]",
)
@click.option(
    "--tool-timeout",
    metavar="MS",
    type=MILLISECONDS,
    default=30_000,
    show_default=True,
    help="Time for one execution of a tool.",
)
@click.option(
    "--timeout",
    metavar="MS",
    type=MILLISECONDS,
    default=300_000,
    show_default=True,
    help="Time for the whole run.",
)
@click.option(
    "--max-iterations",
    metavar="N",
    type=COUNT,
    default=50,
    show_default=True,
    help="Node executions in a run.",
)
@click.option(
    "--max-node-attempts",
    metavar="N",
    type=COUNT,
    default=3,
    show_default=True,
    help="Attempts at a node each time the run arrives there.",
)
@plugin_options
@plugin_timeout_option(30_000)
@click.option(
    "--no-stream",
    is_flag=True,
    help="Ask models for whole answers.  [also: HEDDLE_STREAM=0]",
)
@click.option(
    "--protocol",
    metavar="NAME",
    help=f"Print events as JSON lines instead of the result: {', '.join(PROTOCOLS)}.",
)
@click.option(
    "-i", "--interactive", is_flag=True, help="Chat: each line of stdin is a run."
)
@click.option("-v", "--verbose", is_flag=True, help="Show what goes in and comes out.")
@click.option("-q", "--quiet", is_flag=True, help="Show errors only.")
@debug_option
def command(
    flow: str,
    input_: str | None,
    *,
    tools_dir: str | None,
    max_tools: int | None,
    tool_timeout: float,
    timeout: float,
    max_iterations: int,
    max_node_attempts: int,
    plugins: Sequence[str],
    plugin_config: Sequence[str],
    plugin_env: Sequence[str],
    plugin_timeout: float,
    no_stream: bool,
    protocol: str | None,
    interactive: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Run FLOW, an Agent Spec document in JSON or YAML, and print its result as JSON.

    Progress, warnings and errors go to stderr. The exit status is 0 when the flow reached
    its end, 1 when it failed, 2 for wrong usage, 130 when it was interrupted.
    """
    if interactive and (protocol is not None or input_ == "-"):
        raise WrongUsage(
            "a chat reads lines from stdin and answers on stdout",
            where="--interactive",
            fix="Leave out --protocol and --input -.",
        )
    if protocol is not None and protocol not in PROTOCOLS:
        raise WrongUsage(
            f"there is no protocol {protocol!r}",
            where="--protocol",
            fix=one_of(protocol, PROTOCOLS),
        )
    if sys.stdout is None:
        raise WrongUsage("it is closed, and the result goes there", where="stdout")
    inputs = read_input(input_)

    from heddle import launch

    options = launch.RunOptions(
        inputs=inputs,
        tools_dir=tools_dir,
        max_iterations=max_iterations,
        max_node_attempts=max_node_attempts,
        timeout=timeout,
        tool_timeout=tool_timeout,
        plugin_timeout=plugin_timeout,
        max_tools=max_tools,
        # A model's pieces are only for readers; --quiet leaves none.
        stream=not no_stream and streams() and (not quiet or protocol is not None),
        plugins=tuple(plugins),
        plugin_config=tuple(plugin_config),
        plugin_env=tuple(plugin_env),
    )
    with own_stdout(shared=any(not each.endswith(".json") for each in plugins)) as stdout:
        run_once(
            flow,
            options,
            stdout,
            protocol=protocol,
            verbose=verbose,
            quiet=quiet,
            debug=is_debugging(),
            interactive=interactive,
        )


def run_once(
    flow: str,
    options: "RunOptions",
    stdout: int,
    *,
    protocol: str | None,
    verbose: bool,
    quiet: bool,
    debug: bool,
    interactive: bool,
) -> None:
    """Load, run, and print the result; or run and print for each line of a chat."""
    from heddle import launch

    try:
        installed = launch.install(options)
        prepared = launch.load(flow, installed=installed)
    except Fault as error:
        if protocol is not None:
            from heddle.cli.frames import error_frame

            with suppress(OSError):  # the error itself is told on stderr
                os.write(stdout, error_frame(error))
        raise
    warnings = [str(each) for each in prepared.warnings]

    import trio

    from heddle.cli.logs import told_to
    from heddle.cli.plain import overheard, warning
    from heddle.cli.session import Session

    session: Session[dict[str, Any] | None]
    reader = choose(
        protocol,
        verbose=verbose,
        quiet=quiet,
        shown=warnings,
        stop=lambda reason: session.stop(reason),
        interactive=interactive,
        stdout=stdout,
    )
    session = Session(reader.outlets, animate=reader.animate, ended=reader.ended)
    for text in (*installed.warnings, *(f"{flow} {each}" for each in warnings)):
        reader.remark(warning(text))

    async def execute() -> dict[str, Any] | None:
        async with launch.open_engine(
            options,
            installed=installed,
            plugin_log=lambda said: reader.remark(overheard(said)),
        ) as engine:
            if interactive:
                from heddle.cli.chat import chat

                await chat(engine, prepared, options.inputs, reader, stdout)
                return None
            return await engine.run(
                prepared, options.inputs, reader.see, stream=options.stream
            )

    # What was imported and compiled stays to the end: never look through it for garbage.
    gc.freeze()
    gc.enable()
    with told_to(reader.remark, tracebacks=debug):
        result = trio.run(session.execute, execute)
    if protocol is None and result is not None:
        try:
            print_result(result, stdout)
        except OSError as error:
            raise output_failed(error) from error


def choose(
    protocol: str | None,
    *,
    verbose: bool,
    quiet: bool,
    shown: Iterable[str],
    stop: Callable[[Exception], None],
    interactive: bool,
    stdout: int,
) -> "Reader":
    """Who reads the events."""
    from heddle.cli import readers
    from heddle.cli.plain import PlainLines

    if protocol is not None:
        return readers.Frames(stop, stdout)
    if quiet or sys.stderr is None:
        return readers.Silent()
    lines = PlainLines(verbose=verbose, shown=frozenset(shown))
    animated = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if animated and not interactive:
        from heddle.cli.live import Live

        return Live(lines)
    return readers.Plain(lines)


def print_result(result: dict[str, Any], stdout: int) -> None:
    """Print the final state: indented for a person, on one line for a program."""
    import msgspec

    from heddle.cli.outlet import write_all

    encoded = msgspec.json.encode(result)
    if os.isatty(stdout):
        encoded = msgspec.json.format(encoded, indent=2)
    write_all(stdout, fit_json(encoded) + b"\n")


def streams() -> bool:
    """What ``HEDDLE_STREAM`` says; on unless it says no."""
    return os.environ.get("HEDDLE_STREAM", "1").lower() not in ("0", "no", "off", "false")
