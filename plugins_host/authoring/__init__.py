"""The side of a plugin's author, in whichever process it runs.

    surface   what an author sees: verdicts, events and ctx
    handlers  how the handlers are found, and what of their answers counts
    dispatch  how a question becomes the call of one

`plugins_host.serving` asks handlers in a process of the plugin's own, and
`plugins_host.inprocess` in heddle's. Authors import from `heddle.plugin`. Modules are
imported directly: a plugin's process starts with no more than it needs.
"""
