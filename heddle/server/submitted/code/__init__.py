"""Code that comes with requests: tools and plugins of one run.

    rules    what may come and what not: one table, with the reasons
    reading  what came, given a shape and checked; nothing is written or started
    running  what is made of it, and the run around which it is there

Modules are imported directly.
"""
