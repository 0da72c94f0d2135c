"""The verbs: list, watch, create, update, patch, apply and delete, with discovery. No HTTP here.

May import: `rules`, `store`, `codec`, `kinds`.
"""
