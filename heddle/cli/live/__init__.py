"""A run on a terminal: a picture that is drawn again while the run goes on.

    reader          the reader of events that draws it: when, and what stays
    tree            events → what goes on in a run; `nodes`: of what the tree is made
    rows            the tree → rows, as many as there is room for
    totals          what a run came to; `summary`: how that is left on the terminal
    telling         what happens, in styled pieces; `segments`: those as rich has them

Where it is drawn is `heddle.cli.terminal.region`. Modules are imported directly.
"""
