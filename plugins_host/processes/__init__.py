"""A plugin in a process of its own: started, asked, watched, replaced, ended.

    fleet            all plugins of a server or of a run
    process          one plugin, whatever process it is in: start, replace, probe
    lifecycle        the phases of a process, and when to start again: tables, no I/O
    channel          one process at work: reader, writer, deadlines, its end
    greeting         the first exchange
    calls            the calls that are open, and how long each may be silent
    open_calls       what is due when, and what is cancelled
    onward           a call that goes on without its task
    reverse_serving  what a plugin asks of heddle meanwhile, served
    writer, pipes    frames to one task that writes; the two ends of a pipe
    child            one process with the group of all that it started
    guard            a process that ends those which a kill of heddle left behind

What goes over the pipes is `plugins_host.frames`; what may go wrong has its classes in
`plugins_host.plugin_faults`. Modules are imported directly: this folder needs trio.
"""
