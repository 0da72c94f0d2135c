"""From a request to its answer: routing, authentication, content negotiation, streaming and deliberate failures.

May import: `api` and below, `kinformer.testing.faults`.
"""
