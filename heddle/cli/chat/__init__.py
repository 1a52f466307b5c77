"""``heddle run -i``: a message in, a run of the flow, its answer out.

    loop            that, until the end
    talk            which chat it is: what it is read from, and what it is shown on
    plain           one on lines; `terminal`: one on a terminal; `view`: a turn there
    turns           what was said; `said_before`: at chats before
    commands        what may be typed besides messages; `line_editor`: typing them
    person          who is asked by runs; `speakers`: which nodes of a flow speak last

Modules are imported directly.
"""
