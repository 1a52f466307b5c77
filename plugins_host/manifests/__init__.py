"""Manifests: what a plugin says about itself, as types, and how a file becomes them.

    manifest   the types: `Manifest` and a struct for each kind of component
    reading    JSON in, a `Manifest` out, or everything that is wrong with it
    fields     the fields of an object, each by its type; what is wrong gathers here
    schemas    the schemas of tools: bounded, of objects, JSON Schema
    paths      files in the plugin's folder, places in a workspace
    problems   all that is wrong, in one error
    words      how values and types of JSON are called in its sentences

Modules are imported directly: who has a manifest does not pay for reading one.
"""
