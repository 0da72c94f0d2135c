"""The functions that expressions may call: CEL's standard functions, its extensions, and Kubernetes' own.

May import: the modules of `kinformer.testing.cel` up to `functions`. Read `standard`, then any.
Tests: tests/conformance/test_expressions.py, tests/conformance/test_formats.py,
tests/conformance/test_regular_expressions.py.
"""
