"""The state of the embedded server: objects under one global revision, their owners and their selection.

May import: `codec`, `kinds`.
"""
