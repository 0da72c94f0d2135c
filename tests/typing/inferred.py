"""Types that checkers infer in a program that uses kinformer: checked by mypy and pyright (test_typing.py), never run.

`assert_type` fails in a checker that infers anything else; a comment that silences an error is itself an error where
there is none to silence, so what must not pass is held too.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, TypeGuard, assert_type

import msgspec
import pydantic
from starlette.requests import HTTPConnection

from kinformer import (
    NAMESPACE_INDEX,
    APIError,
    Client,
    Controller,
    DeletedFinalStateUnknown,
    EventStream,
    HandlerRegistration,
    Indexer,
    InformerEvent,
    KubeObject,
    Lister,
    ListWatch,
    Request,
    Result,
    SharedInformer,
    SharedInformerFactory,
    Store,
    blocking,
    meta_namespace_index_func,
    meta_namespace_key,
    wait_for,
    watch,
)
from kinformer.client import APIResource, ConnectionInfo, Discovery, discover
from kinformer.conditions import has_condition, is_deleted, is_pod_ready, matches
from kinformer.contrib.fastapi import informer_of, lister_of
from kinformer.contrib.opentelemetry import traced
from kinformer.exceptions import KeyFuncError
from kinformer.objects import Condition, NoModel, OwnerReference, condition_is, condition_of, owned_by, with_conditions
from kinformer.testing import ClusterServer, MakeDeployment, MakeObject, MakePod
from kinformer.watching import StreamEvent, WatchStream


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class Pod(msgspec.Struct):
    spec: Spec


@dataclass
class Node:
    kind: str


class ConfigMap(TypedDict):
    data: dict[str, str]


class Secret(pydantic.BaseModel):
    type: str


# --- a typed informer ----------------------------------------------------------------------------------


async def typed(client: Client) -> None:
    async with SharedInformerFactory(client, resync_period=0) as factory:
        assert_type(factory, SharedInformerFactory)
        pods = factory.for_resource("v1/pods", model=Pod, label_selector="app=web")
        assert_type(pods, SharedInformer[Pod])
        assert_type(factory.for_resource("v1/nodes", model=Node), SharedInformer[Node])
        assert_type(factory.for_resource("v1/configmaps", model=ConfigMap), SharedInformer[ConfigMap])
        assert_type(factory.for_resource("v1/secrets", model=Secret), SharedInformer[Secret])
        assert_type(factory.informers, tuple[SharedInformer[Any], ...])
        reads(pods)
        handlers(pods)
        await streams(pods)
        assert_type(await wait_for(pods, "default/web", is_pod_ready, timeout=60), KubeObject[Pod])
        assert_type(
            await wait_for(pods, "default/web", lambda pod: pod and pod.model.spec.node_name), KubeObject[Pod] | None
        )
        assert_type(await pods.confirm(namespace="default"), list[KubeObject[Pod]])
        await factory.release(pods)


def reads(pods: SharedInformer[Pod]) -> None:
    assert_type(pods.lister, Lister[KubeObject[Pod]])
    pod = pods.lister.get("web", namespace="default")
    assert_type(pod, KubeObject[Pod] | None)
    if pod is not None:
        assert_type(pod.model, Pod)
        assert_type(pod.model.spec.node_name, str)
        assert_type(pod.decode(Node), Node)
        assert_type(pod["spec"], Any)
        assert_type(pod.name, str)
    assert_type(pods.lister.list("app=web"), list[KubeObject[Pod]])
    assert_type(pods.lister.by_namespace("default").get("web"), KubeObject[Pod] | None)
    assert_type(pods.lister.by_namespace("default").list(), list[KubeObject[Pod]])
    assert_type(pods.lister.by_index("node", "n1"), list[KubeObject[Pod]])
    assert_type([other.model for other in pods.lister], list[Pod])
    assert_type(pods.by_key, Mapping[str, KubeObject[Pod]])
    assert_type(pods.by_key["default/web"].model, Pod)
    pod.spec if pod else None  # type: ignore[attr-defined]  # noqa: B018
    pods.add_indexers({"node": lambda pod: [pod.model.spec.node_name], "phase": "status.phase"})


def handlers(pods: SharedInformer[Pod]) -> None:
    async def on_add(pod: KubeObject[Pod], *, is_in_initial_list: bool) -> None:
        assert_type(pod.model, Pod)

    async def on_update(old: KubeObject[Pod], new: KubeObject[Pod]) -> None:
        assert_type((old.model, new.model), tuple[Pod, Pod])

    def on_delete(pod: KubeObject[Pod]) -> None:
        assert_type(pod.model, Pod)

    registration = pods.add_event_handler(on_add=on_add, on_update=on_update, on_delete=on_delete)
    assert_type(registration, HandlerRegistration)
    pods.add_event_handler(
        on_add=lambda pod: print(pod.model.spec.node_name),
        on_update=lambda old, new: print(old.model.spec, new.model.spec),
        filter=lambda pod: pod.model.spec.node_name != "",
    )
    pods.add_event_handler(on_add=of_another_model)  # type: ignore[arg-type]
    pods.add_event_handler(on_add=of_any_object)
    pods.add_event_handler(PodHandler())
    pods.add_event_handler(NodeHandler())  # type: ignore[arg-type]


def of_another_model(node: KubeObject[Node]) -> None:
    assert_type(node.model, Node)


def of_any_object(obj: KubeObject) -> None:
    assert_type(obj.model, Any)


class PodHandler:
    async def on_add(self, pod: KubeObject[Pod], *, is_in_initial_list: bool) -> None: ...
    async def on_delete(self, pod: KubeObject[Pod], *, final_state_unknown: bool) -> None: ...


class NodeHandler:
    async def on_update(self, old: KubeObject[Node], new: KubeObject[Node]) -> None: ...


async def streams(pods: SharedInformer[Pod]) -> None:
    async with pods.events(filter=lambda pod: pod.model.spec.node_name == "n1") as stream:
        assert_type(stream, EventStream[Pod])
        async for event in stream:
            assert_type(event, InformerEvent[Pod])
            assert_type(event.type, Literal["ADDED", "UPDATED", "DELETED", "SYNC"])
            assert_type(event.object.model, Pod)
            assert_type(event.old, KubeObject[Pod] | None)


# --- for threads ---------------------------------------------------------------------------------------


def threads(url: str) -> None:
    with blocking.Informers(url=url, resync_period=0) as informers:
        pods = informers.for_resource("v1/pods", model=Pod, label_selector="app=web")
        assert_type(pods, blocking.Informer[Pod])
        assert_type(pods is informers.for_resource("v1/pods", model=Pod, label_selector="app=web"), bool)
        assert_type(informers.for_resource("v1/nodes"), blocking.Informer[NoModel])
        assert_type(pods.lister, Lister[KubeObject[Pod]])
        pods.wait_synced(timeout=30, fail_fast=True)
        pods.wait_synced("soon")  # type: ignore[arg-type]
        pods.wait_synced(timeuot=30)  # type: ignore[call-arg]
        with pods.events(filter=lambda pod: pod.model.spec.node_name == "n1") as events:
            assert_type(events, blocking.EventStream[Pod])
            assert_type(events.get(timeout=1), InformerEvent[Pod])
            for event in events:
                assert_type(event.object.model, Pod)
        for event in pods.events():
            assert_type(event.old, KubeObject[Pod] | None)
        registration = pods.add_event_handler(on_update=lambda old, new: print(old.model.spec, new.model.spec))
        assert_type(registration, blocking.HandlerRegistration)
        pods.add_event_handler(NodeHandler())  # type: ignore[arg-type]
        pods.add_indexers({"node": lambda pod: [pod.model.spec.node_name]})
        pods.wait_for_resource_version("7", namespace="default", timeout=10)
        answer = informers.request("PATCH", "/api/v1/namespaces/default/pods/web", body={"metadata": {}})
        assert_type(answer, KubeObject | dict[str, Any])
        informers.request("GET")  # type: ignore[call-arg]
        assert_type(informers.text("/readyz"), str)
        assert_type(informers.create({"apiVersion": "v1", "kind": "Pod"}, dry_run=True), KubeObject)
        assert_type(informers.delete("v1/pods", "default/web"), KubeObject | None)
        informers.patch("v1/pods", "default/web", {}, type="apply")  # type: ignore[arg-type]
        informers.apply({})  # type: ignore[call-arg]
        assert_type(informers.get("v1/pods", "default/web", model=Pod), KubeObject[Pod])
        assert_type(informers.get("v1/pods", "default/web"), KubeObject[NoModel])
        for listed in informers.list("v1/pods", model=Pod):
            assert_type(listed.model, Pod)
        for line in informers.logs("default/web", tail=3):
            assert_type(line, str)
        assert_type(informers.wait_for("v1/pods", "default/web", is_pod_ready, timeout=60), KubeObject)
        assert_type(informers.wait_for("v1/pods", "default/web", is_deleted("uid")), KubeObject | None)
        assert_type(pods.wait_for("default/web", is_pod_ready), KubeObject[Pod])
        assert_type(pods.wait_for("default/web", lambda pod: pod and pod.model.spec), KubeObject[Pod] | None)
        informers.wait_for("v1/pods")  # type: ignore[call-overload]


# --- without a model -----------------------------------------------------------------------------------


async def untyped(client: Client, factory: SharedInformerFactory) -> None:
    pods = factory.for_resource("v1/pods", indexers={"node": nodes_of})
    assert_type(pods, SharedInformer[NoModel])
    pod = pods.lister.get("web", namespace="default")
    assert_type(pod, KubeObject[NoModel] | None)
    if pod is not None:
        print(pod.model.spec)  # type: ignore[attr-defined]  # there is none, and a checker says so
        assert_type(pod.decode(Pod), Pod)
        assert_type(pod.decode(ConfigMap), ConfigMap)
        assert_type(pod.decode(dict[str, Any]), dict[str, Any])
        of_any_object(pod)
    pods.add_event_handler(on_add=of_any_object, on_update=lambda old, new: print(old.name, new.name))
    any_informer(pods)
    factory.for_resource("v1/pods", page_sise=500)  # type: ignore[call-arg]
    factory.for_resource("v1/pods", page_size="5")  # type: ignore[arg-type]
    alone = SharedInformer(ListWatch(client, "v1/pods"))
    any_informer(alone)
    async with alone as entered:
        any_informer(entered)


def nodes_of(pod: KubeObject) -> Iterable[str]:
    return [pod.path("spec.nodeName", "")]


def any_informer(informer: SharedInformer) -> None:
    assert_type(informer.lister, Lister[KubeObject[Any]])


# --- the parts -----------------------------------------------------------------------------------------


def parts() -> None:
    def key(node: Node) -> str:
        return node.kind

    by_kind: Callable[[Node], list[str]] = lambda node: [node.kind]  # noqa: E731
    indexer = Indexer(key, {"kind": by_kind})
    assert_type(indexer, Indexer[Node])
    assert_type(indexer.get_by_key("a"), Node | None)
    assert_type(indexer.by_index("kind", "a"), list[Node])
    assert_type(Lister(indexer), Lister[Node])
    assert_type(Lister(indexer).list(), list[Node])
    store = Store(key)
    assert_type(store, Store[Node])
    assert_type(store.list(), list[Node])
    store.add(Node("a"))
    store.add("a")  # type: ignore[arg-type]
    assert_type(Store(meta_namespace_key), Store[Any])
    assert_type(Indexer(), Indexer[Any])
    assert_type(
        Indexer(meta_namespace_key, {NAMESPACE_INDEX: meta_namespace_index_func, "node": "spec.nodeName"}), Indexer[Any]
    )
    print(Store(meta_namespace_key).list()[0]["metadata"]["name"])


# --- documents: what a program reads of one can be indexed freely -------------------------------------------


class Manifest(TypedDict):
    apiVersion: str
    kind: str
    metadata: dict[str, str]


async def documents(client: Client, pod: KubeObject, manifest: Manifest) -> None:
    print(pod["spec"]["containers"][0]["image"].upper(), pod.get("status", {})["phase"])
    print(pod.path("spec.nodeName", "").upper(), pod.path("status.conditions")[0]["type"])
    document = pod.to_dict()
    document["metadata"]["labels"]["a"] = "b"
    assert_type(document, dict[str, Any])
    assert_type(KubeObject.from_dict(manifest), KubeObject)
    assert_type(KubeObject.from_dict({"metadata": {"name": "a"}}), KubeObject)
    assert_type(meta_namespace_key(manifest), str)
    ready = condition_of(pod, "Ready")
    if ready is not None:
        print(ready["status"].lower(), condition_is(document, "Ready"), condition_is(manifest, "Ready"))
    document["status"]["conditions"] = with_conditions(pod, Condition("Ready", True, "Up"))
    print(owned_by(manifest, pod)["metadata"]["ownerReferences"][0]["uid"])
    answer = await client.request("POST", "/api/v1/pods", body=manifest)
    print(answer["metadata"]["name"].upper())
    assert_type(await client.create(manifest), KubeObject)
    assert_type(await client.delete("v1/pods", "default/web", propagation="orphan"), KubeObject | None)
    await client.patch("v1/pods", "default/web", {}, type="apply")  # type: ignore[arg-type]
    await client.apply(manifest)  # type: ignore[call-arg]
    assert_type(await client.get("v1/pods", "default/web", model=Pod), KubeObject[Pod])
    assert_type(await client.get("v1/pods", "default/web"), KubeObject[NoModel])
    async for listed in client.list("v1/pods", model=Pod):
        assert_type(listed.model.spec, Spec)
    async for line in client.logs("default/web", follow=True):
        assert_type(line, str)
    try:
        await client.request("PATCH", "/api/v1/pods", body=[{"op": "add"}])
    except APIError as error:
        print(error.details["causes"][0]["message"].upper())
    except KeyFuncError as error:
        print(error.object["metadata"])
    stone = DeletedFinalStateUnknown("default/a", pod)
    print(stone.object["metadata"]["name"].upper())


def services() -> None:
    pods = lister_of("v1/pods", model=Pod)
    assert_type(pods, Callable[[HTTPConnection], Awaitable[Lister[KubeObject[Pod]]]])
    assert_type(
        informer_of("v1/pods", model=Pod, page_size=100), Callable[[HTTPConnection], Awaitable[SharedInformer[Pod]]]
    )
    assert_type(traced(PodHandler(), resource="v1/pods"), PodHandler)


async def controllers(pods: SharedInformer[Pod]) -> None:
    async def reconcile(request: Request) -> Result | None:
        pod = pods.lister.get(request.name, namespace=request.namespace)
        if pod is None:
            return None
        assert_type(pod.model.spec.node_name, str)
        return Result(requeue_after=1)

    controller = Controller(reconcile).for_(pods)
    assert_type(controller, Controller)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run())


async def entered_on_a_stack(client: Client, pods: SharedInformer) -> None:
    async with AsyncExitStack() as stack:
        assert_type(await stack.enter_async_context(client), Client)
        assert_type(await stack.enter_async_context(pods), SharedInformer)
        assert_type(await stack.enter_async_context(SharedInformerFactory(client)), SharedInformerFactory)


async def what_a_server_has(client: Client) -> None:
    found = await discover(client)
    assert_type(found, Discovery)
    assert_type(found[0], APIResource)
    assert_type(found.find("po"), APIResource)
    assert_type([one.verbs for one in found], list[tuple[str, ...]])
    found.find("po").verbs = ()  # type: ignore[misc]
    assert_type(await client.connection_info(), ConnectionInfo)
    assert_type(client.contexts(), list[str])


# --- one object, and streams ---------------------------------------------------------------------------


def is_own(obj: KubeObject | None) -> TypeGuard[KubeObject]:
    return obj is not None and obj.labels.get("app") == "web"


async def waits_and_streams(client: Client) -> None:
    pod = await client.wait_for("v1/pods", "default/web-1", is_pod_ready, timeout=60)
    assert_type(pod, KubeObject)
    gone = await client.wait_for("v1/pods", "default/web-1", is_deleted("uid"), allow_recreate=True)
    assert_type(gone, KubeObject | None)
    by_phase = await client.wait_for(
        "v1/pods", "default/web-1", lambda pod: pod and pod.path("status.phase") == "Failed"
    )
    assert_type(by_phase, KubeObject | None)
    assert_type(await client.wait_for("v1/pods", "default/web-1", has_condition("Ready")), KubeObject)
    assert_type(await client.wait_for("v1/pods", "default/web-1", matches("spec.nodeName")), KubeObject)
    (await client.wait_for("v1/pods", "default/web-1", is_own)).name.upper()
    informer = SharedInformer(ListWatch(client, "v1/pods"))
    assert_type(await wait_for(informer, "default/web-1", is_pod_ready, 60), KubeObject)
    assert_type(await wait_for(informer, "default/web-1", is_deleted()), KubeObject | None)
    await client.wait_for("v1/pods", "default/web-1", "Ready")  # type: ignore[call-overload]
    assert_type(is_pod_ready(pod), bool)
    assert_type(matches("spec.nodeName", "node-1")(pod), bool)
    async with watch(ListWatch(client, "v1/pods"), initial=False, page_size=100) as events:
        assert_type(events, WatchStream)
        async for event in events:
            assert_type(event, StreamEvent)
            assert_type(event.key, str)
            assert_type(event.type, Literal["ADDED", "UPDATED", "DELETED"])
    watch(ListWatch(client, "v1/pods"), nothing=1)  # type: ignore[call-arg]


# --- the fixtures of the pytest plugin -----------------------------------------------------------------


async def test_with_fixtures(
    kube_apiserver: ClusterServer,
    kube_client: Client,
    kube_namespace: str,
    make_object: MakeObject,
    make_pod: MakePod,
    make_deployment: MakeDeployment,
) -> None:
    assert_type(await make_pod("web-1", labels={"app": "web"}, phase="Running"), KubeObject)
    assert_type(await make_deployment(replicas=2), KubeObject)
    assert_type(await make_object(api_version="v1", kind="ConfigMap", data={}), KubeObject)
    await make_pod(3)  # type: ignore[arg-type]
    await make_deployment(replicas="2")  # type: ignore[arg-type]
    assert_type(kube_apiserver.client(), Client)


def the_attributes_of_an_object(pod: KubeObject) -> None:
    texts = (pod.key, pod.namespace, pod.name, pod.uid, pod.resource_version, pod.api_version, pod.kind)
    assert_type(texts, tuple[str, str, str, str, str, str, str])
    assert_type(pod.owner_references, tuple[OwnerReference, ...])
    for owner in pod.owner_references:
        assert_type((owner.kind, owner.uid, owner.controller), tuple[str, str, bool])
