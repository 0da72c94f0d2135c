"""Output to a terminal or a pipe: tables, columns, documents, progress, keys, errors, warnings.

May import: `paths`.
"""
