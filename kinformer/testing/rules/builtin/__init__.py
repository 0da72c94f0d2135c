"""Validation and defaults of the built-in kinds.

May import: `cel`, `codec`, `kinds`, and the modules of `rules` that serve every kind. Read `kind_rules`, which has the
rules of each kind.
Tests: tests/apiserver/test_rules.py, tests/conformance/test_kinds.py, tests/conformance/test_subresources.py.
"""
