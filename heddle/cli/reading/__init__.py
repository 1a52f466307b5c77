"""What commands read: flows and inputs, and what is said when they are wrong.

    inputs          ``--input`` → the starting state
    flows           flows, plugins and components, for commands that run nothing
    problems        what is wrong with a flow; `excerpts`: the lines that it is about

Modules are imported directly.
"""
