"""Runs flows for others, over HTTP and WebSocket.

the program
    command         the flags; `flag_checks`: what they say that can't be done
    settings        what they say, as data
    alone           a server of one process
    supervisor      the parent of several; `worker`: one of them
    workers/        what several share, and how they talk; `inner`: what they are answered
    serve           one server's life: loaded, opened, drained
    logs            a line an event; `notify`: the service manager is told
    names, tokens   who may call, and by which name
a request
    http/           HTTP/1.1; `routes/`: what is answered over it; `sockets/`: the WebSocket
    service         what routes and sockets have in common
    submitted/      what asks for a run, and what may come with it
    failures        what callers are told when something fails
a run
    runs/           who may begin, who is running, what has ended; where they have files
    following/      their events, and who follows
    endings         how one ended, as its caller is told; `own_scope`: what may cancel one
numbers
    numbers         what a server counts; `metrics`: for Prometheus; `status/`: for people

Modules are imported directly.
"""
