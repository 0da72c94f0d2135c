"""The clients that are measured beside kinformer, by the names that the results have for them.

It imports nothing, so that the page of results can be tested without what the benchmarks need.
"""

from __future__ import annotations

__all__ = ["CLIENTS", "SYNCS"]

SYNCS = {
    "kinformer": "list",
    "kinformer, three `fields`": "list, three fields",
    "kinformer, `compact`": "list, compact",
    "client-go, protobuf": "client-go protobuf list",
    "client-go, JSON": "client-go json list",
    "kube-rs": "kube-rs list",
    "kubernetes, its informer": "official",
}
CLIENTS = ("kinformer", "client-go, protobuf", "kube-rs")
