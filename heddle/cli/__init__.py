"""The command line. Importing it, or asking it for help, loads nothing that runs a flow.

the program
    entry         the way in and out: arguments → exit status, errors told
    commands      which commands there are, each imported when it is named
    options       options that several commands have
    exits         error classes → exit statuses, and what the errors are
    first_light   the first thing on a terminal, before anything else is imported
commands
    run           `one_run`: a run as it makes it; `session`: its signals watched
    validate
    graph         its pictures are made in `drawing/`, and kept by `whole_file`
    explain       `explained`: who would be asked where, as sections
    init          `new_files`: how files are written
    plugin        `plugin_new` and `plugin_check`
    completion
what they share
    reading/      flows and inputs, and what is wrong with them
    reporting/    a run's events as lines
    live/         a run on a terminal
    chat/         ``heddle run -i``
    drawing/      pictures of flows
    text/         text made fit for a terminal
    terminal/     the terminal and the streams of the process

Modules are imported directly.
"""
