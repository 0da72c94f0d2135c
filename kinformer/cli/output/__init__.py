"""How things look on a terminal: tables, columns, documents, keys, errors.

May import: nothing else of `kinformer.cli`.
"""
