"""Records what a real kube-apiserver makes at its start, for the embedded server: `bootstrap.json`.

    python -m tests.conformance.record_bootstrap        # writes kinformer/testing/kinds/bootstrap.json

What the server fills in at a write of its own (uid, versions, times, field managers) is left out; so are the
namespaces, which are there anyway, and what has a date in its data.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from kinformer import Client
from kinformer.testing import ControlPlane
from tests.conformance.build_assets import HERE, assets_folder

TARGET = HERE.parents[1] / "kinformer" / "testing" / "kinds" / "bootstrap.json"
RESOURCES = (
    "/api/v1/services",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/api/v1/endpoints",
    "/apis/networking.k8s.io/v1/servicecidrs",
    "/apis/networking.k8s.io/v1/ipaddresses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/apis/apiregistration.k8s.io/v1/apiservices",
)
ADDRESS = "192.0.2.1"  # of documentation: an endpoint must not be on loopback
OWNED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
SETTLED = 5.0  # seconds for the controllers inside the server
Object = dict[str, Any]


async def record(assets: Path) -> list[Object]:
    flags = ["--endpoint-reconciler-type=master-count", f"--advertise-address={ADDRESS}"]
    found: list[Object] = []
    async with ControlPlane(assets, api_server_flags=flags) as control_plane, control_plane.client() as client:
        await asyncio.sleep(SETTLED)
        for path in RESOURCES:
            found += await _objects(client, path)
    return found


async def _objects(client: Client, path: str) -> list[Object]:
    listed = await client.request("GET", path)
    head = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
    return [{**head, **_bare(item)} for item in listed["items"]]


def _bare(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in OWNED}
    for condition in (obj.get("status") or {}).get("conditions") or ():
        condition.pop("lastTransitionTime", None)
    return {**obj, "metadata": metadata}


def main() -> None:
    objects = asyncio.run(record(assets_folder()))
    lines = ",\n".join(json.dumps(one, sort_keys=True) for one in objects)
    TARGET.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
