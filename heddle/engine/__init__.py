"""A flow compiled and run: what is decided is pure, what is done is thin.

graph       a document's flow as look-ups, checked
conventions names that stand where a document writes none
signatures  what flows and agents take and give, as declared
shapes      what each node type takes, gives and may branch to
plan        a graph with the work of its nodes
walk        where a run goes next
state       what a node is given, what comes out
run         the walk carried out
work        what a node is given to work with
nodes/      one module a node type
gate        the seams: asking the policies; `decisions` is what they decided
structured  answers as data
model_calls, tool_calls

Modules are imported directly, so that checking a document loads no task library.
"""
