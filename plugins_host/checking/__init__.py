"""Trying a plugin: ``heddle plugin check`` asks all that its manifest promises.

    check             asks, and says of each try how it went
    promises          the questions that a manifest says its plugin answers, as data
    verbs             those of them that no middleware is asked, and who reads the answers
    examples          what plugins are shown: inputs, a model's answer, one of each event
    schema_examples   a value for a JSON Schema
    tape              what was said on the pipes, for the author to see

A plugin is asked through the same host that runs ask it through.
"""
