"""The state of the embedded server: objects under one global revision, their owners and their selection.

May import: `codec`, `kinds`.
Tests: tests/apiserver/test_retention.py, tests/apiserver/test_apply.py, tests/conformance/test_apply.py.
"""
