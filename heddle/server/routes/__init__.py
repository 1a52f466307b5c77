"""What the server answers over HTTP.

    table    the routes, and the way of each request to its handler
    runs     the routes about runs
    about    the routes about the server itself
    openapi  the routes described for programs

Adding a route is a handler, a row in `table.ROUTES` and a row in `openapi.OPERATIONS`; a
test holds the two tables together. Modules are imported directly.
"""
