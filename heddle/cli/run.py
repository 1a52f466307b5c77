"""``heddle run``: a flow from start to end, its result on stdout.

stdout carries the result, or the frames of ``--protocol``, and nothing else.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from heddle.cli import first_light
from heddle.cli.exits import WrongUsage, output_failed
from heddle.cli.inputs import check_format, read_input
from heddle.cli.options import debug_option, is_debugging, json_option
from heddle.cli.own_stdout import own_stdout
from heddle.cli.wording import fit_json
from heddle.flags import components_option, engine_options, format_option
from plugins_host import Fault, one_of

if TYPE_CHECKING:
    from heddle.cli.encoded import Encoded
    from heddle.cli.readers import Reader
    from heddle.cli.talk import Talk
    from heddle.installation import Installed
    from heddle.launch import Prepared, RunOptions
    from heddle.policy_counts import PolicyCounts

# The protocol of `heddle.cli.frames`; others are those of encoders.
OWN_PROTOCOL: Final = "heddle"


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
) -> None:
    """Run FLOW, an Agent Spec document in JSON or YAML, and print its result as JSON.

    Progress, warnings and errors go to stderr: on a terminal as a live tree and a summary,
    else as lines; NO_COLOR takes the colours away. The exit status is 0 when the flow
    reached its end, 1 when it failed, 2 for wrong usage, 130 when it was interrupted.
    """
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
    if sys.stdout is None:
        raise WrongUsage("it is closed, and the result goes there", where="stdout")
    inputs = read_input(input_)

    from heddle import launch

    # A model's pieces are only for readers; --quiet leaves none.
    stream = not no_stream and streams() and (not quiet or protocol is not None)
    options = launch.RunOptions(inputs=inputs, stream=stream, trace=trace, **engine)
    imported = any(not each.endswith(".json") for each in options.plugins)
    with own_stdout(shared=imported) as stdout:
        run_once(
            flow,
            options,
            stdout,
            format=format_,
            components=components,
            protocol=protocol,
            verbose=verbose,
            quiet=quiet,
            as_json=as_json,
            debug=is_debugging(),
            interactive=interactive,
        )


def run_once(
    flow: str,
    options: "RunOptions",
    stdout: int,
    *,
    format: str | None,  # noqa: A002  the word users know
    components: tuple[str, ...],
    protocol: str | None,
    verbose: bool,
    quiet: bool,
    as_json: bool,
    debug: bool,
    interactive: bool,
) -> None:
    """Load, run, and print the result; or run and print for each line of a chat."""
    frames = stdout if protocol == OWN_PROTOCOL else None
    installed, prepared = load(
        flow,
        options,
        format=format,
        components=components,
        protocol=protocol,
        frames=frames,
    )
    warnings = [str(each) for each in prepared.warnings]

    import trio

    from heddle import launch
    from heddle.cli.logs import told_to
    from heddle.cli.plain import overheard, warning
    from heddle.cli.session import Session
    from heddle.policy_counts import PolicyCounts

    policies = PolicyCounts()
    session: Session[dict[str, Any] | None]
    talk = None
    if interactive:
        talk = begin_talk(prepared, stdout, verbose=verbose, quiet=quiet, shown=warnings)
    reader = (
        talk.reader
        if talk
        else choose(
            protocol,
            verbose=verbose,
            quiet=quiet,
            as_json=as_json,
            traced=options.trace,
            title=flow.rpartition("/")[2],
            policies=policies,
            shown=warnings,
            stop=lambda reason: session.stop(reason),
            stdout=stdout,
        )
    )
    session = Session(
        reader.outlets,
        animate=reader.animate,
        ended=reader.ended,
        heed=talk.heed if talk else None,
        at_once=talk.give_back if talk else None,
    )
    told = (str(each) if each.file else f"{flow} {each}" for each in prepared.warnings)
    for text in (*installed.warnings, *told):
        reader.remark(warning(text))

    async def execute() -> dict[str, Any] | None:
        async with launch.open_engine(
            options,
            installed=installed,
            plugin_log=lambda said: reader.remark(overheard(said)),
            watch=policies,
        ) as engine:
            if talk is not None:
                await talk.run(engine, options)
                return None

            async def run() -> dict[str, Any]:
                return await engine.run(
                    prepared,
                    options.inputs,
                    reader.see,
                    stream=options.stream,
                    trace=options.trace,
                )

            encoder = None if protocol is None else engine.encoder(protocol)
            if encoder is None:
                return await run()
            result: dict[str, Any] = await encoded(reader).run(encoder, run)
            return result

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


def begin_talk(
    prepared: "Prepared", stdout: int, *, verbose: bool, quiet: bool, shown: list[str]
) -> "Talk":
    """A chat with the flow, not begun yet."""
    from heddle.cli.talk import Talk

    return Talk(prepared, stdout, verbose=verbose, quiet=quiet, shown=shown)


def load(
    flow: str,
    options: "RunOptions",
    *,
    format: str | None,  # noqa: A002  the word users know
    components: tuple[str, ...],
    protocol: str | None,
    frames: int | None,
) -> "tuple[Installed, Prepared]":
    """Read plugins and document; ``frames`` is where to say in a frame what is wrong."""
    from heddle import launch

    try:
        installed = launch.install(options)
        check_format(format, installed.formats)
        if protocol is not None and protocol not in installed.protocols:
            raise WrongUsage(
                f"there is no protocol {protocol!r}",
                where="--protocol",
                fix=one_of(protocol, installed.protocols),
            )
        supplied = launch.supply(components, installed)
        prepared = launch.load(flow, format=format, installed=installed, supplied=supplied)
        return installed, prepared
    except Fault as error:
        if frames is not None:
            from heddle.cli.frames import error_frame

            with suppress(OSError):  # the error itself is told on stderr
                os.write(frames, error_frame(error))
        raise


def choose(
    protocol: str | None,
    *,
    verbose: bool,
    quiet: bool,
    as_json: bool,
    traced: bool,
    title: str,
    policies: "PolicyCounts",
    shown: Iterable[str],
    stop: Callable[[Exception], None],
    stdout: int,
) -> "Reader":
    """Who reads the events."""
    from heddle.cli import readers
    from heddle.cli.plain import PlainLines

    if protocol == OWN_PROTOCOL:
        return readers.Frames(stop, stdout)
    if protocol is not None:
        from heddle.cli.encoded import Encoded

        return Encoded(stop, stdout)
    if quiet or sys.stderr is None:
        return readers.Silent()
    if as_json:
        return readers.JsonLines(stop, shown=shown)
    lines = PlainLines(verbose=verbose, shown=frozenset(shown))
    if first_light.is_animated():
        from heddle.cli.live import Live

        everything = lines if verbose or traced else None
        return Live(title, policies, verbose=everything, shown=shown)
    return readers.Plain(lines)


def encoded(reader: "Reader") -> "Encoded":
    """The reader that `choose` made for an encoder."""
    from heddle.cli.encoded import Encoded

    assert isinstance(reader, Encoded)
    return reader


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
