"""One run as ``heddle run`` makes it: loaded, its events told, its result printed.

With ``--interactive`` it is a chat instead, in which each line is a run.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from heddle.cli import first_light
from heddle.cli.exits import WrongUsage
from heddle.cli.reading.inputs import check_format, misspelt
from heddle.cli.text.wording import fit_json
from heddle.standard_streams import output_failed
from plugins_host import Fault, one_of

if TYPE_CHECKING:
    from heddle.cli.reporting.encoded import Encoded
    from heddle.cli.reporting.readers import Reader
    from heddle.installation import Installed
    from heddle.launch import Engine, RunOptions
    from heddle.policy_counts import PolicyCounts
    from heddle.preparing import Prepared

# The protocol of `heddle.cli.reporting.frames`; others are those of encoders.
OWN_PROTOCOL: Final = "heddle"


class Source(NamedTuple):
    """Where the flow is: its file, the format of that, and the files that supply it."""

    flow: str
    format: str | None
    components: tuple[str, ...]


class Telling(NamedTuple):
    """What of the run is shown, and how; each as the flag of its name says."""

    protocol: str | None
    verbose: bool
    quiet: bool
    as_json: bool
    debug: bool
    interactive: bool


def run_once(source: Source, options: "RunOptions", stdout: int, how: Telling) -> int:
    """Load, run, and print the result; or run and print for each line of a chat.

    Returns:
        The exit status of a run that does not raise why it failed.
    """
    frames = stdout if how.protocol == OWN_PROTOCOL else None
    installed, prepared = load(source, options, how, frames=frames)

    import trio

    from heddle import launch
    from heddle.cli.reporting.logs import told_to
    from heddle.cli.reporting.plain import overheard, warning
    from heddle.cli.session import Session
    from heddle.policy_counts import PolicyCounts

    policies = PolicyCounts()
    shown = [str(each) for each in prepared.warnings]
    session: Session[dict[str, Any] | int]
    talk = None
    reader: Reader
    if how.interactive:
        # It knows how to draw answers, which few runs need.
        from heddle.cli.chat.talk import Talk

        talk = Talk(prepared, stdout, verbose=how.verbose, quiet=how.quiet, shown=shown)
        reader = talk.reader
    else:
        reader = choose(
            how,
            title=source.flow.rpartition("/")[2],
            traced=options.trace,
            policies=policies,
            shown=shown,
            stop=lambda reason: session.stop(reason),
            stdout=stdout,
        )
    session = Session(
        reader.outlets,
        animate=reader.animate,
        ended=reader.ended,
        heed=talk.heed if talk else None,
        at_once=talk.give_back if talk else None,
    )
    for text in warnings_of(source.flow, options, installed, prepared):
        reader.remark(warning(text))

    async def execute() -> dict[str, Any] | int:
        async with launch.open_engine(
            options,
            installed=installed,
            plugin_log=lambda said: reader.remark(overheard(said)),
            watch=policies,
        ) as engine:
            if talk is None:
                return await run_told(engine, prepared, options, reader, how.protocol)
            return await talk.run(engine, options)

    # What was imported and compiled stays to the end: never look through it for garbage.
    gc.freeze()
    gc.enable()
    with told_to(reader.remark, tracebacks=how.debug):
        result = trio.run(session.execute, execute)
    if isinstance(result, int):
        return result
    if how.protocol is None:
        print_result(result, stdout)
    return 0


async def run_told(
    engine: "Engine",
    prepared: "Prepared",
    options: "RunOptions",
    reader: "Reader",
    protocol: str | None,
) -> dict[str, Any]:
    """Run the flow and tell the reader its events, or an encoder that writes for it."""

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


def warnings_of(
    flow: str, options: "RunOptions", installed: "Installed", prepared: "Prepared"
) -> Iterator[str]:
    """What looks wrong before anything runs: plugins, then the document, then inputs."""
    yield from installed.warnings
    for each in prepared.warnings:
        yield str(each) if each.file else f"{flow} {each}"
    yield from misspelt(options.inputs, prepared.plan.graph.inputs)


def load(
    source: Source,
    options: "RunOptions",
    how: Telling,
    *,
    frames: int | None,
) -> "tuple[Installed, Prepared]":
    """Read plugins and document; ``frames`` is where to say in a frame what is wrong.

    Raises:
        DocumentRefused: The document cannot be run, told for a person.
        DocumentError: The same where programs read what is told.
    """
    from heddle import launch, preparing
    from heddle.spec import FORMATS, DocumentError

    formats, protocol = FORMATS, how.protocol
    try:
        installed = launch.install(options)
        formats = installed.formats
        check_format(source.format, installed.formats)
        if protocol is not None and protocol not in installed.protocols:
            raise WrongUsage(
                f"there is no protocol {protocol!r}",
                where="--protocol",
                fix=one_of(protocol, installed.protocols),
            )
        supplied = preparing.supply(source.components, installed)
        prepared = preparing.load(
            source.flow, format=source.format, installed=installed, supplied=supplied
        )
        return installed, prepared
    except Fault as error:
        if frames is not None:
            from heddle.cli.reporting.frames import error_frame

            with suppress(OSError):  # the error itself is told on stderr
                os.write(frames, error_frame(error))
        for_programs = how.as_json or frames is not None
        if for_programs or not isinstance(error, DocumentError):
            raise
        from heddle.cli.reading.problems import refusal

        raise refusal(error, source.flow, source.format, formats) from error


def choose(
    how: Telling,
    *,
    title: str,
    traced: bool,
    policies: "PolicyCounts",
    shown: Iterable[str],
    stop: Callable[[Exception], None],
    stdout: int,
) -> "Reader":
    """Who reads the events."""
    from heddle.cli.reporting import readers
    from heddle.cli.reporting.plain import PlainLines

    if how.protocol == OWN_PROTOCOL:
        return readers.Frames(stop, stdout)
    if how.protocol is not None:
        from heddle.cli.reporting.encoded import Encoded

        return Encoded(stop, stdout)
    if how.quiet or sys.stderr is None:
        return readers.Silent()
    if how.as_json:
        return readers.JsonLines(stop, shown=shown)
    lines = PlainLines(verbose=how.verbose, shown=frozenset(shown))
    if first_light.is_animated():
        from heddle.cli.live.reader import Live

        everything = lines if how.verbose or traced else None
        return Live(title, policies, verbose=everything, shown=shown)
    return readers.Plain(lines)


def encoded(reader: "Reader") -> "Encoded":
    """The reader that `choose` made for an encoder."""
    from heddle.cli.reporting.encoded import Encoded

    assert isinstance(reader, Encoded)
    return reader


def print_result(result: dict[str, Any], stdout: int) -> None:
    """Print the final state: indented for a person, on one line for a program."""
    import msgspec

    from heddle.cli.terminal.outlet import write_all

    encoded = msgspec.json.encode(result)
    if os.isatty(stdout):
        encoded = msgspec.json.format(encoded, indent=2)
    try:
        write_all(stdout, fit_json(encoded) + b"\n")
    except OSError as error:
        raise output_failed(error) from error
