"""The part of the suite that runs: the tests of an API server, without nodes that run anything."""

from __future__ import annotations

__all__ = ["FOCUS", "SKIP"]

_TOPICS = (
    "API Streaming",
    "AggregatedDiscovery",
    "API priority and fairness should support",
    "CRDValidationRatcheting",
    "CustomResource",
    "Discovery",
    "FieldValidation",
    "Generated clientset",
    "MutatingAdmissionPolicy.*support",
    "ValidatingAdmissionPolicy.*(support|type check)",
    "OpenAPIV3",
    "Server request timeout",
    "ServerSideApply",
    "Servers with support",
    "Watchers",
    "client-go",
    "health",
    "server version",
    "Garbage",
    "Namespaces",
    "OrderedNamespace",
)
FOCUS = f"sig-api-machinery.*({'|'.join(_TOPICS)})"
# A webhook or an aggregated server would have to run in a Pod; etcd would have to compact by itself, after five
# minutes; a hundred namespaces are a load test; CBOR is an alpha feature; the embedded server does not estimate costs.
SKIP = (
    "ConversionWebhook|compacted away|Aggregated APIServer|100 namespaces|Feature:CBOR|exceeds the estimated cost limit"
)
