"""What is asked of components that are no policies: a row for each verb.

    rows      nodes, transforms and tools: what is asked, what may be answered
    chatting  model calls, whole or piece by piece
    encoding  events for encoders: asked ahead, answered in order

Modules are imported directly.
"""
