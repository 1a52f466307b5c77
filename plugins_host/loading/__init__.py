"""From ``--plugin`` and ``--plugin-config`` to plugins that are ready to be asked.

    load            the way from the flags, and from a folder that came with a request
    installed       what comes of it, as data: each plugin, and where its handlers are
    entry_point     what to run for a manifest: its ``command``, or the file beside it
    python_plugins  plugins that are modules, which have no process
    modules         how such a module is imported, and why one cannot be
    settings        ``--plugin-config``, read and held against the components' schemas
    input_formats   the formats of documents that a module brings

Modules are imported directly, so that data costs no more than itself.
"""
