"""The verbs of `Client`: reads and writes of single objects, lists page by page, and logs of containers.

`Client` and `blocking.Informers` have them as methods, and no other package imports this one. May import: `listwatch`
and below.
"""
