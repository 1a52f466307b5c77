"""Runs: begun, carried out, ended, and kept for a while.

    registry    who may begin, who is running, how each one ended
    handle      one run, as the rest of the server knows it; `ids`: by which name
    tasks       tasks that carry runs out, one after the other
    judging     what became of a run, by its result and what its task was ended with
    history     runs that have ended, bounded by count and bytes
    folders     where runs have their files

How an end is told is `heddle.server.endings`; who follows a run's events,
`heddle.server.following`. Modules are imported directly.
"""
