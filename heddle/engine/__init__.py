"""A flow compiled and run: what is decided is pure, what is done is thin.

compiled
    compiling/   a document's flows into graphs, and what is found wrong
    graph        a flow as look-ups, checked
    shapes       what each node type takes, gives and may branch to
    signatures   what flows and agents take and give, as declared
    conventions  names that stand where a document writes none
    agents       what the agents of a document come to; `lone`: one as a whole document
    plan         a graph with the work of its nodes
run
    run          one run, from its first event to its last
    walking      the walk of a flow carried out; `line`: of one that just looks at its state
    stretch      what of it is carried on by who reads the answers of policies
    executions   one node executed, with the policies around it
    walk         where a run goes next: a function of data
    state        what a node is given, what comes out; `earlier`: the turns before the run
    gate         the seams: asking the policies; `decisions` is what they decided
    tracing      what only traced runs tell
    faults       what can end a run
work of nodes
    nodes/       one module a node type, in one table
    work         what a node is given to work with, and what it comes to
    model_calls  shown to policies, sent, sent again (`retries`)
    structured   answers as data
    tool_calls   the tool calls of one round; `tool_use`, `tool_servers`: by type of tool
    plugin_calls plugins at work for a node
    requests/    HTTP requests; `http_answer`: what becomes of the answers
    transforms   what agents make of their messages; `summaries`: Agent Spec's own
    iteration    what a map goes through; `reducers`: what becomes of the outputs
    together     things side by side
    questions    what a person is asked; `confirming`: one thing at a time
for tests
    testing      stand-ins for what a run is given

Modules are imported directly, so that checking a document loads no task library.
"""
