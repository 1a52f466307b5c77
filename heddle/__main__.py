"""The programs ``heddle`` and ``heddle-server``, also as ``python -m heddle``."""

import gc
import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line with the arguments of this process; its exit status."""
    # Importing makes objects that all stay, and the end of the process frees the rest.
    # Looking for garbage among them takes a tenth of a short command; what runs a flow
    # turns the collector on.
    gc.disable()
    # Ctrl-C may come as soon as something has been typed.
    try:
        from heddle.cli import first_light
    except KeyboardInterrupt:
        return INTERRUPTED
    try:
        first_light.show(sys.argv[1:])
        from heddle.cli.entry import main as run_command_line
    except KeyboardInterrupt:
        first_light.clear()
        return INTERRUPTED
    status = run_command_line(sys.argv[1:])
    gc.freeze()
    return status


def server() -> int:
    """Run ``heddle-server`` with the arguments of this process; its exit status."""
    # As above; the server turns the collector on when it has loaded everything.
    gc.disable()
    try:
        from heddle.server.command import main as run_server
    except KeyboardInterrupt:
        return INTERRUPTED
    return run_server(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
