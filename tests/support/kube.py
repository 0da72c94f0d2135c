"""Small objects for tests."""

from __future__ import annotations

from typing import Any

from kinformer import KubeObject


def config_map(
    name: str = "a",
    *,
    namespace: str = "default",
    rv: int | str = 1,
    uid: str | None = None,
    labels: dict[str, str] | None = None,
    data: dict[str, str] | None = None,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    metadata |= {"uid": uid or f"uid-{namespace}-{name}", "resourceVersion": str(rv)}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"v": str(rv)}}


def entry(name: str = "a", **fields: Any) -> KubeObject:
    return KubeObject.from_dict(config_map(name, **fields))
