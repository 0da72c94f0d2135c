"""The objects that the factories of the pytest plugin make."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer.exceptions import InvalidError
from kinformer.objects import controller_of
from tests.support.kube import pod


async def test_what_is_made_names_its_owner_and_its_finalizers(make_object: Any, make_deployment: Any) -> None:
    owner = await make_object(api_version="v1", kind="ConfigMap")
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"finalizers": ["example.com/one"]}}
    secret = await make_object(manifest, owner=owner, finalizers=["example.com/two"])
    assert secret["metadata"]["finalizers"] == ["example.com/one", "example.com/two"]
    deployment = await make_deployment(owner=owner, finalizers=["example.com/one"])
    for obj in (secret, deployment):
        found = controller_of(obj)
        assert found is not None
        assert (found.kind, found.name, found.uid) == ("ConfigMap", owner.name, owner.uid)


async def test_a_manifest_stays_as_it_was(make_object: Any, make_pod: Any, kube_namespace: str) -> None:
    owner = await make_pod()
    manifest = pod("a")
    del manifest["metadata"]["namespace"]
    made = await make_object(manifest, owner=owner, labels={"app": "web"}, finalizers=["example.com/one"])
    assert made.namespace == kube_namespace
    assert made.path("status.phase") == "Running"
    assert manifest["metadata"] == {"name": "a"}


async def test_an_owner_of_another_namespace_is_refused(make_pod: Any) -> None:
    with pytest.raises(ValueError, match="cannot own"):
        await make_pod(namespace="default", owner=await make_pod())


async def test_a_finalizer_without_a_domain_is_refused_by_the_server(make_pod: Any) -> None:
    with pytest.raises(InvalidError, match="finalizers"):
        await make_pod(finalizers=["mine"])
