"""The rules of the server for written objects: defaults, admission and validation.

May import: `store`, `cel`, `codec`, `kinds`.
"""
