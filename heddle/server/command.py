"""``heddle-server``: the flags, and how the program ends.

0    drained after a signal
1    it could not start, or broke
2    wrong usage
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from heddle import __version__, standard_streams
from heddle.flags import (
    COUNT,
    MILLISECONDS,
    GuessedChoice,
    components_option,
    engine_options,
)
from heddle.server.flag_checks import (
    TOKEN_VARIABLE,
    check_flows,
    check_hosts,
    check_origins,
    check_temporary,
    check_tls,
    check_token,
)
from heddle.server.logs import ServerLog, tell
from heddle.server.settings import MAX_BODY, Settings, is_loopback
from plugins_host import Fault, sentence, shortage

if TYPE_CHECKING:
    import ssl

    from heddle.server.http import Listener
    from heddle.server.serve import Loaded
    from heddle.server.supervisor import Plan


class _Place(NamedTuple):
    """Where the server can be reached: at a Unix socket, or else at a port."""

    host: str
    port: int
    socket_path: str | None
    tls_cert: str | None
    tls_key: str | None


@click.command(
    "heddle-server",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  heddle-server --tools-dir tools --flows-root flows
  heddle-server --flows-root flows --components models.json
  heddle-server --plugin policies.json --plugin-config Gate=@gate.json
  HEDDLE_AUTH_TOKEN=… heddle-server --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
  heddle-server --socket /run/heddle.sock
  heddle-server --workers 4 --plugin policies.json
""",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=4319,
    show_default=True,
    help="Port to bind; 0 lets the system choose.",
)
@click.option(
    "--socket", "socket_path", metavar="PATH", help="Serve a Unix socket instead of a port."
)
@click.option("--tls-cert", metavar="FILE", help="Certificate and chain, PEM.")
@click.option("--tls-key", metavar="FILE", help="Its private key, PEM.")
@click.option(
    "--workers",
    metavar="N",
    type=COUNT,
    help="Processes that serve together, watched and replaced by one more; on SIGHUP new "
    "ones take over. Each has plugin processes of its own. Without it one process serves.",
)
@click.option("--flows-root", metavar="DIR", help="Folder of flows that callers may name.")
@components_option(
    "Components and values that flows of --flows-root may refer to, and no others. "
    "Repeat it."
)
@engine_options
@click.option(
    "--max-concurrent",
    metavar="N",
    type=COUNT,
    default=64,
    show_default=True,
    help="Runs at a time, of all workers together; more are refused with 429.",
)
@click.option(
    "--drain-timeout",
    metavar="MS",
    type=MILLISECONDS,
    default=30_000,
    show_default=True,
    help="Time that runs get to end once a signal came.",
)
@click.option(
    "--max-body",
    metavar="BYTES",
    type=COUNT,
    default=MAX_BODY,
    show_default=True,
    help="Longest body of a request.",
)
@click.option(
    "--auth-token",
    metavar="TOKEN",
    envvar=TOKEN_VARIABLE,
    help=f"What callers must show. Better given in ${TOKEN_VARIABLE}.",
)
@click.option(
    "--cors-origin",
    "cors_origins",
    metavar="ORIGIN",
    multiple=True,
    help="A web origin whose pages may call, or *. Repeat it.",
)
@click.option(
    "--allow-net",
    metavar="HOST",
    multiple=True,
    help="A private host or network (10.0.0.0/8) that submitted flows may reach. "
    "Repeat it.",
)
@click.option(
    "--allow-request-code",
    is_flag=True,
    help="Run tools and plugins that come with requests, as this user.",
)
@click.option(
    "--allow-trace",
    is_flag=True,
    help="Let callers trace runs: read all that models are sent, system prompts too.",
)
@click.option(
    "--log-format",
    type=GuessedChoice(["text", "json"]),
    default="text",
    show_default=True,
    help="How log lines look.",
)
@click.version_option(__version__, prog_name="heddle-server")
def command(
    host: str,
    port: int,
    *,
    socket_path: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    workers: int | None,
    flows_root: str | None,
    components: tuple[str, ...],
    max_concurrent: int,
    drain_timeout: float,
    max_body: int,
    auth_token: str | None,
    cors_origins: tuple[str, ...],
    allow_net: tuple[str, ...],
    allow_request_code: bool,
    allow_trace: bool,
    log_format: str,
    **engine: Any,
) -> None:
    """Run flows for others, over HTTP and WebSocket.

    Everything is loaded, plugins started too, before the port opens. The first SIGTERM or
    SIGINT lets the runs that are going on end, a second one does not wait for them.
    """
    check_tls(tls_cert, tls_key, socket_path)
    check_token(auth_token)
    check_origins(cors_origins)
    check_hosts(allow_net)
    check_temporary()
    check_flows(flows_root, components)

    settings = Settings(
        flows_root=flows_root,
        components=components,
        auth_token=auth_token,
        cors_origins=frozenset(each.rstrip("/") for each in cors_origins),
        allow_net=allow_net,
        allow_request_code=allow_request_code,
        allow_trace=allow_trace,
        max_body=max_body,
        drain_timeout=drain_timeout,
        json_logs=log_format == "json",
    )
    place = _Place(host, port, socket_path, tls_cert, tls_key)
    load = partial(_load, settings, engine, max_concurrent, place)
    warn = partial(_warn, json=settings.json_logs)
    bind = partial(_bind, place, warn=warn if auth_token is None else None)
    if workers is None:
        _run_alone(load, bind)
    else:
        from heddle.server.supervisor import Plan

        _run_workers(
            Plan(
                load,
                bind,
                workers,
                max_concurrent,
                drain_timeout,
                settings.json_logs,
                tls=tls_cert is not None,
            )
        )


def _load(
    settings: Settings, engine: Mapping[str, Any], max_concurrent: int, place: _Place
) -> "tuple[Loaded, ssl.SSLContext | None]":
    """Read everything that the flags name; starts nothing."""
    from heddle import launch, preparing
    from heddle.server import http
    from heddle.server.serve import Loaded

    options = launch.RunOptions(**engine)
    installed = launch.install(options, shared=True)
    tls = (
        None if place.tls_cert is None else http.tls_context(place.tls_cert, place.tls_key)
    )
    supplied = preparing.supply(settings.components, installed)
    return Loaded(settings, options, installed, max_concurrent, supplied), tls


def _warn(text: str, *, json: bool) -> None:
    """Warn before there is a log, in the form that whoever reads it expects."""
    if json:
        from heddle.server.logs import DirectLog

        DirectLog(json=True).say("warning", text)
    else:
        tell(f"Warning: {text}")


def _bind(
    place: _Place,
    tls: "ssl.SSLContext | None" = None,
    *,
    warn: "Callable[[str], None] | None",
) -> "Sequence[Listener]":
    """Open the port. ``warn`` is there where whoever reaches it may run flows."""
    from heddle.server import http

    if place.socket_path is not None:
        return [http.bind_path(place.socket_path)]
    listeners = http.bind(place.host, place.port, tls=tls)
    if warn is not None and not is_loopback(place.host):
        warn(
            f"{place.host} is reached from other machines, and everybody there "
            f"may run flows here. Set ${TOKEN_VARIABLE}."
        )
    return listeners


def _run_alone(
    load: "Callable[[], tuple[Loaded, ssl.SSLContext | None]]",
    bind: "Callable[[ssl.SSLContext | None], Sequence[Listener]]",
) -> None:
    """Be the server, in this process."""
    import logging

    import trio

    from heddle.server.alone import serve_alone

    loaded, tls = load()
    log = ServerLog(json=loaded.settings.json_logs)
    root = logging.getLogger()
    root.addHandler(log)
    try:
        trio.run(partial(serve_alone, loaded, partial(bind, tls), log, load))
    finally:
        root.removeHandler(log)
        log.close()


def _run_workers(plan: "Plan") -> None:
    """Be the parent of several processes that are the server together."""
    from heddle.server.logs import DirectLog, log_lock
    from heddle.server.supervisor import Supervisor

    lock = log_lock()
    Supervisor(plan, DirectLog(json=plan.json_logs, lock=lock), lock).run()


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit status."""
    standard_streams.keep()
    try:
        result = command.main(
            list(arguments), prog_name="heddle-server", standalone_mode=False
        )
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx is not None:
            tell(error.ctx.get_usage())
        tell(f"Error: {error.format_message()}")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BaseException as error:  # noqa: BLE001  the last handler there is
        return _failed(error)
    return result if isinstance(result, int) else 0


def _failed(error: BaseException) -> int:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, OSError) and standard_streams.of_stdout(error):
        error = standard_streams.output_failed(error)
        standard_streams.give_up_stdout()
    error = shortage(error) or error
    if isinstance(error, Fault):
        tell(f"Error: {error}")
        return 1
    if isinstance(error, SystemExit):
        raise error
    import traceback

    tell("".join(traceback.format_exception(error)).rstrip())
    tell("Error: " + sentence(f"heddle itself failed ({type(error).__name__})",
                              fix="This is a bug; report the lines above."))  # fmt: skip
    return 1
