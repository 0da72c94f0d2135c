"""kubernetes_asyncio against both servers."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kubernetes_asyncio import client, config, dynamic, watch
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.leaderelection.electionconfig import Config
from kubernetes_asyncio.leaderelection.leaderelection import LeaderElection
from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock

from kinformer.testing import ClusterServer
from tests.conformance.api import WIDGETS
from tests.conformance.test_objects import configmap, deployment, pod


@pytest_asyncio.fixture
async def api_client(server: ClusterServer, tmp_path: Path) -> AsyncIterator[client.ApiClient]:
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    async with await config.new_client_from_config(str(kubeconfig)) as found:
        yield found


async def test_core_v1(api_client: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api_client)
    made = await core.create_namespaced_config_map(namespace, configmap("a", x="1"))
    assert (made.metadata.name, made.data) == ("a", {"x": "1"})
    assert isinstance(made.metadata.creation_timestamp, datetime.datetime)
    patched = await core.patch_namespaced_config_map("a", namespace, {"data": {"y": "2"}})
    assert patched.data == {"x": "1", "y": "2"}
    patched.data = {"z": "3"}
    replaced = await core.replace_namespaced_config_map("a", namespace, patched)
    assert replaced.data == {"z": "3"}
    with pytest.raises(ApiException) as conflict:
        await core.replace_namespaced_config_map("a", namespace, patched)
    assert (conflict.value.status, json.loads(conflict.value.body)["reason"]) == (409, "Conflict")
    listed = await core.list_namespaced_config_map(namespace, label_selector="none=such")
    assert listed.items == []
    assert (await core.delete_namespaced_config_map("a", namespace)).status == "Success"
    with pytest.raises(ApiException) as missing:
        await core.read_namespaced_config_map("a", namespace)
    assert (missing.value.status, json.loads(missing.value.body)["reason"]) == (404, "NotFound")


async def test_pods_and_their_status(api_client: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api_client)
    container = client.V1Container(name="main", image="registry.invalid/main:1", env=[client.V1EnvVar("A", "1")])
    body = client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=client.V1PodSpec(containers=[container]))
    made = await core.create_namespaced_pod(namespace, body)
    assert (made.status.phase, made.spec.restart_policy) == ("Pending", "Always")
    running = await core.patch_namespaced_pod_status("p", namespace, {"status": {"phase": "Running"}})
    assert running.status.phase == "Running"
    deleted = await core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)
    assert deleted.metadata.name == "p"


async def test_apps_v1(api_client: client.ApiClient, namespace: str) -> None:
    apps = client.AppsV1Api(api_client)
    made = await apps.create_namespaced_deployment(namespace, deployment("d", 1))
    assert made.spec.strategy.type == "RollingUpdate"
    scale = await apps.read_namespaced_deployment_scale("d", namespace)
    scale.spec.replicas = 3
    assert (await apps.replace_namespaced_deployment_scale("d", namespace, scale)).spec.replicas == 3
    container = {"name": "main", "image": "registry.invalid/main:2"}
    body = {"spec": {"template": {"spec": {"containers": [container]}}}}
    patched = await apps.patch_namespaced_deployment("d", namespace, body)
    assert patched.spec.template.spec.containers[0].image == "registry.invalid/main:2"
    assert (patched.metadata.generation, patched.spec.replicas) == (3, 3)
    everywhere = await apps.list_deployment_for_all_namespaces(field_selector=f"metadata.namespace={namespace}")
    assert [item.metadata.name for item in everywhere.items] == ["d"]
    await apps.delete_collection_namespaced_deployment(namespace)
    assert (await apps.list_namespaced_deployment(namespace)).items == []


async def test_pages(api_client: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api_client)
    for number in range(5):
        await core.create_namespaced_config_map(namespace, configmap(f"c{number}"))
    names, token = [], None
    while True:
        page = await core.list_namespaced_config_map(namespace, limit=2, _continue=token)
        names += [item.metadata.name for item in page.items if item.metadata.name != "kube-root-ca.crt"]
        token = page.metadata._continue  # its public name there
        if not token:
            break
    assert names == [f"c{number}" for number in range(5)]


async def test_custom_objects(api_client: client.ApiClient, server: ClusterServer, namespace: str) -> None:
    group = f"{namespace}.example.com"
    await server.install_crds(json.loads(json.dumps(WIDGETS).replace("example.com", group)))
    api = client.CustomObjectsApi(api_client)
    where: tuple[str, ...] = (group, "v1", namespace, "widgets")
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"n": 1}}
    made = await api.create_namespaced_custom_object(*where, widget)
    assert made["spec"] == {"n": 1}
    patched = await api.patch_namespaced_custom_object(
        *where, "w", {"spec": {"m": 2}}, _content_type="application/merge-patch+json"
    )
    assert patched["spec"] == {"n": 1, "m": 2}
    applied = await api.patch_namespaced_custom_object(
        *where, "w", widget, field_manager="me", force=True, _content_type="application/apply-patch+yaml"
    )
    assert {entry["manager"] for entry in applied["metadata"]["managedFields"]} >= {"me"}
    assert [item["metadata"]["name"] for item in (await api.list_namespaced_custom_object(*where))["items"]] == ["w"]
    assert (await api.delete_namespaced_custom_object(*where, "w"))["status"] == "Success"


async def test_watch(api_client: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api_client)
    await core.create_namespaced_pod(namespace, pod("a"))
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(20), watch.Watch() as stream:
        async for event in stream.stream(core.list_namespaced_pod, namespace, timeout_seconds=10):
            found.append((event["type"], event["object"].metadata.name))
            if found == [("ADDED", "a")]:
                await core.create_namespaced_pod(namespace, pod("b"))
                await core.patch_namespaced_pod("a", namespace, {"metadata": {"labels": {"x": "1"}}})
                await core.delete_namespaced_pod("b", namespace, grace_period_seconds=0)
            if event["type"] == "DELETED":
                break
    # a Pod is marked as deleted before it is
    assert found == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_a_watch_goes_on_from_its_own_version(api_client: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api_client)
    await core.create_namespaced_pod(namespace, pod("a"))
    async with asyncio.timeout(20), watch.Watch() as stream:
        async for event in stream.stream(core.list_namespaced_pod, namespace, timeout_seconds=1):
            assert event["object"].metadata.name == "a"
            break
        version = stream.resource_version
        await core.create_namespaced_pod(namespace, pod("b"))
        async for event in stream.stream(core.list_namespaced_pod, namespace, resource_version=version):
            assert (event["type"], event["object"].metadata.name) == ("ADDED", "b")
            break


async def test_the_dynamic_client(api_client: client.ApiClient, namespace: str) -> None:
    found = await dynamic.DynamicClient(api_client)
    deployments = await found.resources.get(api_version="apps/v1", kind="Deployment")
    made = await deployments.create(body=deployment("d", 1), namespace=namespace)
    assert made.spec.replicas == 1
    body = {"spec": {"replicas": 2}}
    patched = await deployments.patch(
        body=body, name="d", namespace=namespace, content_type="application/merge-patch+json"
    )
    assert patched.spec.replicas == 2
    listed = await deployments.get(namespace=namespace)
    assert [item.metadata.name for item in listed.items] == ["d"]
    configmaps = await found.resources.get(api_version="v1", kind="ConfigMap")
    applied = await configmaps.server_side_apply(body=configmap("c", x="1"), namespace=namespace, field_manager="me")
    assert applied.data.x == "1"
    await deployments.delete(name="d", namespace=namespace)
    assert (await deployments.get(namespace=namespace)).items == []


@pytest.mark.slow
async def test_leader_election_on_a_lease(api_client: client.ApiClient, namespace: str) -> None:
    led: list[str] = []
    leading = {name: asyncio.Event() for name in ("one", "two")}

    def candidate(name: str) -> LeaderElection:
        async def started() -> None:
            led.append(name)
            leading[name].set()
            await asyncio.sleep(3600)

        async def stopped() -> None:
            led.append(f"{name} stopped")

        lock = LeaseLock("the-lease", namespace, name, api_client)
        return LeaderElection(
            Config(
                lock,
                lease_duration=3,
                renew_deadline=2,
                retry_period=1,
                onstarted_leading=started,
                onstopped_leading=stopped,
            )
        )

    async def end(task: asyncio.Task[Any]) -> None:
        task.cancel()
        await asyncio.wait([task])

    before = asyncio.all_tasks()
    first = asyncio.create_task(candidate("one").run())
    async with asyncio.timeout(20):
        await leading["one"].wait()
    second = asyncio.create_task(candidate("two").run())
    lease = await client.CoordinationV1Api(api_client).read_namespaced_lease("the-lease", namespace)
    assert (lease.spec.holder_identity, lease.spec.lease_transitions or 0) == ("one", 0)
    await end(first)
    async with asyncio.timeout(20):
        await leading["two"].wait()
    lease = await client.CoordinationV1Api(api_client).read_namespaced_lease("the-lease", namespace)
    assert lease.spec.holder_identity == "two"
    assert [name for name in led if "stopped" not in name] == ["one", "two"]
    await end(second)
    for task in asyncio.all_tasks() - before - {asyncio.current_task()}:
        await end(task)  # what the library started and forgot
