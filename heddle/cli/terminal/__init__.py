"""The terminal and the streams of the process. Knows no runs.

    outlet          bytes to stdout or stderr, whose reader may be slow or gone
    own_stdout      stdout is the result's; what others print goes to stderr
    region          rows at the bottom of a terminal, drawn again in place
    keys            what is typed meanwhile: kept, and not shown
    interrupts      what Ctrl-C ends; `suspension`: what Ctrl-Z stops

Modules are imported directly.
"""
