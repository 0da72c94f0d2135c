"""The commands `watch`, `watch --once`, `stats` and `serve`.

May import: `output` and the modules at the top of `kinformer.cli`.
"""
