"""Servers and runs under pressure, disturbed by a seed.

`tests.pressure.campaign`   a server with everything on board, from outside: ``make chaos``
`tests.pressure.crowd`      hundreds of runs at once on shared policies, in one process

    plan  ->  the schedule of disturbances, from the seed alone
    cast  ->  policies, tools, flows and programs that all echo a run's mark
    load, rude  ->  clients that begin runs, and clients as nobody wants them
    disturbances  ->  what is done to the server of `stage`, the inside of which is `served`
    verdicts, checks  ->  whether what came of runs and server follows from that
    report  ->  all of it for a reader
"""
