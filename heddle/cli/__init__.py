"""The command line. Importing it, or asking it for help, loads nothing that runs a flow.

entry        the way in and out: arguments → exit status, errors told
commands     which commands there are, each imported when it is named
run, validate, init, completion, plugin, plugin_*   one command each
options      options that several commands have
inputs       ``--input`` → the starting state
session      a run with its signals watched and its readers fed
readers      who reads a run's events: plain, live (on a terminal), frames, nobody
first_light  the first thing on a terminal, before anything else is imported
live         a run on a terminal: when to draw; region: how
run_tree     events → what goes on in a run; run_totals: what it came to
tree_rows    a tree → rows of a screen; run_summary: what is left when it is over
outlet       bytes to stdout or stderr, whose reader may be slow or gone
logs         Python's logging, told as lines
exits        error classes → exit statuses, and what the errors are
wording      text from models and tools made fit for a terminal
"""
