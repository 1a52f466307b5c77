"""Signals for tests that were started where they are ignored.

``nohup make test`` ignores SIGHUP, and a shell that runs a script ignores SIGINT for what
it leaves in the background. Programs inherit that, and rightly do not end by such a signal:
tests of what they do then would have nothing to see.
"""

import signal

ASKING_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def hear_signals() -> None:
    """Have the programs that tests start end by signals which this process ignores.

    A program that is started gets the default of what its parent handles, and ignores what
    its parent ignores. So this process handles them: SIGINT as Python does, the others by
    doing nothing, as whoever ignored them did not want the tests to end by them.
    """
    for each in ASKING_TO_END:
        if signal.getsignal(each) is signal.SIG_IGN:
            handler = (
                signal.default_int_handler
                if each is signal.SIGINT
                else lambda _number, _frame: None
            )
            signal.signal(each, handler)
