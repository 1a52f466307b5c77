"""What heddle looks like on a terminal, from real runs: ``python -m docs.screenshots``.

scenes   which commands are shown, and how one is run up to the moment that is shown
picture  a screen as an SVG that needs nothing else

Each is a file ``<name>.svg`` beside this one.
"""
