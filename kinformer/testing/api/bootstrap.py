"""The objects that a kube-apiserver creates when it starts (recorded from v1.36 in `kinds/bootstrap.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec

from kinformer.testing.api.write import Writer
from kinformer.testing.api.write_options import WriteOptions
from kinformer.testing.store.ownership import FieldManager

__all__ = ["FAIRNESS", "make_bootstrap_objects"]

Object = dict[str, Any]

FAIRNESS = {
    "FlowSchema": "X-Kubernetes-PF-FlowSchema-UID",
    "PriorityLevelConfiguration": "X-Kubernetes-PF-PriorityLevel-UID",
}
"""The kinds of API priority and fairness, and the header field with the uid of the object that applied to a request."""


def make_bootstrap_objects(writer: Writer, host: str, port: int, fairness: Mapping[str, str]) -> None:
    """Create the bootstrap objects.

    Args:
        writer: The server's writer.
        host, port: Its address, for the endpoints of the Service `kubernetes`.
        fairness: The uids of the objects `exempt`, by their kinds of `FAIRNESS`.
    """
    registry, now = writer.ledger.registry, writer.ledger.timestamp()
    options = WriteOptions(FieldManager("kube-apiserver"), admin=True, validation="Ignore")
    for obj in msgspec.json.decode(files("kinformer.testing.kinds").joinpath("bootstrap.json").read_bytes()):
        _place(obj, host, port)
        if obj["metadata"]["name"] == "exempt":
            obj["metadata"]["uid"] = fairness[obj["kind"]]
        for condition in (obj.get("status") or {}).get("conditions") or ():
            condition["lastTransitionTime"] = now
        resource = registry.of_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None, "recorded from the same version as the kinds"
        writer.create(resource, obj["metadata"].get("namespace", ""), obj, options)


def _place(obj: Object, host: str, port: int) -> None:
    """Put the server's address into objects that refer to it."""
    if obj["kind"] == "Service":
        obj["spec"]["ports"][0]["targetPort"] = port
    elif obj["kind"] == "EndpointSlice":
        obj["endpoints"][0]["addresses"] = [host]
        obj["ports"][0]["port"] = port
    elif obj["kind"] == "Endpoints":
        obj["subsets"][0]["addresses"] = [{"ip": host}]
        obj["subsets"][0]["ports"][0]["port"] = port
