"""`kinformer demo`: informers that follow a simulated cluster, and the screen that shows them.

May import: `output` and the modules at the top of `kinformer.cli`.
Tests: tests/cli/test_demo.py.
"""
