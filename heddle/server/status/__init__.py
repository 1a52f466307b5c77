"""The status page: how a server is, told to whoever watches.

    board  all that is told, as rows; only what changed is sent
    rows   what a run, a policy and a plugin are told as
    watch  one socket that watches: due once a second, made when it can be written
    page   what ``GET /`` answers to a browser: ``page.html``, nothing from elsewhere

Modules are imported directly.
"""
