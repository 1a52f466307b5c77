"""A run's events and who follows them: one writer, any number of readers, none waited for.

    log      the events of one run in order, and how much of them is kept
    reader   one who follows: a position in a log
    turns    when the readers of one run read: at once, or several in turns
    pacer    one task that wakes the readers of busy runs
    as_json  events as JSON, each encoded once
    sse      as Server-Sent Events
    encoded  as an encoder of a plugin renders them

How a run on another worker is followed is `heddle.server.workers.following`; a socket's
side is `heddle.server.sockets`. Modules are imported directly.
"""
