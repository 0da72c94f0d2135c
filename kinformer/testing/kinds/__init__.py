"""The kinds that the embedded server serves: their types, names and schemas.

May import: nothing else of `kinformer.testing`.
Tests: tests/apiserver/test_custom.py, tests/conformance/test_kinds.py, tests/conformance/test_definitions.py.
"""
