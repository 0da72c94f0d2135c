"""The commands `watch`, `wait`, `changes`, `problems`, `stats`, `proxy`, `serve` and `version`.

May import: `output` and the modules at the top of `kinformer.cli`.
Tests: tests/cli.
"""
