"""The verbs of `Client`: reads and writes of single objects, lists page by page, and logs of containers.

`Client` and `blocking.Informers` have them as methods. `controller` and `watching` import its checks of arguments.

May import: `listwatch` and below.
Reading order: requests, targets, bodies, listing, logs.
Tests: tests/verbs.
"""
