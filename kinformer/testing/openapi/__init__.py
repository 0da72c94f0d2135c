"""OpenAPI v3 and v2 documents of the served kinds, as JSON and as protobuf.

May import: `store`, `codec`, `kinds`.
Reading order: document, v2_schema, protobuf.
Tests: tests/apiserver/test_features.py, tests/conformance/test_definition_rules.py.
"""
