"""The admission plugins that depend on other objects: priorities, runtime classes, limits, policies and quotas.

Owns compiled policies. May import: `rules`, `store`, `cel`, `codec`, `kinds`. Read `attributes`, `plugins`, then any.
Tests: tests/conformance/test_admission.py, tests/conformance/test_subresources.py.
"""
