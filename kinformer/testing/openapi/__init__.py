"""OpenAPI v3 and v2 of what is served, as JSON and as protobuf.

May import: `store`, `codec`, `kinds`.
Reading order: document, v2_schema, protobuf.
"""
