"""The command line. Importing it, or asking it for help, loads nothing that runs a flow.

entry        the way in and out: arguments → exit status, errors told
commands     which commands there are, each imported when it is named
run, validate, init, completion   one command each
inputs       ``--input`` → the starting state
session      a run with its signals watched and its readers fed
plain, live, frames   three readers of a run's events
outlet       bytes to stdout or stderr, whose reader may be slow or gone
exits        error classes → exit statuses, and what the errors are
wording      text from models and tools made fit for a terminal
"""
