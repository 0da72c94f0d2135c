"""The commands `watch`, `serve` and `stats`, and the lines that they print.

May import: `output` and the modules at the top of `kinformer.cli`.
"""
