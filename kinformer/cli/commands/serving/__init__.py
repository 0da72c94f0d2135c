"""`kinformer serve`: what the embedded server has, who may do what, and who changes it.

Tests: tests/cli/test_serve.py.
"""
