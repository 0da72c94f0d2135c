"""Writes that no informer is going to show: they cost the next run of their key neither time nor a list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kinformer import Client, Controller, GroupVersionResource, ListWatch, Request, SharedInformer
from kinformer.testing import APIServer
from tests.support.http_server import HttpServer, json_answer
from tests.support.kube import config_map, pod
from tests.support.lagging_source import LaggingSource
from tests.support.memory_source import MemorySource

pytestmark = pytest.mark.virtual_time

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"

Write = Callable[[Client, Request], Awaitable[object]]


@dataclass
class Outcome:
    """What became of a key that wrote in its first run, and was triggered again at once."""

    seconds: float = 0.0
    waits: int = 0
    relists: dict[str, int] = field(default_factory=dict)


async def second_run(client: Client, source: Any, write: Write) -> Outcome:
    """Run a controller of config maps that writes in its first run, and follows `source` too."""
    outcome, began, finished = Outcome(), 0.0, asyncio.Event()
    now = asyncio.get_running_loop().time
    async with (
        SharedInformer(
            ListWatch(client, "v1/configmaps", namespace="default", field_selector="metadata.name=main")
        ) as main,
        SharedInformer(source) as informer,
    ):

        async def reconcile(request: Request) -> None:
            nonlocal began
            if began:
                outcome.seconds = round(now() - began, 1)
                finished.set()
                return
            await asyncio.sleep(3)  # so that nothing else is under way
            await write(client, request)
            began = now()
            controller.trigger(request)

        controller = Controller(reconcile, name="test").for_(main).watches(informer, lambda _: [])
        running = asyncio.create_task(controller.run())
        async with asyncio.timeout(60):
            await finished.wait()
        running.cancel()
        await asyncio.wait({running})
        outcome.waits = controller.statistics().own_write_waits
        for one in (main, informer):
            outcome.relists |= dict(one.statistics().relists)
    return outcome


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map("main"), config_map("mine", labels={"app": "web"}), pod("here", node="node-1", phase=None)]


async def make_map(client: Client, request: Request) -> None:
    await client.request("POST", MAPS, body=config_map("other", labels={"app": "db"}))


async def make_map_by_another_client(client: Client, request: Request) -> None:
    await make_map(client, request)
    document = (await client.request("GET", f"{MAPS}/other")).to_dict()
    request.wrote(document)
    request.wrote(Model(document))


async def make_pod(client: Client, request: Request) -> None:
    await client.request("POST", PODS, body=pod("pending", node=None, phase=None))


class Model:
    """An object as kubernetes_asyncio has it."""

    class Metadata:
        def __init__(self, metadata: dict[str, Any]) -> None:
            self.name, self.namespace, self.uid = metadata["name"], metadata["namespace"], metadata["uid"]
            self.resource_version, self.labels = metadata["resourceVersion"], metadata.get("labels")
            self.owner_references = None

    def __init__(self, document: dict[str, Any]) -> None:
        self.api_version, self.kind = document["apiVersion"], document["kind"]
        self.metadata = self.Metadata(document["metadata"])


SELECTORS: dict[str, tuple[str, dict[str, Any], Write]] = {
    "labels": ("v1/configmaps", {"label_selector": "app in (web)"}, make_map),
    "name": ("v1/configmaps", {"field_selector": "metadata.name=mine"}, make_map),
    "not the name": ("v1/configmaps", {"field_selector": "metadata.name!=other"}, make_map),
    "tweaked": ("v1/configmaps", {"tweak_list_options": lambda o: o.replace(label_selector="app=web")}, make_map),
    "extra": (
        "v1/configmaps",
        {"tweak_list_options": lambda o: o.replace(extra={"labelSelector": "app=web"})},
        make_map,
    ),
    "another client": ("v1/configmaps", {"label_selector": "app in (web)"}, make_map_by_another_client),
    "node": ("v1/pods", {"field_selector": "spec.nodeName=node-1"}, make_pod),
    "phase": ("v1/pods", {"field_selector": "status.phase!=Pending"}, make_pod),
}


@pytest.mark.parametrize("how", SELECTORS)
async def test_a_write_that_the_selector_leaves_out_is_not_waited_for(
    server: APIServer, client: Client, how: str
) -> None:
    resource, options, write = SELECTORS[how]
    source = ListWatch(client, resource, namespace="default", **options)
    assert await second_run(client, source, write) == Outcome(0.0, 0, {})


async def test_a_write_that_the_selector_takes_is_waited_for(server: APIServer, client: Client) -> None:
    source = LaggingSource(ListWatch(client, "v1/configmaps", namespace="default", label_selector="app"), lag=0.5)
    source.selects = source.inner.selects  # type: ignore[attr-defined]
    outcome = await second_run(client, source, make_map)
    assert (outcome.seconds, outcome.waits, outcome.relists) == (0.5, 1, {})


@pytest.mark.parametrize("relabelled", ["mine", "new"])
async def test_a_write_that_takes_an_object_out_of_the_selector_is_waited_for(
    server: APIServer, client: Client, relabelled: str
) -> None:
    """The cache has it, or is going to have it, in an older state."""
    source = LaggingSource(ListWatch(client, "v1/configmaps", namespace="default", label_selector="app=web"), lag=0.5)
    source.selects = source.inner.selects  # type: ignore[attr-defined]

    async def relabel(client: Client, request: Request) -> None:
        if relabelled == "new":
            await client.request("POST", MAPS, body=config_map("new", labels={"app": "web"}))
        await client.request("PATCH", f"{MAPS}/{relabelled}", body={"metadata": {"labels": {"app": "db"}}})

    outcome = await second_run(client, source, relabel)
    assert outcome.seconds >= 0.5
    assert (outcome.waits, outcome.relists) == (1, {})


# --- versions that are no numbers -----------------------------------------------------------------------------------


async def test_an_answer_without_a_version_is_no_delete(server: APIServer, client: Client) -> None:
    """A TokenRequest has the name of its service account."""
    server.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}})

    async def ask_for_a_token(client: Client, request: Request) -> None:
        answer = await client.request("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", body={})
        assert answer["metadata"]["name"] == "robot"

    source = ListWatch(client, "v1/serviceaccounts", namespace="default")
    assert await second_run(client, source, ask_for_a_token) == Outcome(0.0, 0, {})


@pytest.mark.parametrize("version", ["abc-1", "0", "", "-7", "٣"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_write_answered_with_a_version_that_is_no_number_is_no_delete(method: str, version: str) -> None:
    source = MemorySource()
    source.resource = GroupVersionResource.parse("v1/configmaps")  # type: ignore[attr-defined]
    source.set("a")

    async def answer(request: Any) -> Any:
        return json_answer(
            {
                **config_map("a", uid="uid-2"),
                "metadata": {**config_map("a")["metadata"], "uid": "uid-2", "resourceVersion": version},
            }
        )

    async with HttpServer(answer) as server, Client.from_url(server.url) as client, SharedInformer(source) as informer:
        began = asyncio.get_running_loop().time()
        times: list[float] = []

        async def reconcile(request: Request) -> None:
            times.append(round(asyncio.get_running_loop().time() - began))
            if len(times) == 1:
                await client.request(method, f"{MAPS}/a" if method != "POST" else MAPS, body=config_map("a"))
                controller.trigger(request)

        controller = Controller(reconcile, name="test").for_(informer)
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(30)
        running.cancel()
        await asyncio.wait({running})
        assert times == [0, 0]
        assert controller.statistics().own_write_waits == 0
