"""The server's rules for written objects: defaults, admission and validation.

May import: `store`, `cel`, `codec`, `kinds`.
Tests: tests/apiserver/test_rules.py, tests/conformance/test_custom.py, tests/conformance/test_kinds.py.
"""
