"""HTTP layer of the embedded server: routing, authentication, content negotiation, streaming and faults.

May import: `api` and below, `kinformer.testing.faults`.
Tests: tests/apiserver, tests/faults, tests/conformance/test_requests.py.
"""
