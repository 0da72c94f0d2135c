"""The operator's tests. They say nothing of which server they run on:

    pytest                                         the embedded one
    pytest --kube-apiserver=control-plane          a real etcd and kube-apiserver

Neither has a kubelet, so a test says itself how a Deployment is getting on. Nothing here sleeps, and nothing asks again
and again: the tests wait with informers, as the operator does.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry
from website_operator import CONFIG_MAPS, DEPLOYMENTS, WEBSITES, run

from kinformer import Client, KubeObject, SharedInformerFactory, wait_for
from kinformer.conditions import is_deleted
from kinformer.exceptions import InvalidError
from kinformer.objects import condition_is, condition_of, controller_of
from kinformer.testing import faults, running

EVENTS, LEASES = "events.k8s.io/v1/events", "coordination.k8s.io/v1/leases"
PAGES = {"index.html": "<h1>Books</h1>"}
SHOP = {"apiVersion": "example.com/v1", "kind": "Website", "spec": {"host": "books.example.com", "pages": PAGES}}


class Cluster:
    """The test's namespace: seen through informers, changed by requests."""

    def __init__(self, client: Client, factory: SharedInformerFactory, namespace: str) -> None:
        self._client = client
        self._factory = factory
        self._namespace = namespace

    async def until(self, resource: str, name: str, condition: Callable[[KubeObject], Any]) -> KubeObject:
        informer = self._factory.for_resource(resource)
        found = await wait_for(informer, f"{self._namespace}/{name}", lambda obj: obj and condition(obj), 20)
        assert found is not None
        return found

    async def until_gone(self, resource: str, name: str, uid: str | None = None) -> None:
        await wait_for(self._factory.for_resource(resource), f"{self._namespace}/{name}", is_deleted(uid), 20)

    async def event(self, reason: str) -> KubeObject:
        async with self._factory.for_resource(EVENTS).events() as stream, asyncio.timeout(20):
            async for event in stream:
                if event.object["reason"] == reason:
                    return event.object
        raise AssertionError("the informer was left")

    async def change(self, resource: str, name: str, **body: Any) -> None:
        await self._client.patch(resource, self._key(name), body)

    async def delete(self, resource: str, name: str) -> None:
        await self._client.delete(resource, self._key(name))

    async def set_available(self, name: str, replicas: int) -> None:
        """As the deployment controller and the kubelets would."""
        deployment = await self._client.get(DEPLOYMENTS, self._key(name))
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
        status = {"observedGeneration": deployment.generation, **counts}
        await self._client.patch(DEPLOYMENTS, deployment.key, {"status": status}, subresource="status")

    def _key(self, name: str) -> str:
        return f"{self._namespace}/{name}"


@pytest_asyncio.fixture
async def cluster(kube_client: Client, kube_namespace: str) -> AsyncIterator[Cluster]:
    async with SharedInformerFactory(kube_client, namespace=kube_namespace) as factory:
        yield Cluster(kube_client, factory, kube_namespace)


def replica(client: Client, namespace: str, listen: str | None = None) -> Coroutine[Any, Any, None]:
    """A replica of the operator, to run in this loop."""
    return run(client, namespace=namespace, listen=listen, registry=CollectorRegistry())


@pytest_asyncio.fixture
async def operator(kube_running: Callable[..., Any], kube_client: Client, kube_namespace: str) -> None:
    kube_running(replica(kube_client, kube_namespace))


MakeObject = Callable[..., Awaitable[KubeObject]]


# --- what a Website gets -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("operator")
async def test_a_website_gets_its_pages_and_a_deployment_which_it_owns(
    cluster: Cluster, make_object: MakeObject
) -> None:
    website = await make_object(SHOP, name="shop")
    pages = await cluster.until(CONFIG_MAPS, "shop-pages", lambda _: True)
    deployment = await cluster.until(DEPLOYMENTS, "shop", lambda _: True)
    assert pages["data"] == PAGES
    assert deployment["spec"]["replicas"] == 1
    for owned in (pages, deployment):
        owner = controller_of(owned)
        assert owner is not None
        assert owner.uid == website.uid


@pytest.mark.usefixtures("operator")
async def test_it_is_ready_when_its_deployment_is_and_people_are_told(
    cluster: Cluster, make_object: MakeObject
) -> None:
    await make_object(SHOP, name="shop")
    progressing = await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready", False))
    assert (condition_of(progressing, "Ready") or {})["reason"] == "Progressing"
    await cluster.set_available("shop", 1)
    ready = await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready"))
    assert ready["status"]["replicas"] == 1
    assert (await cluster.event("Available"))["regarding"]["uid"] == ready.uid


@pytest.mark.usefixtures("operator")
async def test_it_is_not_ready_while_new_pages_are_rolled_out(cluster: Cluster, make_object: MakeObject) -> None:
    await make_object(SHOP, name="shop")
    await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready", False))
    await cluster.set_available("shop", 1)
    await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready"))
    await cluster.change(WEBSITES, "shop", spec={"pages": {"index.html": "<h1>More books</h1>"}})
    await cluster.until(CONFIG_MAPS, "shop-pages", lambda pages: "More" in pages["data"]["index.html"])
    await cluster.until(DEPLOYMENTS, "shop", lambda deployment: deployment.generation == 2)
    await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready", False))
    await cluster.set_available("shop", 1)
    await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready"))


async def test_a_website_without_a_host_is_refused_by_the_server(make_object: MakeObject) -> None:
    with pytest.raises(InvalidError, match=r"spec\.host: Required value"):
        await make_object(api_version="example.com/v1", kind="Website", spec={})


@pytest.mark.usefixtures("operator")
async def test_what_the_server_refuses_is_said_on_the_website_until_somebody_corrects_it(
    cluster: Cluster, make_object: MakeObject
) -> None:
    await make_object(SHOP, name="shop", spec={"host": "a.example.com", "pages": {"no/such/key": ""}})
    refused = await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready", False))
    condition = condition_of(refused, "Ready") or {}
    assert condition["reason"] == "Refused"
    assert "no/such/key" in condition["message"]
    assert (await cluster.event("Refused"))["type"] == "Warning"
    await cluster.change(WEBSITES, "shop", spec={"pages": {"no/such/key": None, **PAGES}})
    await cluster.until(CONFIG_MAPS, "shop-pages", lambda pages: pages["data"] == PAGES)
    progressing = await cluster.until(
        WEBSITES, "shop", lambda website: (condition_of(website, "Ready") or {})["reason"] != "Refused"
    )
    assert condition_is(progressing, "Ready", False)


# --- what others do ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("operator")
async def test_what_somebody_deletes_comes_back(cluster: Cluster, make_object: MakeObject) -> None:
    await make_object(SHOP, name="shop")
    for resource, name in ((DEPLOYMENTS, "shop"), (CONFIG_MAPS, "shop-pages")):
        first = await cluster.until(resource, name, lambda _: True)
        await cluster.delete(resource, name)
        await cluster.until_gone(resource, name, first.uid)
        await cluster.until(resource, name, lambda _: True)


@pytest.mark.usefixtures("operator")
async def test_what_somebody_changes_is_put_back_and_what_they_add_stays(
    cluster: Cluster, make_object: MakeObject
) -> None:
    await make_object(SHOP, name="shop")
    await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready", False))
    await cluster.change(
        DEPLOYMENTS, "shop", spec={"replicas": 7, "minReadySeconds": 5}, metadata={"annotations": {"team": "a"}}
    )
    put_back = await cluster.until(
        DEPLOYMENTS,
        "shop",
        lambda deployment: "team" in deployment.annotations and deployment["spec"]["replicas"] == 1,
    )
    assert put_back["spec"]["minReadySeconds"] == 5


# --- the end of a Website ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("operator")
async def test_the_directory_has_a_website_for_as_long_as_it_is_there(
    cluster: Cluster, make_object: MakeObject, kube_namespace: str
) -> None:
    for name in ("shop", "blog"):
        await make_object(SHOP, name=name, spec={"host": f"{name}.example.com"})
    shop, blog = f"{kube_namespace}.shop", f"{kube_namespace}.blog"
    both = await cluster.until(CONFIG_MAPS, "websites", lambda directory: len(directory["data"]) == 2)
    assert both["data"] == {shop: "shop.example.com", blog: "blog.example.com"}
    await cluster.delete(WEBSITES, "shop")
    await cluster.until_gone(WEBSITES, "shop")
    left = await cluster.until(CONFIG_MAPS, "websites", lambda directory: shop not in directory["data"])
    assert left["data"] == {blog: "blog.example.com"}


async def test_a_website_that_was_deleted_while_no_operator_ran_is_cleaned_up_by_the_next(
    cluster: Cluster, make_object: MakeObject, kube_client: Client, kube_namespace: str
) -> None:
    async with running(replica(kube_client, kube_namespace)):
        await make_object(SHOP, name="shop")
        await cluster.until(CONFIG_MAPS, "websites", lambda directory: directory["data"])
    await cluster.delete(WEBSITES, "shop")
    await cluster.until(WEBSITES, "shop", lambda website: website.deletion_timestamp)
    async with running(replica(kube_client, kube_namespace)):
        await cluster.until_gone(WEBSITES, "shop")
    await cluster.until(CONFIG_MAPS, "websites", lambda directory: not directory.get("data"))


# --- the process ---------------------------------------------------------------------------------------------


async def test_of_two_replicas_one_acts_and_the_other_takes_over_when_it_leaves(
    cluster: Cluster, make_object: MakeObject, kube_client: Client, kube_namespace: str
) -> None:
    async with running(replica(kube_client, kube_namespace)) as first:
        lease = await cluster.until(LEASES, "website-operator", lambda lease: lease["spec"]["holderIdentity"])
        async with running(replica(kube_client, kube_namespace)):
            await make_object(SHOP, name="of-the-first")
            await cluster.until(DEPLOYMENTS, "of-the-first", lambda _: True)
            unchanged = await cluster.until(LEASES, "website-operator", lambda _: True)
            assert unchanged["spec"]["holderIdentity"] == lease["spec"]["holderIdentity"]
            first.cancel()
            await asyncio.wait([first])
            await make_object(SHOP, name="of-the-second")
            await cluster.until(DEPLOYMENTS, "of-the-second", lambda _: True)
            holder = lease["spec"]["holderIdentity"]
            await cluster.until(
                LEASES, "website-operator", lambda one: one["spec"]["holderIdentity"] not in ("", holder)
            )
    await cluster.until(LEASES, "website-operator", lambda one: not one["spec"].get("holderIdentity"))


async def test_it_goes_on_after_a_restart_of_the_server(
    kube_apiserver: Any, cluster: Cluster, make_object: MakeObject, kube_client: Client, kube_namespace: str
) -> None:
    async with running(replica(kube_client, kube_namespace)):
        await make_object(SHOP, name="before")
        await cluster.until(DEPLOYMENTS, "before", lambda _: True)
        await kube_apiserver.restart()
        await make_object(SHOP, name="after")
        await cluster.until(DEPLOYMENTS, "after", lambda _: True)


@pytest.mark.usefixtures("operator")
@pytest.mark.kube_apiserver("embedded")
async def test_a_refused_write_is_tried_again(kube_apiserver: Any, cluster: Cluster, make_object: MakeObject) -> None:
    refusal = kube_apiserver.faults.add(faults.status(500), verb="patch", resource=DEPLOYMENTS, times=2)
    await make_object(SHOP, name="shop")
    await cluster.until(DEPLOYMENTS, "shop", lambda _: True)
    assert refusal.hits == 2


@pytest.mark.usefixtures("operator")
@pytest.mark.kube_apiserver("embedded")
async def test_where_nothing_differs_it_writes_nothing(
    kube_apiserver: Any, cluster: Cluster, make_object: MakeObject
) -> None:
    await make_object(SHOP, name="shop")
    await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready", False))
    seen = len(kube_apiserver.requests)
    await cluster.change(DEPLOYMENTS, "shop", metadata={"annotations": {"team": "a"}})
    await cluster.set_available("shop", 1)
    await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready"))
    writes = [one.path for one in list(kube_apiserver.requests)[seen:] if one.method in ("POST", "PATCH", "PUT")]
    theirs = [path for path in writes if "/websites/" not in path and "/events" not in path and "/leases" not in path]
    assert [path.rpartition("/deployments/")[2] for path in theirs] == ["shop", "shop/status"]  # the test's own


async def test_its_probes_and_metrics_tell_how_it_is(
    cluster: Cluster, make_object: MakeObject, kube_client: Client, kube_namespace: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    async with running(replica(kube_client, kube_namespace, listen)), aiohttp.ClientSession(f"http://{listen}") as http:
        await make_object(SHOP, name="shop")
        await cluster.until(WEBSITES, "shop", lambda website: condition_is(website, "Ready", False))
        async with http.get("/readyz") as ready, http.get("/metrics") as metrics:
            assert ready.status == 200
            text = await metrics.text()
        assert f'leader_election_master_status{{name="{kube_namespace}/website-operator"}} 1.0' in text
        assert 'controller_runtime_reconcile_total{controller="websites",result="success"}' in text
        assert 'kinformer_live{resource="example.com/v1/websites"} 1.0' in text
