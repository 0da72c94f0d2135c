"""`kinformer serve`: its output, the objects that it makes, and their changes.

Internals: the generator of objects, since a process would need real seconds; and the differences of objects.
"""

from __future__ import annotations

import asyncio
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kinformer import Client, ForbiddenError, GroupVersionResource, InformerEvent, SharedInformerFactory
from kinformer.cli.commands.serving.population import Population
from kinformer.cli.living.cluster import DEPLOYMENTS, LivingCluster
from kinformer.client import discover
from kinformer.conditions import is_deployment_rolled_out, is_job_complete, matches
from kinformer.contrib.changes.differences import object_differences
from kinformer.testing import APIServer
from tests.support.bare_http import ask
from tests.support.cli import CommandLine, command_process
from tests.support.ports import reserved_port
from tests.support.waiting import until


@pytest.mark.process
async def test_serve_fills_a_server_changes_it_and_ends_with_sigterm() -> None:
    options = ("--port", "0", "--objects", "pods=30", "--objects", "deployments=5", "--churn", "100")
    async with command_process("serve", *options) as running:
        assert running.stdout is not None
        async with asyncio.timeout(30):
            url = (await running.stdout.readline()).decode().removeprefix("Serving ").strip()
            while (await running.stdout.readline()) != b"5 deployments\n":
                pass
            async with Client.from_url(url) as client, SharedInformerFactory(client) as factory:
                pods = factory.for_resource("v1/pods")
                async with pods.events() as events:
                    types = set()
                    while types != {"ADDED", "UPDATED", "DELETED"}:
                        types.add((await anext(events)).type)
                assert len(pods.lister) == 30
            running.send_signal(signal.SIGTERM)
            _, err = await running.communicate()
    assert (running.returncode, err) == (0, b"")


@pytest.mark.process
async def test_serve_over_tls_writes_a_kubeconfig_with_which_clients_are_known(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    options = ("--port", "0", "--tls", "--write-kubeconfig", str(kubeconfig))
    async with command_process("serve", *options) as running:
        assert running.stdout is not None
        async with asyncio.timeout(30):
            assert (await running.stdout.readline()).startswith(b"Serving https://127.0.0.1:")
            assert await running.stdout.readline() == b"\n"
            assert await running.stdout.readline() == f"  export KUBECONFIG={kubeconfig}\n".encode()
            async with Client.from_kubeconfig(kubeconfig) as client:
                review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
                path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
                answer = await client.request("POST", path, body=review)
                assert answer["status"]["userInfo"]["username"] == "kubernetes-admin"
                assert (await client.request("GET", "/api/v1/namespaces/default/services/kubernetes"))["spec"]
            running.send_signal(signal.SIGTERM)
            await running.communicate()
    assert running.returncode == 0


_FILLED = (
    *("services", "namespaces", "deployments", "daemonsets", "jobs", "cronjobs", "replicationcontrollers", "ingresses"),
    *("persistentvolumeclaims", "horizontalpodautoscalers", "storageclasses", "rolebindings", "clusterrolebindings"),
)


async def test_serve_fills_in_and_changes_every_usual_kind(capsys: pytest.CaptureFixture[str]) -> None:
    objects = [word for name in _FILLED for word in ("--objects", f"{name}=2")]
    ended = await CommandLine(capsys)("serve", "--port", "0", *objects, "--churn", "2000", "--duration", "0.3")
    assert (ended.status, ended.err) == (0, "")
    assert [line for line in ended.out.splitlines() if line.startswith("2 ")] == [f"2 {name}" for name in _FILLED]
    assert re.search(r"\nEnded after \d+s and \d+ requests?\. Its objects are gone\.\n$", ended.out)


async def test_serve_writes_a_kubeconfig_to_export_and_removes_it(capsys: pytest.CaptureFixture[str]) -> None:
    ended = await CommandLine(capsys)("serve", "--port", "0", "--duration", "0.1")
    [path] = re.findall(r"export KUBECONFIG=(\S+)", ended.out)
    assert not await asyncio.to_thread(Path(path).exists)
    assert ended.status == 0


async def test_serve_answers_addresses_and_the_names_that_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    with reserved_port() as port:
        options = ("--port", str(port), "--allowed-host", "kube.example", "--duration", "1.5")
        serving = asyncio.create_task(CommandLine(capsys)("serve", *options))
        while True:
            try:
                assert await ask(port, "GET /version HTTP/1.1\nHost: 10.0.0.7") == 200
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)
            else:
                break
        assert await ask(port, "GET /version HTTP/1.1\nHost: kube.example:443") == 200
        assert await ask(port, "GET /version HTTP/1.1\nHost: evil.example") == 421
        ended = await serving
    assert ended.status == 0


async def test_serve_names_an_allowed_host_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    ended = await CommandLine(capsys)("serve", "--port", "0", "--allowed-host", "http://kube.example")
    assert ended.status != 0
    assert ended.err.startswith("kinformer: invalid allowed host 'http://kube.example'")
    assert ended.err.count("\n") == 1


async def populated(server: APIServer, **counts: int) -> Population:
    population = Population(server, random.Random(3))
    async with server.client() as client:
        found = await discover(client)
    async for _ in population.add({found.find(name): count for name, count in counts.items()}):
        pass
    return population


@pytest.mark.parametrize(("counts", "nodes"), [({"pods": 100}, 10), ({"pods": 4}, 3), ({"pods": 100, "nodes": 4}, 4)])
async def test_the_pods_of_serve_are_on_nodes_that_exist(server: APIServer, counts: dict[str, int], nodes: int) -> None:
    await populated(server, **counts)
    names = {node["metadata"]["name"] for node in server.list("v1/nodes")}
    used = {pod["spec"]["nodeName"] for pod in server.list("v1/pods")}
    assert len(names) == nodes
    assert used <= names


def addressed_and_owned(server: APIServer) -> None:
    """Every running pod has the addresses of a running pod, and every owner exists."""
    hosts = {one["metadata"]["name"]: one["status"]["addresses"][0]["address"] for one in server.list("v1/nodes")}
    sets = {(one["metadata"]["name"], one["metadata"]["uid"]) for one in server.list("apps/v1/replicasets")}
    pods = server.list("v1/pods")
    assert {(one["name"], one["uid"]) for pod in pods for one in pod["metadata"]["ownerReferences"]} <= sets
    running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    assert [pod["status"]["hostIP"] for pod in running] == [hosts[pod["spec"]["nodeName"]] for pod in running]
    addresses = [pod["status"]["podIP"] for pod in running]
    assert [pod["status"]["podIPs"] for pod in running] == [[{"ip": address}] for address in addresses]
    assert len(set(addresses)) == len(running)
    assert set(addresses).isdisjoint(hosts.values())


async def test_the_pods_of_serve_have_addresses_and_owners(server: APIServer) -> None:
    await populated(server, pods=130)
    addressed_and_owned(server)
    sets = {one["metadata"]["name"]: one["spec"]["replicas"] for one in server.list("apps/v1/replicasets")}
    assert (sets["app-000-5d9c7b"], sets["app-119-5d9c7b"], sum(sets.values())) == (2, 1, 130)


async def churned(population: Population, seconds: float) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(population.churn(200), seconds)


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_a_terminating_pod_is_replaced_by_one_that_runs(server: APIServer) -> None:
    population = await populated(server, pods=20)
    before = [pod["metadata"]["name"] for pod in server.list("v1/pods")]
    async with server.client() as client:
        for pod in server.list("v1/pods"):
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            await client.request("DELETE", GroupVersionResource.parse("v1/pods").path(namespace, name))
    assert all("deletionTimestamp" in pod["metadata"] for pod in server.list("v1/pods"))
    await churned(population, 10)
    after = server.list("v1/pods")
    assert len(after) == len(before)
    assert {pod["metadata"]["name"] for pod in after}.isdisjoint(before)
    assert [pod["metadata"]["name"] for pod in after if "deletionTimestamp" in pod["metadata"]] == []
    addressed_and_owned(server)


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_a_pod_whose_owner_is_gone_is_not_replaced(server: APIServer) -> None:
    population = await populated(server, pods=20)
    gone = server.list("apps/v1/replicasets")[0]["metadata"]
    server.delete("apps/v1/replicasets", gone["namespace"], gone["name"])
    await churned(population, 10)
    assert len(server.list("v1/pods")) == 19
    addressed_and_owned(server)


async def test_the_deployments_of_serve_are_available(server: APIServer) -> None:
    await populated(server, deployments=2, statefulsets=2, daemonsets=1, replicasets=1)
    for deployment in server.list("apps/v1/deployments"):
        status, wanted = deployment["status"], deployment["spec"]["replicas"]
        assert [status[one] for one in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")] == [
            wanted
        ] * 4
        assert {one["type"] for one in status["conditions"] if one["status"] == "True"} == {"Available", "Progressing"}
    assert server.list("apps/v1/daemonsets")[0]["status"]["numberAvailable"] == 3


@pytest.mark.virtual_time
async def test_serve_changes_nothing_that_was_there_before_its_objects() -> None:
    async with APIServer(bootstrap=True) as server:
        before = server.get("v1/services", "default", "kubernetes")
        population = await populated(server, services=1)
        filled = server.resource_version
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(population.churn(500), 0.3)
        assert int(server.resource_version) > int(filled) + 100
        assert server.get("v1/services", "default", "kubernetes") == before


_OF_A_KIND = {
    "pods": ("status.containerStatuses", "status.conditions"),
    "configmaps": ("data.",),
    "deployments": ("status.readyReplicas", "status.availableReplicas"),
    "daemonsets": ("status.number",),
    "nodes": tuple(
        f"status.conditions[{kind}].lastHeartbeatTime"
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    ),
    "secrets": ("metadata.annotations",),
}


@pytest.mark.slow
@pytest.mark.virtual_time
@pytest.mark.parametrize("name", _OF_A_KIND)
async def test_the_changes_of_serve_are_those_of_controllers(server: APIServer, name: str) -> None:
    """The first one too: nothing is defaulted or put in another form by it."""
    population = await populated(server, **{name: 5})
    changed: list[InformerEvent] = []
    async with server.client() as client, SharedInformerFactory(client) as factory:
        informer = factory.for_resource((await discover(client)).find(name).gvr)
        async with informer.events() as events:
            churning = asyncio.create_task(population.churn(20))
            while len(changed) < 40:
                event = await anext(events)
                if not event.is_in_initial_list:
                    changed.append(event)
            churning.cancel()
            await asyncio.wait({churning})
    paths = {
        difference.path
        for event in changed
        if event.old is not None and event.old.path("spec.nodeName") == event.object.path("spec.nodeName")
        for difference in object_differences(event.old, event.object)
    }
    assert paths
    assert {path for path in paths if not path.startswith(_OF_A_KIND[name])} == set()
    assert not any("--" in event.object.name for event in changed)


async def test_more_changes_than_the_server_can_make_hold_no_duration_up(capsys: pytest.CaptureFixture[str]) -> None:
    async with asyncio.timeout(10):
        ended = await CommandLine(capsys)(
            *("serve", "--port", "0", "--objects", "configmaps=2", "--churn", "1e7", "--duration", "0.2")
        )
    assert (ended.status, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--objects", "customresourcedefinitions=1"), "--objects cannot fill in apiextensions.k8s.io/v1/"),
        (
            ("--objects", "configmaps=1", "--churn", "inf", "--duration", "0"),
            "invalid --churn 'inf': expected a number, 0 or more",
        ),
    ],
)
async def test_what_serve_cannot_do_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    ended = await CommandLine(capsys)("serve", "--port", "0", *arguments)
    assert ended.status == 2
    assert ended.err.startswith(f"kinformer: {told}")
    assert ended.err.count("\n") == 1


@pytest.mark.process
async def test_a_port_that_is_taken_is_one_line_and_status_1() -> None:
    async with APIServer() as server:
        port = server.url.rpartition(":")[2]
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kinformer.cli", "serve", "--port", port), stderr=subprocess.PIPE
        )
        _, err = await running.communicate()
    assert running.returncode == 1
    assert err.decode() == (
        f"kinformer: cannot listen on 127.0.0.1:{port}: address already in use; choose another with --port or --host\n"
    )


RBAC = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop, resourceVersion: "7", uid: x}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list]}
---
apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: RoleBinding
  metadata: {name: reader, namespace: shop}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
  subjects:
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
  - {apiGroup: rbac.authorization.k8s.io, kind: Group, name: devs}
  - {kind: ServiceAccount, name: app, namespace: shop}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRoleBinding
  metadata: {name: view}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
  subjects:
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}
"""


@pytest.mark.process
async def test_users_of_a_file_of_roles_may_do_what_it_says(tmp_path: Path) -> None:
    file, kubeconfig = tmp_path / "rbac.yaml", tmp_path / "kubeconfig"
    file.write_text(RBAC)
    members = {"alice", "member-of-devs", "system:serviceaccount:shop:app"}
    options = ("--port", "0", "--rbac", str(file), "--write-kubeconfig", str(kubeconfig))
    async with command_process("serve", *options) as running:
        assert running.stdout is not None
        async with asyncio.timeout(30):
            while not (line := (await running.stdout.readline()).decode()).startswith("Users"):
                pass
            assert all(name in line for name in members | {"bob"})
            assert set(Client.contexts(kubeconfig)) == members | {"bob", "kinformer"}
            for name in members:
                async with Client.from_kubeconfig(kubeconfig, context=name) as client:
                    await client.request("GET", "/api/v1/namespaces/shop/pods")
                    with pytest.raises(ForbiddenError, match="cannot list"):
                        await client.request("GET", "/api/v1/namespaces/default/pods")
            async with Client.from_kubeconfig(kubeconfig, context="bob") as bob:
                await bob.request("GET", "/api/v1/pods")
                with pytest.raises(ForbiddenError):
                    await bob.request("GET", "/api/v1/secrets")
            async with Client.from_kubeconfig(kubeconfig) as administrator:
                await administrator.request("GET", "/api/v1/secrets")
            running.send_signal(signal.SIGTERM)
            _, err = await running.communicate()
    assert (running.returncode, err) == (0, b"")


@pytest.mark.parametrize(
    ("now", "then", "complaint"),
    [
        ("verbs: [list]", "verb: [list]", 'document 1, Role reader: .*unknown field "rules[0].verb"'),
        ("verbs: [list]", "verbs: []", "document 1, Role reader: .*rules[0].verbs: Required value"),
        ("kind: Role\n", "kind: Rolle\n", "document 1: kind: expected Role, ClusterRole, .* got 'Rolle'"),
        (
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n",
            "apiVersion: rbac/v1\nkind: Role\n",
            "document 1: apiVersion: expected 'rbac.authorization.k8s.io/v1' for a Role, got 'rbac/v1'",
        ),
        ("{name: reader, namespace: shop}", "{namespace: shop}", "document 2, items[0]: metadata.name: expected"),
        ("kind: Role, name: reader", "kind: Role, name: other", "roleRef.name: there is no Role 'other' in namespace"),
        ("kind: Role, name: reader", "kind: Role", "roleRef: expected a kind (Role or ClusterRole) and a name"),
        ("kind: Group", "kind: Team", "items[0], RoleBinding reader: subjects[1].kind: expected User, Group or Serv"),
        ("name: app, namespace: shop", "name: app", "subjects[2].namespace: expected a string, got None"),
        ("items:", "items: {", "not YAML: .* line "),
    ],
)
async def test_a_wrong_file_of_roles_is_refused_with_the_field(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, now: str, then: str, complaint: str
) -> None:
    file = tmp_path / "rbac.yaml"
    file.write_text(RBAC.replace(now, then, 1))
    ended = await CommandLine(capsys)("serve", "--port", "0", "--rbac", str(file))
    assert ended.status == 1
    pattern = ".*".join(re.escape(part) for part in complaint.split(".*"))
    assert re.match(f"kinformer: {re.escape(str(file))}.*{pattern}", ended.err), ended.err
    assert ended.err.count("\n") == 1


async def test_a_file_of_roles_without_a_binding_or_that_does_not_exist_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "rbac.yaml"
    ended = await CommandLine(capsys)("serve", "--port", "0", "--rbac", str(file))
    assert (ended.status, ended.err) == (1, f"kinformer: {file}: no such file or directory\n")
    file.write_text(RBAC.split("---")[0])
    ended = await CommandLine(capsys)("serve", "--port", "0", "--rbac", str(file))
    assert (ended.status, "there is no RoleBinding or ClusterRoleBinding" in ended.err) == (1, True)


@pytest.mark.virtual_time
async def test_a_living_cluster_rolls_out_scales_and_runs_jobs_for_its_user_too() -> None:
    async with APIServer() as server, server.client() as client:
        cluster = LivingCluster(server, random.Random(1))
        assert cluster.populate() == "7 deployments with services in 4 namespaces, on 5 nodes"
        living = asyncio.create_task(cluster.run())
        for namespace, name in DEPLOYMENTS:
            await client.wait_for("apps/v1/deployments", f"{namespace}/{name}", matches("status.readyReplicas"), 60)
        body = {"metadata": {"name": "mine"}, "spec": server.list("apps/v1/deployments", "shop")[0]["spec"]}
        body["spec"]["template"]["metadata"]["labels"] = body["spec"]["selector"]["matchLabels"] = {"app": "mine"}
        await client.request("POST", "/apis/apps/v1/namespaces/default/deployments", body=body)
        await client.wait_for("apps/v1/deployments", "default/mine", is_deployment_rolled_out, 60)
        seen: set[str] = set()
        while not {"Complete", "rolled out"} <= seen:
            for job in server.list("batch/v1/jobs"):
                seen.update(one["type"] for one in job.get("status", {}).get("conditions") or ())
            sets = server.list("apps/v1/replicasets")
            seen |= {"rolled out"} if len({one["metadata"]["name"] for one in sets}) > 8 else set()
            assert len(server.list("v1/pods")) < 120
            await asyncio.sleep(1)
        assert all(one["endpoints"] for one in server.list("discovery.k8s.io/v1/endpointslices"))
        living.cancel()
        await asyncio.wait([living])


async def test_a_node_is_registered_as_by_a_kubelet() -> None:
    async with APIServer() as server:
        LivingCluster(server).populate()
        node = server.get("v1/nodes", None, "node-3")
        assert node is not None
        labels, status = node["metadata"]["labels"], node["status"]
        for prefix in ("", "beta."):
            assert (labels[f"{prefix}kubernetes.io/os"], labels[f"{prefix}kubernetes.io/arch"]) == ("linux", "amd64")
        assert labels["kubernetes.io/hostname"] == "node-3"
        assert status["capacity"].keys() == status["allocatable"].keys()
        assert status["capacity"].keys() >= {"cpu", "memory", "pods", "ephemeral-storage"}
        assert status["addresses"] == [
            {"type": "InternalIP", "address": "10.0.0.3"},
            {"type": "Hostname", "address": "node-3"},
        ]
        assert all(status["nodeInfo"][field] for field in ("machineID", "systemUUID", "bootID", "kubeletVersion"))
        assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250
        conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
        pressures = dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure"), "False")
        assert conditions == {**pressures, "Ready": "True"}


@pytest.mark.virtual_time
@pytest.mark.parametrize("runtime", [None, 60.0])
async def test_pods_of_a_user_run_on_unless_told_otherwise_and_those_of_jobs_end(runtime: float | None) -> None:
    async with APIServer() as server, server.client() as client:
        cluster = LivingCluster(server, random.Random(1), runtime=runtime)
        cluster.populate()
        living = asyncio.create_task(cluster.run())
        container = {"name": "main", "image": "i:1"}
        for policy in ("Always", "OnFailure", "Never"):
            spec = {"restartPolicy": policy, "containers": [container]}
            metadata = {"name": policy.lower(), "namespace": "default"}
            server.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        metadata = {"name": "mine", "namespace": "default"}
        server.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}})

        def phases() -> dict[str, str]:
            pods = server.list("v1/pods", "default")
            bare = [pod for pod in pods if "ownerReferences" not in pod["metadata"]]
            return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in bare}

        await client.wait_for("batch/v1/jobs", "default/mine", is_job_complete, 120)
        await asyncio.sleep(20)
        assert runtime is not None or phases() == dict.fromkeys(("always", "onfailure", "never"), "Running")
        await asyncio.sleep(300)
        ended = "Running" if runtime is None else "Succeeded"
        assert phases() == {"always": "Running", "onfailure": ended, "never": ended}
        for pod in server.list("v1/pods"):
            if pod["status"]["phase"] == "Running":
                number = int(pod["spec"]["nodeName"].rpartition("-")[2])
                assert pod["status"]["hostIP"] == f"10.0.0.{number}"
        living.cancel()
        await asyncio.wait([living])


async def test_serve_has_a_deployment_in_kube_system_and_endpoints(capsys: pytest.CaptureFixture[str]) -> None:
    with reserved_port() as port:
        serving = asyncio.create_task(CommandLine(capsys)("serve", "--port", str(port), "--living", "--duration", "6"))
        async with Client.from_url(f"http://127.0.0.1:{port}") as client:
            await until(lambda: "Living" in capsys.readouterr().out)
            await client.wait_for("apps/v1/deployments", "kube-system/coredns", is_deployment_rolled_out, 10)
            key = "kube-system/kube-dns"
            made = await client.wait_for("v1/endpoints", key, matches("subsets"), 10)
        assert made["subsets"][0]["ports"] == [{"name": "dns", "port": 53, "protocol": "UDP"}]
        serving.cancel()
        await asyncio.wait([serving])


async def test_a_runtime_without_a_living_cluster_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    ended = await CommandLine(capsys)("serve", "--port", "0", "--runtime", "5")
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith("kinformer: --runtime requires --living, whose pods it ends")
    ended = await CommandLine(capsys)("serve", "--port", "0", "--living", "--runtime", "soon")
    assert (ended.status, ended.err.count("\n")) == (2, 1)


@pytest.mark.process
async def test_a_living_cluster_may_have_users_with_roles_in_its_namespaces(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "rbac.yaml"
    file.write_text(RBAC)
    ended = await CommandLine(capsys)("serve", "--port", "0", "--living", "--rbac", str(file), "--duration", "1")
    assert (ended.status, ended.err) == (0, "")
    assert "Living: 7 deployments with services in 4 namespaces" in ended.out


async def test_a_living_cluster_may_have_generated_objects_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--port", "0", "--living", "--objects", "pods=20", "--churn", "20", "--duration", "1")
    ended = await CommandLine(capsys)("serve", *arguments)
    assert (ended.status, ended.err) == (0, "")
    assert "Living: 7 deployments with services in 4 namespaces" in ended.out
    assert "20 pods on 3 nodes" in ended.out


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_controllers_replace_the_generated_pods_that_a_churn_deletes() -> None:
    async with APIServer() as server, server.client() as client:
        resources = await discover(client)
        population = Population(server, random.Random(1), has_controllers=True)
        [line async for line in population.add({resources.find("pods"): 60})]
        names = {pod["metadata"]["name"] for pod in server.list("v1/pods")}
        async with server.run_controllers():
            churn = asyncio.create_task(population.churn(50))
            await asyncio.sleep(20)
            churn.cancel()
            await asyncio.wait([churn])
            await asyncio.sleep(5)
        after = {pod["metadata"]["name"] for pod in server.list("v1/pods")}
        assert len(after) == 60
        assert len(names - after) > 20
