"""The kinds that the embedded server serves: their types, names and schemas.

May import: nothing else of `kinformer.testing`.
"""
