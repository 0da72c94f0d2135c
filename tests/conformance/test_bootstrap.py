"""The objects that a server makes at its start."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.site import Site
from tests.conformance.versions import Minor

RBAC = "/apis/rbac.authorization.k8s.io/v1"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
SYSTEM = "/namespaces/kube-system"


@pytest.fixture
def embedded_options() -> dict[str, Any]:
    return {"bootstrap": True}


async def read(site: Site, path: str) -> dict[str, Any]:
    """GET an object, which is kept without its field managers: some were named by another program meanwhile."""
    reply = await site.ask("GET", path, kept=False)
    assert reply.status == 200, (path, reply.body)
    found: dict[str, Any] = reply.json
    found["metadata"].pop("managedFields", None)
    kept = site.transcript.request("GET", path, {}, None)
    site.transcript.answer(kept, reply.status, reply.headers, found)
    return found


async def test_the_service_kubernetes_has_the_first_address(site: Site, kubernetes: Minor) -> None:
    reply = await site.ask("GET", "/api/v1/namespaces/default/services/kubernetes", kept=False)
    spec = reply.json["spec"]
    assert (spec["clusterIP"], spec["type"]) == ("10.0.0.1", "ClusterIP")
    port = int(site.server.url.rpartition(":")[2])
    assert spec["ports"] == [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]
    if kubernetes >= Minor(1, 33):  # the first with these two
        await read(site, "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        await read(site, "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1")


async def test_the_roles_of_every_cluster_are_there(site: Site) -> None:
    for name in ("cluster-admin", "system:discovery", "system:kube-scheduler", "system:controller:job-controller"):
        await read(site, f"{RBAC}/clusterroles/{name}")
    for name in ("cluster-admin", "system:basic-user", "system:controller:job-controller"):
        await read(site, f"{RBAC}/clusterrolebindings/{name}")
    await read(site, f"{RBAC}{SYSTEM}/roles/extension-apiserver-authentication-reader")
    await read(site, f"{RBAC}{SYSTEM}/rolebindings/system::extension-apiserver-authentication-reader")


async def test_priorities_and_flow_control_are_there(site: Site) -> None:
    for name in ("system-cluster-critical", "system-node-critical"):
        await read(site, f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
    for name in ("exempt", "global-default", "service-accounts"):
        await read(site, f"{FLOW}/flowschemas/{name}")
    for name in ("exempt", "catch-all", "workload-high"):
        await read(site, f"{FLOW}/prioritylevelconfigurations/{name}")


async def test_each_version_that_is_served_has_its_apiservice(site: Site) -> None:
    reply = await site.ask("GET", "/apis/apiregistration.k8s.io/v1/apiservices", kept=False)
    local = [one for one in reply.json["items"] if one["metadata"]["labels"].values() == {"onstart"}]
    names = {one["metadata"]["name"] for one in reply.json["items"]}
    assert {"v1.", "v1.apps", "v1.batch", "v2.autoscaling", "v1.rbac.authorization.k8s.io"} <= names
    for one in local:
        assert one["status"]["conditions"][0]["type"] == "Available"
    await read(site, "/apis/apiregistration.k8s.io/v1/apiservices/v1.")
    await read(site, "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps")
