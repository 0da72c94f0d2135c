"""The clients that are measured beside kinformer, by the names that the results have for them.

It imports nothing outside the standard library, so that tests need nothing of what the benchmarks need.
"""

from __future__ import annotations

from benchmarks import go_client, rust_client

__all__ = ["CLIENTS", "PROGRAMS", "SYNCS"]

PROGRAMS = {"client-go": go_client, "kube-rs": rust_client}
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
