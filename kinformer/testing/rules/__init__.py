"""What the server fills in and what it refuses: defaults, admission and validation.

May import: `store`, `cel`, `codec`, `kinds`.
"""
