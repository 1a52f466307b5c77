"""The command line. Importing it, or asking it for help, loads nothing that runs a flow.

entry        the way in and out: arguments → exit status, errors told
commands     which commands there are, each imported when it is named
run, validate, graph, explain, init, completion    one command each
plugin       those about plugins: plugin_new, plugin_check
options      options that several commands have
reading      what commands read that run nothing; new_files: what they write
inputs       ``--input`` → the starting state
one_run      a run as ``heddle run`` makes it; own_stdout: stdout is its result's
session      a run with its signals watched and its readers fed
readers      who reads a run's events: plain, live (on a terminal), frames, nobody
first_light  the first thing on a terminal, before anything else is imported
live         a run on a terminal: when to draw; region: how
traced       events that only traced runs tell of; encoded: as an encoder makes them
run_tree     events → what goes on in a run; tree_nodes: of what
run_totals   what it came to
tree_rows    a tree → rows of a screen; run_summary: what is left when it is over
telling      what happens, in styled pieces; streamed: one text of a model as it comes
interrupts   what Ctrl-C ends; suspension: what Ctrl-Z stops
chat         a message in, a run, its answer out: ``heddle run -i``
talk         what a chat is made of
chat_plain, chat_terminal    one on lines, one on a terminal
chat_view    a turn as it is seen
chat_turns   what was said; said_before: at chats before; chat_commands: what may be typed
line_editor  messages typed; terminal_keys: while an answer comes; person: who is asked
speakers     which nodes of a flow speak last
problems     what is wrong with a flow; excerpts: the lines that it is about
explained    who would be asked where, as sections
outlet       bytes to stdout or stderr, whose reader may be slow or gone
logs         Python's logging, told as lines
exits        error classes → exit statuses, and what the errors are
wording      text from models and tools made fit for a terminal
wrapping     broken between words; markdown, markdown_lines: as rows
as_written   text that is too long for that
drawing/     pictures of flows
"""
