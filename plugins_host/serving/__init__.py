"""What runs in a plugin's own process when it is written in Python: ``serve`` and under it.

    entry        ``serve`` itself: takes stdin and stdout for the protocol
    server       the loop: reads frames, lets calls run, writes what they say
    call         one question that is being answered, and what its handler asks of heddle
    answers      from a question to the handlers that answer it
    consulting   what does not change from one ``consult`` to the next
    outbox       frames on their way out, written together
    complaints   what the author of a plugin is told on stderr
    wire         the frames as data

How handlers are found and called is in `plugins_host.authoring`: a plugin that is imported
into heddle is asked the same way. The runtime for JavaScript is
``plugins_host/runtime/serve.mjs``.
"""

from plugins_host.serving.entry import importing, serve

__all__ = ["importing", "serve"]
