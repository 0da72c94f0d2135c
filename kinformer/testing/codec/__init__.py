"""The forms of an object: JSON, YAML and protobuf bodies, patches, typed decoding, tables and field sets.

May import: `kinds`.
Tests: tests/conformance/test_patches.py, tests/conformance/test_apply.py, tests/apiserver/test_features.py.
"""
