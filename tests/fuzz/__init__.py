"""Bytes from strangers, looked at until something breaks: ``make fuzz``.

    target.py      what a target is: a function of bytes, what to begin with, words to use
    targets.py     the table of all of them
    frames, manifests, …   targets, one module for each reader of what strangers send
    hunt.py        one target under atheris, in a process of its own
    __main__.py    ``make fuzz`` and ``make fuzz-replay``: all targets in turn, or one input
    test_fuzz.py   each target under hypothesis, for a moment, as part of the suite

A target raises when anything but the declared errors comes out of what it calls, or when
a law is broken. To add one: write the function, say what to begin with, put it in a row.
"""
