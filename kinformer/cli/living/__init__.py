"""A small cluster that lives, for the demo, the dashboard and `serve --living`.

May import: the public names of kinformer and kinformer.testing.
Reading order: contents, cluster, ailing.
Tests: tests/cli/test_demo.py, tests/cli/test_serve.py.
"""
