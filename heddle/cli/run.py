"""``heddle run``: a flow from start to end, its result on stdout.

stdout carries the result, or the frames of ``--protocol``, and nothing else.
"""

import os
from typing import Any

import click

from heddle.cli.exits import WrongUsage
from heddle.cli.one_run import Source, Telling, run_once
from heddle.cli.options import debug_option, is_debugging, json_option
from heddle.cli.reading.inputs import read_input
from heddle.cli.terminal.own_stdout import own_stdout
from heddle.flags import components_option, engine_options, format_option
from heddle.standard_streams import STDOUT, writable


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
@format_option
@components_option()
@engine_options
@click.option(
    "--no-stream",
    is_flag=True,
    help="Ask models for whole answers.  [also: HEDDLE_STREAM=0]",
)
@click.option(
    "--trace",
    is_flag=True,
    help="Tell of model calls, agents and flows inside as well, with all they are sent.",
)
@click.option(
    "--protocol",
    metavar="NAME",
    help="Print events as JSON lines instead of the result: heddle, or a plugin's.",
)
@click.option("-i", "--interactive", is_flag=True, help="Chat: each message is a run.")
@click.option("-v", "--verbose", is_flag=True, help="Show what goes in and comes out.")
@click.option("-q", "--quiet", is_flag=True, help="Show errors only.")
@json_option
@debug_option
def command(
    flow: str,
    input_: str | None,
    format_: str | None,
    components: tuple[str, ...],
    *,
    no_stream: bool,
    trace: bool,
    protocol: str | None,
    interactive: bool,
    verbose: bool,
    quiet: bool,
    as_json: bool,
    **engine: Any,
) -> int:
    """Run FLOW, an Agent Spec document in JSON or YAML, and print its result as JSON.

    Progress, warnings and errors go to stderr: on a terminal as a live tree and a summary,
    else as lines; NO_COLOR takes the colours away. The exit status is 0 when the flow
    reached its end, 1 when it failed, 2 for wrong usage, 130 when it was interrupted. A
    chat that reads from a pipe or a file ends with 1 when one of its turns failed.
    """
    _check_usage(input_, protocol, interactive=interactive, trace=trace, as_json=as_json)
    inputs = read_input(input_)

    from heddle import launch

    # A model's pieces are only for readers; --quiet leaves none.
    stream = not no_stream and streams() and (not quiet or protocol is not None)
    options = launch.RunOptions(inputs=inputs, stream=stream, trace=trace, **engine)
    source = Source(flow, format_, components)
    how = Telling(protocol, verbose, quiet, as_json, is_debugging(), interactive)
    imported = any(not each.endswith(".json") for each in options.plugins)
    with own_stdout(shared=imported) as stdout:
        return run_once(source, options, stdout, how)


def _check_usage(
    input_: str | None,
    protocol: str | None,
    *,
    interactive: bool,
    trace: bool,
    as_json: bool,
) -> None:
    """See that what was asked for can be had together."""
    if interactive and (protocol is not None or input_ == "-"):
        raise WrongUsage(
            "a chat reads lines from stdin and answers on stdout",
            where="--interactive",
            fix="Leave out --protocol and --input -.",
        )
    if interactive and trace:
        raise WrongUsage(
            "a chat shows no traces", where="--trace", fix="Leave out -i, or --trace."
        )
    if as_json and (interactive or protocol is not None):
        raise WrongUsage(
            "it writes events to stderr, beside a result on stdout",
            where="--json",
            fix="Leave out --interactive and --protocol.",
        )
    if not writable(STDOUT):
        raise WrongUsage("it is closed, and the result goes there", where="stdout")


def streams() -> bool:
    """What ``HEDDLE_STREAM`` says; on unless it says no."""
    return os.environ.get("HEDDLE_STREAM", "1").lower() not in ("0", "no", "off", "false")
