"""A run's events as lines, for people and for programs.

    readers         who reads them, by the flags: lines, frames or nobody
    plain           lines for people; `traced`: of what only traced runs tell
    frames          JSON, one object a line; `encoded`: as an encoder of a plugin makes it
    logs            Python's logging, as lines among them

As a picture that grows they are told in `heddle.cli.live`. Modules are imported directly.
"""
