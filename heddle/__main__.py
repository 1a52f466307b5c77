"""The programs ``heddle`` and ``heddle-server``, also as ``python -m heddle``."""

import gc
import sys


def main() -> int:
    """Run the command line with the arguments of this process; its exit status."""
    # Importing makes objects that all stay, and the end of the process frees the rest.
    # Looking for garbage among them takes a tenth of a short command; what runs a flow
    # turns the collector on.
    gc.disable()
    try:
        from heddle.cli.entry import main as run_command_line
    except KeyboardInterrupt:
        return 130
    status = run_command_line(sys.argv[1:])
    gc.freeze()
    return status


def server() -> int:
    """Say that the server is not there yet; exit status 2."""
    sys.stderr.write(
        "Error: heddle-server comes in a later version. Use: heddle run FLOW\n"
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
