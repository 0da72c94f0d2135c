"""The sample controller: for each Foo there is a Deployment of that name and size, and its state in the Foo.

Two informers of one factory; handlers that put keys into a rate-limited queue and do nothing else; workers that
read the listers, never the server, and write what differs. Every decision follows from the cache as it is now, never
from the event: events may be folded, and a program that starts again has missed some.

The queue hands a key to one worker at a time, however much happens to it meanwhile, and a key that fails comes back
after 5 ms, 10 ms, 20 ms and so on. `kinformer.Controller` does all this by itself; here it is to be seen.
On a cluster of yours: kubectl apply -f examples/foo_crd.json
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from playground import run

from kinformer import (
    AlreadyExistsError,
    Client,
    ConflictError,
    KinformerError,
    KubeObject,
    SharedInformerFactory,
    StoppedError,
    split_meta_namespace_key,
)
from kinformer.testing import APIServer
from kinformer.workqueue import RateLimitingQueue

FOOS = "samplecontroller.example.com/v1alpha1/foos"
WORKERS = 2
SHUTDOWN = 5.0  # seconds for what is queued and under way when the program ends


class SampleController:
    """Keeps one Deployment for each Foo."""

    def __init__(self, client: Client, factory: SharedInformerFactory) -> None:
        self._client = client
        self._factory = factory
        foos = factory.for_resource(FOOS)
        deployments = factory.for_resource("apps/v1/deployments")
        self._foos, self._deployments = foos.lister, deployments.lister
        self._queue: RateLimitingQueue[str] = RateLimitingQueue(name="foos")
        foos.add_event_handler(on_add=self._foo, on_update=self._foo_changed, on_delete=self._foo, name="foos")
        deployments.add_event_handler(
            on_add=self._owned, on_update=self._owned_changed, on_delete=self._owned, name="deployments"
        )

    # --- handlers: which Foo is concerned? ------------------------------------------------------------------

    def _foo(self, foo: KubeObject) -> None:
        self._queue.add(foo.key)

    def _foo_changed(self, old: KubeObject, new: KubeObject) -> None:
        self._queue.add(new.key)

    def _owned(self, deployment: KubeObject) -> None:
        for owner in deployment.owner_references:
            if owner.controller and owner.kind == "Foo":
                self._queue.add(f"{deployment.namespace}/{owner.name}")

    def _owned_changed(self, old: KubeObject, new: KubeObject) -> None:
        self._owned(new)

    # --- workers -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled; starts to work when both caches are complete, and ends when what is queued is done."""
        await self._factory.wait_for_cache_sync(timeout=30)
        print(f"synced: {len(self._foos)} foos, {len(self._deployments)} deployments")
        workers = [asyncio.create_task(self._work(), name=f"worker {number}") for number in range(WORKERS)]
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in ended:
                worker.result()  # they end by an unforeseen error: it comes out
        finally:
            try:
                await self._queue.shut_down_with_drain(timeout=SHUTDOWN)
            except TimeoutError as error:
                print(error)
            finally:
                for worker in workers:
                    worker.cancel()

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except StoppedError:
                return
            try:
                await self._reconcile(key)
            except KinformerError as error:
                self._queue.add_rate_limited(key)
                print(f"{key}: {error}; to be tried again, for the {self._queue.num_requeues(key)}. time")
            else:
                self._queue.forget(key)  # its next failure is a first one again
            finally:
                self._queue.done(key)

    async def _reconcile(self, key: str) -> None:
        namespace, name = split_meta_namespace_key(key)
        foo = self._foos.get(name, namespace=namespace)
        if foo is None:
            print(f"{key}: is gone; the garbage collector takes its deployment")
            return
        deployment = self._deployments.get(foo.path("spec.deploymentName"), namespace=namespace)
        if deployment is None:
            try:
                await self._client.create(new_deployment(foo))
            except AlreadyExistsError:
                return  # made a moment ago: the cache is about to get it, and then so are we
            print(f"{key}: made deployment {foo.path('spec.deploymentName')}")
            return
        if not any(owner.uid == foo.uid for owner in deployment.owner_references):
            print(f"{key}: deployment {deployment.name} has another owner")
            return
        if deployment.path("spec.replicas") != foo.path("spec.replicas"):
            wanted = {"spec": {"replicas": foo.path("spec.replicas")}}
            await self._client.patch("apps/v1/deployments", deployment.key, wanted)
            print(f"{key}: scaled {deployment.name} to {wanted['spec']['replicas']}")
        await self._write_status(foo, deployment.path("status.availableReplicas", 0))

    async def _write_status(self, foo: KubeObject, available: int) -> None:
        if foo.path("status.availableReplicas") == available:
            return
        changed = foo.to_dict()  # a dict of our own: the cache is not touched
        changed["status"] = {"availableReplicas": available}
        try:
            await self._client.replace(changed, subresource="status")
        except ConflictError:
            return  # it was changed meanwhile: that change is on its way here
        print(f"{foo.key}: status says {available} available")


def new_deployment(foo: KubeObject) -> dict[str, Any]:
    """The Deployment that a Foo is to have, owned by it."""
    labels = {"app": "nginx", "controller": foo.name}
    owner = {"apiVersion": foo.api_version, "kind": foo.kind, "name": foo.name, "uid": foo.uid, "controller": True}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": foo["spec"]["deploymentName"], "namespace": foo.namespace, "ownerReferences": [owner]},
        "spec": {
            "replicas": foo["spec"]["replicas"],
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
            },
        },
    }


async def main(client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        await SampleController(client, factory).run()


# --- what happens on the embedded server ------------------------------------------------------------------


def a_foo(replicas: int) -> dict[str, Any]:
    metadata = {"name": "example", "namespace": "default"}
    spec = {"deploymentName": "example-web", "replicas": replicas}
    return {"apiVersion": "samplecontroller.example.com/v1alpha1", "kind": "Foo", "metadata": metadata, "spec": spec}


async def fill(server: APIServer) -> None:
    server.register_crd(json.loads(Path(__file__).with_name("foo_crd.json").read_text()))
    server.create(a_foo(1))


async def happens(server: APIServer) -> None:
    await asyncio.sleep(0.8)
    deployment = server.get("apps/v1/deployments", "default", "example-web")
    server.update({**deployment, "status": {"availableReplicas": 1, "replicas": 1}})
    await asyncio.sleep(0.4)
    print("-- the foo is to have three")
    server.update({**server.get(FOOS, "default", "example"), "spec": a_foo(3)["spec"]})
    await asyncio.sleep(0.4)
    print("-- another client deletes the deployment")
    server.delete("apps/v1/deployments", "default", "example-web")
    await asyncio.sleep(0.4)
    server.delete(FOOS, "default", "example")
    await asyncio.sleep(0.3)


if __name__ == "__main__":
    run(main, fill=fill, happens=happens)
