"""Tools: executables in a folder, run one execution at a time in a workspace.

registry    a folder of files → names and programs
workspace   the folder that a node's tools work in
starting    why a program did not start
process     one execution: pipes, time-out, the end of the process group
answer      what was printed → a JSON object
slots       how many at a time, and whose turn it is
served      a tool that a plugin serves
facade      `Tools`: all of it behind one object
faults      what can go wrong, by whose fault it is

A guard (`plugins_host.processes.guard`) ends them when heddle is killed.
"""

from heddle.tools.facade import Tools, default_limit
from heddle.tools.faults import (
    ToolAnswerInvalid,
    ToolFailed,
    ToolFault,
    ToolFolderInvalid,
    ToolTimedOut,
    ToolUnusable,
    UnknownTool,
    WorkspaceFailed,
)
from heddle.tools.group import end_processes_in
from heddle.tools.process import run_program
from heddle.tools.registry import ToolProgram, find_tools
from heddle.tools.served import ServedTool, ToolInputRefused, ToolPluginFailed
from heddle.tools.slots import Slots
from heddle.tools.workspace import Mount, Workspace, open_workspace, remove_tree

__all__ = [
    "Mount",
    "ServedTool",
    "Slots",
    "ToolAnswerInvalid",
    "ToolFailed",
    "ToolFault",
    "ToolFolderInvalid",
    "ToolInputRefused",
    "ToolPluginFailed",
    "ToolProgram",
    "ToolTimedOut",
    "ToolUnusable",
    "Tools",
    "UnknownTool",
    "Workspace",
    "WorkspaceFailed",
    "default_limit",
    "end_processes_in",
    "find_tools",
    "open_workspace",
    "remove_tree",
    "run_program",
]
