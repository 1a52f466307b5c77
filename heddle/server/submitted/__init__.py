"""What asks for a run, and what may come with it. Its author is a stranger to the server.

    submission     the JSON that asks for a run; `json_pieces`: where that is long
    flows_root     flows that are named by path
    egress         what flows that come along may reach
    pattern_rules  patterns in types that come along
    code/          tools and plugins that come along

Modules are imported directly.
"""
