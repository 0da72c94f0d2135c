"""`kinformer doctor`: checks, step by step, that a resource can be listed and watched.

May import: `output` and the modules at the top of `kinformer.cli`.
"""
