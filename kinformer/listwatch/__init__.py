"""Sources of objects: `ListWatch` over HTTP, and the wrappers that transform or compress what a source gives.

May import: `wire`, `client` and below.
Reading order: list_watch, http_page, wrapper, transform.
"""
