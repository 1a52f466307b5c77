"""HTTP requests as documents describe them, in ApiNodes and remote tools.

    request  a template, and what it is filled in to
    headers  methods and headers: what is wrong with one, and what to do about it
    urls     where one points, how its path is written, what an allow list covers

What becomes of the answer is `heddle.engine.http_answer`; who sends them is
`heddle.remote`. Modules are imported directly.
"""
