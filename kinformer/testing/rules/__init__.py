"""The server's rules for written objects: defaults, admission and validation.

May import: `store`, `cel`, `codec`, `kinds`.
"""
