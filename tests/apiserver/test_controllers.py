"""`server.run_controllers()`: Deployments roll out, Jobs run, Services get endpoints, dependents are collected."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kinformer import Client
from kinformer.conditions import is_deployment_rolled_out, is_job_complete, is_job_failed, matches
from kinformer.exceptions import ServerError
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map, widget, widget_definition
from tests.support.waiting import until

DEPLOYMENTS, SETS, PODS, JOBS = "apps/v1/deployments", "apps/v1/replicasets", "v1/pods", "batch/v1/jobs"
SLICES, SERVICES = "discovery.k8s.io/v1/endpointslices", "v1/services"
WEB = "default/web"

pytestmark = pytest.mark.virtual_time


def deployment(name: str = "web", replicas: int = 3, image: str = "i:1", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def job(name: str = "work", **spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i:1"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": pod}, **spec},
    }


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


def rolled_out(image: str) -> Any:
    """The condition that a Deployment has rolled this image out."""
    return lambda obj: (
        is_deployment_rolled_out(obj) and obj["spec"]["template"]["spec"]["containers"][0]["image"] == image
    )


def change(server: APIServer, resource: str, name: str, **spec: Any) -> None:
    """Change fields of a spec, as an administrator."""
    found = server.get(resource, "default", name)
    assert found is not None
    server.update({**found, "spec": {**found["spec"], **spec}})


def with_image(server: APIServer, image: str) -> None:
    change(server, DEPLOYMENTS, "web", template=deployment(image=image)["spec"]["template"])


def pods(server: APIServer) -> list[dict[str, Any]]:
    return server.list(PODS, "default")


def names(server: APIServer, resource: str = PODS) -> list[str]:
    return [one["metadata"]["name"] for one in server.list(resource, "default")]


def reason(obj: Mapping[str, Any], kind: str) -> str | None:
    return next((one["reason"] for one in obj["status"]["conditions"] if one["type"] == kind), None)


# -- deployments ------------------------------------------------------------------------------------------------------


async def test_a_deployment_gets_a_replica_set_and_pods_as_in_a_cluster(server: APIServer, client: Client) -> None:
    async with server.run_controllers():
        await client.request("POST", "/apis/apps/v1/namespaces/default/deployments", body=deployment())
        done = await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
    [replica_set] = server.list(SETS)
    marks = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{marks}"
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": marks}
    assert replica_set["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
        "deployment.kubernetes.io/revision": "1",
    }
    assert len(pods(server)) == 3
    for pod in pods(server):
        [owner] = pod["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (replica_set["metadata"]["uid"], True)
        assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": marks}
        assert (pod["status"]["phase"], pod["status"]["podIP"][:7]) == ("Running", "10.244.")
    assert done is not None
    assert done.annotations["deployment.kubernetes.io/revision"] == "1"
    status = {**done["status"], "conditions": None}
    counts = {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
    assert status == {"observedGeneration": 1, "terminatingReplicas": 0, **counts, "conditions": None}
    assert reason(done, "Available") == "MinimumReplicasAvailable"
    assert reason(done, "Progressing") == "NewReplicaSetAvailable"


@pytest.mark.parametrize(("surge", "missing"), [(1, 0), (0, 1), ("50%", "50%"), (2, 1), ("0%", "0%")])
async def test_a_rollout_keeps_within_surge_and_unavailability(
    server: APIServer, client: Client, surge: int | str, missing: int | str
) -> None:
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}
    server.create(deployment(replicas=4, strategy={"type": "RollingUpdate", **strategy}))
    most = 4 + (2 if surge in ("50%", 2) else 1 if surge == 1 else 0)
    least = 4 - (2 if missing == "50%" else 0 if missing == 0 else 1)
    seen: list[tuple[int, int]] = []
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)

        async def look() -> None:
            while True:
                alive = [pod for pod in pods(server) if "deletionTimestamp" not in pod["metadata"]]
                seen.append((len(alive), sum(pod["status"]["phase"] == "Running" for pod in alive)))
                await asyncio.sleep(0.01)

        looking = asyncio.create_task(look())
        with_image(server, "i:2")
        await client.wait_for(DEPLOYMENTS, WEB, rolled_out("i:2"), timeout=30)
        looking.cancel()
    assert max(count for count, _ in seen) == most
    assert min(ready for _, ready in seen) == least
    assert {pod["spec"]["containers"][0]["image"] for pod in pods(server)} == {"i:2"}
    assert sorted(one["spec"]["replicas"] for one in server.list(SETS)) == [0, 4]


async def test_a_rollback_takes_the_old_replica_set_with_a_new_revision(server: APIServer, client: Client) -> None:
    server.create(deployment())
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        [first] = names(server, SETS)
        with_image(server, "i:2")
        await client.wait_for(DEPLOYMENTS, WEB, rolled_out("i:2"), timeout=30)
        with_image(server, "i:1")
        done = await client.wait_for(DEPLOYMENTS, WEB, rolled_out("i:1"), timeout=30)
    again = server.get(SETS, "default", first)
    assert again is not None
    assert done is not None
    assert (len(names(server, SETS)), again["spec"]["replicas"]) == (2, 3)
    prefix = "deployment.kubernetes.io"
    assert again["metadata"]["annotations"][f"{prefix}/revision"] == done.annotations[f"{prefix}/revision"] == "3"
    assert again["metadata"]["annotations"][f"{prefix}/revision-history"] == "1"


async def test_a_deployment_is_scaled_also_by_its_subresource(server: APIServer, client: Client) -> None:
    server.create(deployment())
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        path = "/apis/apps/v1/namespaces/default/deployments/web/scale"
        await client.request("PATCH", path, body={"spec": {"replicas": 5}})
        await client.wait_for(DEPLOYMENTS, WEB, matches("status.availableReplicas", 5), timeout=10)
        await client.request("PATCH", path, body={"spec": {"replicas": 1}})
        await until(lambda: len(pods(server)) == 1)
        await client.request("PATCH", path, body={"spec": {"replicas": 0}})
        done = await client.wait_for(DEPLOYMENTS, WEB, lambda one: one and "replicas" not in one["status"], timeout=10)
    assert done is not None
    assert len(names(server, SETS)) == 1
    assert reason(done, "Progressing") == "NewReplicaSetAvailable"


async def test_a_scale_during_a_rollout_is_shared_in_proportion(server: APIServer, client: Client) -> None:
    server.create(deployment(replicas=10))
    fate = {"i:1": None, "i:2": "Waiting"}

    def outcome(pod: Mapping[str, Any]) -> Any:
        return fate[pod["spec"]["containers"][0]["image"]]

    async with server.run_controllers(outcome=outcome):
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        with_image(server, "i:2")
        await until(lambda: sorted(one["spec"]["replicas"] for one in server.list(SETS)) == [5, 8])
        change(server, DEPLOYMENTS, "web", replicas=20)
        await until(lambda: sum(one["spec"]["replicas"] for one in server.list(SETS)) == 25)
    assert sorted(one["spec"]["replicas"] for one in server.list(SETS)) == [10, 15]


async def test_a_paused_deployment_waits_until_it_is_resumed(server: APIServer, client: Client) -> None:
    server.create(deployment())
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        change(server, DEPLOYMENTS, "web", paused=True)
        with_image(server, "i:2")
        await client.wait_for(DEPLOYMENTS, WEB, lambda one: one and reason(one, "Progressing") == "DeploymentPaused")
        await asyncio.sleep(5)
        assert len(names(server, SETS)) == 1
        change(server, DEPLOYMENTS, "web", paused=False)
        await client.wait_for(DEPLOYMENTS, WEB, rolled_out("i:2"), timeout=30)


async def test_recreate_starts_new_pods_when_the_old_ones_are_gone(server: APIServer, client: Client) -> None:
    server.create(node("n-1"))
    server.create(deployment(strategy={"type": "Recreate"}))
    async with server.run_controllers(shutdown=2):
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        with_image(server, "i:2")
        images: list[set[str]] = []
        for _ in range(40):
            images.append({pod["spec"]["containers"][0]["image"] for pod in pods(server)})
            await asyncio.sleep(0.1)
        await client.wait_for(DEPLOYMENTS, WEB, rolled_out("i:2"), timeout=10)
    assert {"i:1", "i:2"} not in images
    assert images[0] == {"i:1"}
    assert images[-1] == {"i:2"}


async def test_a_rollout_that_does_not_progress_times_out(server: APIServer, client: Client) -> None:
    server.create(deployment(progressDeadlineSeconds=60))
    started = asyncio.get_running_loop().time()
    async with server.run_controllers(outcome=lambda pod: "Waiting"):
        done = await client.wait_for(
            DEPLOYMENTS, WEB, lambda one: one and reason(one, "Progressing") == "ProgressDeadlineExceeded", timeout=120
        )
        assert 59 < asyncio.get_running_loop().time() - started < 65
    assert done is not None
    assert reason(done, "Available") == "MinimumReplicasUnavailable"
    assert done["status"]["unavailableReplicas"] == 3


async def test_a_pod_is_available_after_min_ready_seconds(server: APIServer, client: Client) -> None:
    server.create(deployment(minReadySeconds=30))
    started = asyncio.get_running_loop().time()
    async with server.run_controllers():
        ready = await client.wait_for(DEPLOYMENTS, WEB, matches("status.readyReplicas", 3), timeout=60)
        assert ready is not None
        assert "availableReplicas" not in ready["status"]
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=60)
    assert asyncio.get_running_loop().time() - started > 30


async def test_old_replica_sets_are_removed_above_the_limit(server: APIServer, client: Client) -> None:
    server.create(deployment(replicas=1, revisionHistoryLimit=1))
    async with server.run_controllers():
        for number in range(1, 5):
            with_image(server, f"i:{number}")
            await client.wait_for(DEPLOYMENTS, WEB, rolled_out(f"i:{number}"), timeout=30)
        await until(lambda: len(names(server, SETS)) == 2)


async def test_a_refused_pod_is_said_in_the_status_and_tried_again(server: APIServer, client: Client) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    used = {"hard": {"pods": "1"}, "used": {"pods": "0"}}
    server.create(quota | {"spec": {"hard": {"pods": "1"}}, "status": used})
    server.create(deployment())
    async with server.run_controllers():
        done = await client.wait_for(
            DEPLOYMENTS, WEB, lambda one: one and reason(one, "ReplicaFailure") == "FailedCreate", timeout=10
        )
        assert done is not None
        assert len(pods(server)) == 1
        server.delete("v1/resourcequotas", "default", "q")
        done = await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=60)
    assert done is not None
    assert reason(done, "ReplicaFailure") is None


# -- replica sets -----------------------------------------------------------------------------------------------------


async def test_a_lost_pod_is_replaced_and_a_lonely_one_adopted(server: APIServer, client: Client) -> None:
    server.create(deployment())
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        lost, freed, _ = pods(server)
        server.delete(PODS, "default", lost["metadata"]["name"])
        server.update({**freed, "metadata": {**freed["metadata"], "labels": {"app": "other"}}})
        await until(lambda: len(pods(server)) == 4)
        alone = server.get(PODS, "default", freed["metadata"]["name"])
        assert alone is not None
        assert not alone["metadata"].get("ownerReferences")
        server.update({**alone, "metadata": {**alone["metadata"], "labels": freed["metadata"]["labels"]}})
        await until(lambda: len(pods(server)) == 3)


async def test_a_replica_set_removes_what_serves_least_first(server: APIServer, client: Client) -> None:
    server.create(deployment(replicas=4))
    broken: set[str] = set()
    async with server.run_controllers(outcome=lambda pod: "Unready" if pod["metadata"]["name"] in broken else None):
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        first, second, third, fourth = pods(server)
        first["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        server.update(first)
        cheap = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
        server.update({**third, "metadata": {**third["metadata"], "annotations": cheap}})
        change(server, DEPLOYMENTS, "web", replicas=2)
        await until(lambda: len(pods(server)) == 2)
    assert names(server) == [second["metadata"]["name"], fourth["metadata"]["name"]]


# -- jobs -------------------------------------------------------------------------------------------------------------


async def test_a_job_completes(server: APIServer, client: Client) -> None:
    server.create(job(completions=3, parallelism=2))
    most = 0
    async with server.run_controllers(runtime=1):

        def active() -> bool:
            nonlocal most
            most = max(most, sum(pod["status"]["phase"] in ("Pending", "Running") for pod in pods(server)))
            return is_job_complete(server.get(JOBS, "default", "work"))

        await until(active)
    done = server.get(JOBS, "default", "work")
    assert done is not None
    assert most == 2
    assert (done["status"]["succeeded"], "active" in done["status"], len(pods(server))) == (3, False, 3)
    assert [one["type"] for one in done["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert {"startTime", "completionTime"} <= done["status"].keys()
    assert all("finalizers" not in pod["metadata"] for pod in pods(server))
    assert {pod["metadata"]["labels"]["job-name"] for pod in pods(server)} == {"work"}


async def test_a_job_that_fails_pauses_longer_each_time_and_gives_up(server: APIServer, client: Client) -> None:
    server.create(job(backoffLimit=2))
    started = asyncio.get_running_loop().time()
    async with server.run_controllers(outcome=lambda pod: "Failed" if pod["status"]["phase"] == "Running" else None):
        done = await client.wait_for(JOBS, "default/work", is_job_failed, timeout=300)
        assert 30 < asyncio.get_running_loop().time() - started < 35
    assert done is not None
    assert (done["status"]["failed"], reason(done, "Failed")) == (3, "BackoffLimitExceeded")


async def test_an_indexed_job_runs_each_index_once(server: APIServer, client: Client) -> None:
    server.create(job(completions=4, parallelism=4, completionMode="Indexed"))
    async with server.run_controllers():
        done = await client.wait_for(JOBS, "default/work", is_job_complete, timeout=30)
    assert done is not None
    assert done["status"]["completedIndexes"] == "0-3"
    assert [name[:7] for name in names(server)] == ["work-0-", "work-1-", "work-2-", "work-3-"]


async def test_a_job_is_suspended_ends_at_its_deadline_and_is_removed_after_its_time(
    server: APIServer, client: Client
) -> None:
    server.create(job("later", suspend=True, ttlSecondsAfterFinished=100))
    server.create(job("long", activeDeadlineSeconds=20))
    async with server.run_controllers(runtime=60):
        await client.wait_for(JOBS, "default/later", lambda one: one and reason(one, "Suspended") == "JobSuspended")
        assert [name[:5] for name in names(server)] == ["long-"]
        ended = await client.wait_for(JOBS, "default/long", is_job_failed, timeout=60)
        assert ended is not None
        assert reason(ended, "Failed") == "DeadlineExceeded"
        change(server, JOBS, "later", suspend=False)
        await client.wait_for(JOBS, "default/later", is_job_complete, timeout=120)
        await asyncio.sleep(95)
        assert server.get(JOBS, "default", "later") is not None
        await until(lambda: server.get(JOBS, "default", "later") is None)
        await until(lambda: not any(name.startswith("later-") for name in names(server)))


# -- services ---------------------------------------------------------------------------------------------------------


def service(**spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    metadata = {"name": "web", "namespace": "default", "labels": {"team": "a"}}
    spec = {"selector": {"app": "web"}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def endpoints(server: APIServer) -> list[tuple[bool, bool]]:
    [found] = server.list(SLICES, "default")
    conditions = [one["conditions"] for one in found["endpoints"] or ()]
    return sorted((one["ready"], one["terminating"]) for one in conditions)


async def test_a_service_has_the_endpoints_of_its_pods(server: APIServer, client: Client) -> None:
    server.create(node("n-1"))
    server.create(service())
    async with server.run_controllers(shutdown=5):
        await until(lambda: len(server.list(SLICES, "default")) == 1)
        assert endpoints(server) == []
        server.create(deployment())
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        await until(lambda: endpoints(server) == [(True, False)] * 3)
        [found] = server.list(SLICES, "default")
        assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        assert found["metadata"]["labels"]["team"] == "a"
        assert {one["nodeName"] for one in found["endpoints"]} == {"n-1"}
        assert {one["targetRef"]["name"] for one in found["endpoints"]} == set(names(server))
        [first, *_] = names(server)
        await client.request("DELETE", f"/api/v1/namespaces/default/pods/{first}")
        await until(lambda: endpoints(server) == [(False, True), (True, False), (True, False), (True, False)])
        await until(lambda: endpoints(server) == [(True, False)] * 3)
        server.delete(SLICES, "default", found["metadata"]["name"])
        await until(lambda: bool(server.list(SLICES, "default")) and endpoints(server) == [(True, False)] * 3)
        await client.request("DELETE", "/api/v1/namespaces/default/services/web")
        await until(lambda: not server.list(SLICES, "default"))


def subsets(server: APIServer) -> list[dict[str, Any]]:
    found = server.get("v1/endpoints", "default", "web")
    return (found or {}).get("subsets") or []


async def test_endpoints_say_the_same_as_the_slices(server: APIServer, client: Client) -> None:
    server.create(node("n-1"))
    server.create(service())
    async with server.run_controllers(shutdown=5):
        await until(lambda: server.get("v1/endpoints", "default", "web") is not None)
        assert subsets(server) == []
        server.create(deployment())
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        await until(lambda: len(subsets(server)[0].get("addresses", ())) == 3)
        [subset] = subsets(server)
        assert subset.keys() == {"addresses", "ports"}
        assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        assert {address["nodeName"] for address in subset["addresses"]} == {"n-1"}
        [slice_] = server.list(SLICES, "default")
        assert {address["ip"] for address in subset["addresses"]} == {
            address for endpoint in slice_["endpoints"] for address in endpoint["addresses"]
        }
        made = server.get("v1/endpoints", "default", "web")
        assert made is not None
        assert made["metadata"]["labels"] == {
            "team": "a",
            "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        }
        [first, *_] = names(server)
        await client.request("DELETE", f"/api/v1/namespaces/default/pods/{first}")
        await until(lambda: first not in {one["targetRef"]["name"] for one in subsets(server)[0]["addresses"]})
        server.delete("v1/endpoints", "default", "web")
        await until(lambda: len(subsets(server)) == 1 and len(subsets(server)[0].get("addresses", ())) == 3)
        await client.request("DELETE", "/api/v1/namespaces/default/services/web")
        await until(lambda: server.get("v1/endpoints", "default", "web") is None)


@pytest.mark.parametrize("publishes", [False, True])
async def test_pods_that_are_not_ready_are_endpoints_only_on_request(server: APIServer, publishes: bool) -> None:
    server.create(service(publishNotReadyAddresses=publishes))
    server.create(deployment())
    async with server.run_controllers(outcome=lambda pod: "Unready"):
        field = "addresses" if publishes else "notReadyAddresses"
        await until(lambda: bool(subsets(server)) and len(subsets(server)[0].get(field, ())) == 3)
        assert subsets(server)[0].keys() == {field, "ports"}
        await until(lambda: endpoints(server) == [(publishes, False)] * 3)


async def test_the_endpoints_of_others_are_left_alone(server: APIServer, client: Client) -> None:
    metadata = {"name": "web", "namespace": "default"}
    subset = {"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 80}]}
    server.create({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]})
    server.create(service(selector=None))
    async with server.run_controllers():
        await client.request("DELETE", "/api/v1/namespaces/default/services/web")
        server.create(deployment())
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
    assert subsets(server)[0]["addresses"] == [{"ip": "10.9.9.9"}]


async def test_a_service_without_a_selector_is_left_alone(server: APIServer, client: Client) -> None:
    server.create(service(selector=None))
    server.create(deployment())
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
    assert server.list(SLICES, "default") == []


# -- owners -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_what_a_deleted_owner_owned_is_collected(server: APIServer, client: Client, policy: str) -> None:
    server.create(node("n-1"))
    server.create(deployment())
    async with server.run_controllers(shutdown=5):
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        path = "/apis/apps/v1/namespaces/default/deployments/web"
        await client.request("DELETE", path, params={"propagationPolicy": policy})
        assert (server.get(DEPLOYMENTS, "default", "web") is None) is (policy == "Background")
        await asyncio.sleep(1)
        assert all("deletionTimestamp" in pod["metadata"] for pod in pods(server))
        assert bool(server.list(SETS)) is (policy == "Foreground")
        await until(lambda: not pods(server))
        await until(lambda: not server.list(SETS) and server.get(DEPLOYMENTS, "default", "web") is None)


async def test_an_orphaning_delete_leaves_what_was_owned(server: APIServer, client: Client) -> None:
    server.create(deployment())
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        path = "/apis/apps/v1/namespaces/default/deployments/web"
        await client.request("DELETE", path, params={"propagationPolicy": "Orphan"})
        await until(lambda: server.get(DEPLOYMENTS, "default", "web") is None)
        await asyncio.sleep(1)
        [left] = server.list(SETS)
        assert not left["metadata"].get("ownerReferences")
        assert len(pods(server)) == 3
        server.create(deployment())
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        [adopted] = server.list(SETS)
    assert adopted["metadata"]["uid"] == left["metadata"]["uid"]
    assert adopted["metadata"]["ownerReferences"][0]["name"] == "web"


async def test_owners_of_custom_kinds_count_too(server: APIServer) -> None:
    server.register_crd(widget_definition())
    owner = server.create(widget("w"))
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": "w", "uid": owner["metadata"]["uid"]}
    server.create(config_map("owned", ownerReferences=[reference]))
    server.create(config_map("free"))
    server.create(config_map("late", ownerReferences=[{**reference, "uid": "gone"}]))
    async with server.run_controllers():
        await until(lambda: "late" not in names(server, "v1/configmaps"))
        assert names(server, "v1/configmaps") == ["free", "owned"]
        server.delete("example.com/v1/widgets", "default", "w")
        await until(lambda: names(server, "v1/configmaps") == ["free"])


# -- nodes and pods ---------------------------------------------------------------------------------------------------


async def test_pods_are_spread_over_the_nodes_that_take_them(server: APIServer, client: Client) -> None:
    taint = {"key": "only", "value": "gpu", "effect": "NoSchedule"}
    for one in (node("n-1"), node("n-2"), node("closed", unschedulable=True), node("gpu", taints=[taint])):
        server.create(one)
    server.create(deployment(replicas=6))
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
    placed = [pod["spec"]["nodeName"] for pod in pods(server)]
    assert (placed.count("n-1"), placed.count("n-2")) == (3, 3)


async def test_a_pod_waits_for_a_node_that_takes_it(server: APIServer, client: Client) -> None:
    server.create(node("closed", unschedulable=True))
    server.create(deployment(replicas=1))
    async with server.run_controllers():
        await until(lambda: bool(pods(server)) and bool(pods(server)[0]["status"].get("conditions")))
        await asyncio.sleep(1)
        [pod] = pods(server)
        assert pod["status"]["phase"] == "Pending"
        [scheduled] = pod["status"]["conditions"]
        assert scheduled["reason"] == "Unschedulable"
        assert scheduled["message"] == "0/1 nodes are available: 1 node(s) were unschedulable."
        server.create(node("open"))
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
    assert pods(server)[0]["spec"]["nodeName"] == "open"


async def test_a_pod_without_a_node_waits_since_the_first_try_whatever_the_reason_is_now(
    server: APIServer, client: Client
) -> None:
    server.create(node("closed", unschedulable=True))
    server.create(deployment(replicas=1))

    def scheduled() -> dict[str, Any]:
        conditions = pods(server)[0]["status"].get("conditions") if pods(server) else []
        return next((entry for entry in conditions or () if entry["type"] == "PodScheduled"), {})

    async with server.run_controllers():
        first = await until(scheduled)
        await asyncio.sleep(30)
        server.create(node("closed-too", unschedulable=True))
        second = await until(lambda: scheduled() if scheduled()["message"] != first["message"] else None)
    assert second["lastTransitionTime"] == first["lastTransitionTime"]


async def test_a_pod_of_another_scheduler_is_left_to_it(server: APIServer, client: Client) -> None:
    server.create(node("n-1"))
    template = deployment(replicas=1)
    template["spec"]["template"]["spec"]["schedulerName"] = "another"
    server.create(template)
    async with server.run_controllers():
        await until(lambda: bool(pods(server)))
        await asyncio.sleep(5)
    assert "nodeName" not in pods(server)[0]["spec"]


async def test_a_deleted_pod_ends_within_its_grace_period(server: APIServer, client: Client) -> None:
    server.create(node("n-1"))
    spec = {"containers": [{"name": "main", "image": "i:1"}]}
    for name in ("slow", "hurried", "forced"):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        server.create(body)
    async with server.run_controllers(shutdown=20):
        await until(lambda: all(pod["status"]["phase"] == "Running" for pod in pods(server)))
        path = "/api/v1/namespaces/default/pods"
        await client.request("DELETE", f"{path}/slow")
        await client.request("DELETE", f"{path}/hurried", params={"gracePeriodSeconds": "5"})
        await client.request("DELETE", f"{path}/forced", params={"gracePeriodSeconds": "0"})
        assert names(server) == ["hurried", "slow"]
        await asyncio.sleep(4)
        assert names(server) == ["hurried", "slow"]
        await asyncio.sleep(2)
        assert names(server) == ["slow"]
        await asyncio.sleep(15)
        assert names(server) == []


async def test_a_status_that_a_test_writes_stays(server: APIServer, client: Client) -> None:
    server.create(deployment())
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        [first, *_] = pods(server)
        first["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        server.update(first)
        done = await client.wait_for(DEPLOYMENTS, WEB, matches("status.readyReplicas", 2), timeout=10)
        await asyncio.sleep(10)
        kept = server.get(PODS, "default", first["metadata"]["name"])
        assert kept is not None
        assert [(one["type"], one["status"]) for one in kept["status"]["conditions"]] == [("Ready", "False")]
    assert done is not None
    assert done["status"]["unavailableReplicas"] == 1


# -- the whole --------------------------------------------------------------------------------------------------------


async def test_controllers_are_neither_logged_nor_struck_by_faults(server: APIServer, client: Client) -> None:
    server.faults.add(faults.status(500), resource=SETS)
    server.create(deployment())
    async with server.run_controllers():
        await until(lambda: is_deployment_rolled_out(server.get(DEPLOYMENTS, "default", "web")))
    assert server.requests == []
    with pytest.raises(ServerError):
        await client.request("GET", "/apis/apps/v1/replicasets", retries=0)


@pytest.mark.parametrize("seed", [0, 7])
async def test_the_same_changes_give_the_same_objects_and_events(seed: int) -> None:
    async def life() -> list[str]:
        async with APIServer() as server, server.run_controllers(seed=seed):
            for one in (node("n-1"), node("n-2"), service(), deployment(), job(completions=2)):
                server.create(one)
            await asyncio.sleep(5)
            with_image(server, "i:2")
            await asyncio.sleep(5)
            found = [*pods(server), *server.list(SETS), *server.list(SLICES), *server.list("v1/events")]
            return [f"{one['metadata']['name']} {one.get('message')}" for one in found]

    first = await life()
    assert first == await life()
    assert len(first) > 30


async def test_after_the_end_nothing_moves_until_they_run_again(server: APIServer, client: Client) -> None:
    async with server.run_controllers():
        server.create(deployment())
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
    [first, *_] = names(server)
    server.delete(PODS, "default", first)
    await asyncio.sleep(60)
    assert len(pods(server)) == 2
    async with server.run_controllers():
        await until(lambda: len(pods(server)) == 3)


async def test_a_bug_in_what_a_test_gives_is_raised_at_the_end(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    def outcome(pod: Mapping[str, Any]) -> Any:
        raise ZeroDivisionError

    server.create(deployment(replicas=1))
    with pytest.raises(ZeroDivisionError):
        async with server.run_controllers(outcome=outcome):
            await asyncio.sleep(5)
    assert "controllers" in caplog.text


async def test_a_server_that_goes_back_in_time_or_restarts_is_followed(server: APIServer, client: Client) -> None:
    server.create(deployment())
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        server.faults.add(faults.rewind(12), verb="list", resource=PODS, times=1)
        await client.request("GET", "/api/v1/pods")
        assert not is_deployment_rolled_out(server.get(DEPLOYMENTS, "default", "web"))
        await client.wait_for(DEPLOYMENTS, WEB, is_deployment_rolled_out, timeout=10)
        assert all(pod["status"]["phase"] == "Running" for pod in pods(server))
        await server.restart()
        change(server, DEPLOYMENTS, "web", replicas=1)
        await until(lambda: len(pods(server)) == 1)


async def test_a_namespace_is_emptied_while_controllers_run(server: APIServer, client: Client) -> None:
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    server.create({**deployment(), "metadata": {"name": "web", "namespace": "shop"}})
    async with server.run_controllers():
        await client.wait_for(DEPLOYMENTS, "shop/web", is_deployment_rolled_out, timeout=10)
        await client.request("DELETE", "/api/v1/namespaces/shop")
        await until(lambda: server.get("v1/namespaces", None, "shop") is None)
        await asyncio.sleep(2)
    assert server.list(PODS, "shop") == server.list(SETS, "shop") == []
