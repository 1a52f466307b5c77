"""heddle: runs agent workflows under an operator's control.

Importing this package costs nothing: the engine, the command line and the plugin SDK
(``heddle.plugin``) are loaded by whoever needs them.

what is run
    spec/           documents: bytes to components
    engine/         a flow compiled and run; `events`: what a run tells about itself
    models/, tools/, remote/    what nodes use; `services` fits them to the engine
    installation/   plugins, read and opened; `plugin_tools`: the tools of plugins
    preparing       from a document's bytes to its plan
    launch          from a file and options to a run
    preview/        what a run would do
who runs it
    cli/, server/   the two programs; `flags`: those that both have
    client/         a client of the server; `http/`: the calling side of HTTP
who extends it
    plugin          what a plugin is written with; `plugin_testing`: what its test is
shared
    long_work       work on long values, where it holds nobody up; `gentle_json`: as JSON
    nesting         how deep values are nested
    hosts           hosts and ports of URLs
    attempts        what is known of a failed request, about making it again
    policy_counts   what policies said, counted
    standard_streams    stdin, stdout and stderr as they were given
    watch           one task that ends all waits that are too long
"""

__version__ = "0.1.0"
