"""`kinformer demo`: an embedded API server with a living cluster, and the screen that shows it.

May import: `output` and the modules at the top of `kinformer.cli`.
"""
