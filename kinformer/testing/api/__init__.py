"""The API verbs without HTTP: list, watch, create, update, patch, apply and delete, and discovery.

May import: `rules`, `store`, `codec`, `kinds`.
Tests: tests/apiserver, tests/conformance/test_objects.py, tests/conformance/test_apply.py.
"""
