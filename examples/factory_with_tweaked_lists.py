"""A factory for one namespace and one label, whose every request is tweaked; two resources, three handlers.

The options of a factory are the defaults of all its informers. `tweak_list_options` sees the options of each
request and returns other ones: the last word before the wire.
"""

from __future__ import annotations

import asyncio

from playground import pod, run

from kinformer import Client, KubeObject, ListOptions, SharedInformerFactory
from kinformer.testing import APIServer


def without_experiments(options: ListOptions) -> ListOptions:
    """Leave out what is marked as an experiment, on the server's side."""
    return options.replace(label_selector=f"{options.label_selector},!experiment")


class Printer:
    """A handler object; it may have some of the three methods only."""

    def __init__(self, what: str) -> None:
        self._what = what

    async def on_add(self, obj: KubeObject, *, is_in_initial_list: bool) -> None:
        print(f"{self._what} {obj.name} {'is there' if is_in_initial_list else 'is new'}")

    async def on_delete(self, obj: KubeObject) -> None:
        print(f"{self._what} {obj.name} is gone")


async def reconsider(old: KubeObject, new: KubeObject) -> None:
    """A resync replays the cache: the same object twice. It asks the server nothing."""
    if old.resource_version == new.resource_version:
        print(f"pod {new.name} is looked at again")


async def main(client: Client) -> None:
    async with SharedInformerFactory(
        client, namespace="shop", label_selector="part-of=shop", tweak_list_options=without_experiments
    ) as factory:
        pods = factory.for_resource("v1/pods", indexers={"node": "spec.nodeName"})
        settings = factory.for_resource("v1/configmaps")
        pods.add_event_handler(Printer("pod"))
        pods.add_event_handler(on_update=reconsider, resync_period=0.8)  # the cache replayed, to this one alone
        settings.add_event_handler(Printer("configmap"))

        await factory.wait_for_cache_sync(timeout=30)
        print("synced:", ", ".join(f"{informer.name} ({len(informer.lister)})" for informer in factory.informers))
        print("in the namespace:", _names(pods.lister.by_namespace("shop").list()))
        print("by selector:     ", _names(pods.lister.list("tier in (web, api), !legacy")))
        print("by index:        ", _names(pods.lister.by_index("node", "node-a")))
        one = pods.lister.get("web-1")  # an informer of one namespace needs no other word
        print("by name:         ", one)
        await asyncio.Event().wait()


def _names(objects: list[KubeObject]) -> str:
    return ", ".join(sorted(obj.name for obj in objects))


# --- what happens on the embedded server ------------------------------------------------------------------


async def fill(server: APIServer) -> None:
    shop = {"part-of": "shop"}
    for namespace in ("shop", "elsewhere"):
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    server.create(pod("web-1", namespace="shop", node="node-a", tier="web", **{"part-of": "shop"}))
    server.create(pod("api-1", namespace="shop", node="node-a", tier="api", **{"part-of": "shop"}))
    server.create(pod("old-1", namespace="shop", node="node-b", tier="web", legacy="yes", **{"part-of": "shop"}))
    server.create(pod("try-1", namespace="shop", node="node-b", experiment="yes", **{"part-of": "shop"}))
    server.create(pod("web-1", namespace="elsewhere", **{"part-of": "shop"}))
    metadata = {"name": "prices", "namespace": "shop", "labels": shop}
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"currency": "EUR"}})


async def happens(server: APIServer) -> None:
    await asyncio.sleep(0.6)
    server.create(pod("web-2", namespace="shop", node="node-b", tier="web", **{"part-of": "shop"}))
    server.delete("v1/configmaps", "shop", "prices")
    await asyncio.sleep(0.5)


if __name__ == "__main__":
    run(main, fill=fill, happens=happens)
