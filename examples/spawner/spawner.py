"""A spawner of single-user servers, as of a notebook hub: pods are read by key, and waited for, from one cache.

    reflectors = Reflectors()
    spawner = Spawner(reflectors, "default", "ada", image="notebook:1")
    await spawner.start()

See docs/recipes/spawner.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from kinformer import (
    Client,
    KubeObject,
    NotFoundError,
    SharedInformer,
    SharedInformerFactory,
    wait_for,
)
from kinformer.conditions import is_deleted, is_pod_ready
from kinformer.manager import Background


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Client, SharedInformerFactory]]:
    """The connection, and the factory of the caches."""
    async with Client() as client, SharedInformerFactory(client) as factory:
        yield client, factory


class Reflectors:
    """The caches that all spawners of a hub share: made when they are first asked for, and kept until the hub ends.

    They run in a task of their own, since no `async with` surrounds a hub. The hub cancels all tasks when it ends, and
    so leaves them in order; `close` does it before that.
    """

    def __init__(self) -> None:
        self._background = Background(connected)

    async def close(self) -> None:
        """End all of them."""
        await self._background.stop()

    async def client(self) -> Client:
        """Return the connection."""
        return (await self._background.start())[0]

    async def pods(self, namespace: str) -> SharedInformer:
        """Return the cache of the servers' pods, whole."""
        return await self._synced("v1/pods", namespace=namespace, label_selector="component=singleuser-server")

    async def events(self, namespace: str) -> SharedInformer:
        """Return the cache of the Events of pods, with an index of the pods' uids."""
        return await self._synced(
            "v1/events",
            namespace=namespace,
            field_selector="involvedObject.kind=Pod",
            fields=["involvedObject", "message", "type", "lastTimestamp", "eventTime"],
            indexers={"pod": "involvedObject.uid"},
        )

    async def _synced(self, resource: str, **options: Any) -> SharedInformer:
        _, factory = await self._background.start()
        informer = factory.for_resource(resource, **options)  # the same one for the same options
        await informer.wait_synced(timeout=60, fail_fast=True)  # a missing right is an error here
        return informer


def exit_code(pod: KubeObject) -> int | None:
    """Return the status that the server in a pod has ended with; None if it has not ended."""
    if pod.path("status.phase") not in ("Succeeded", "Failed"):
        return None
    codes = pod.path("status.containerStatuses[*].state.terminated.exitCode", [])
    return next((code for code in codes if code), int(pod.path("status.phase") == "Failed"))


class Spawner:
    """The server of one user: a pod."""

    def __init__(
        self, reflectors: Reflectors, namespace: str, user: str, *, image: str, start_timeout: float = 60
    ) -> None:
        self.key = f"{namespace}/notebook-{user}"
        self._reflectors = reflectors
        self._namespace = namespace
        self._image = image
        self._start_timeout = start_timeout

    async def start(self) -> str:
        """Create the pod, and return the URL of the server once it answers.

        Raises:
            TimeoutError: It does not answer in time; the text says how the pod is.
            RuntimeError: It has ended, or was deleted, before it could answer.
        """
        client, pods = await self._reflectors.client(), await self._reflectors.pods(self._namespace)
        await self.stop()  # left by an earlier hub
        created = await client.create(self._manifest())
        await pods.wait_for_resource_version(created, timeout=10)

        def settled(pod: KubeObject | None) -> bool:
            return pod is None or pod.uid != created.uid or is_pod_ready(pod) or exit_code(pod) is not None

        pod = await wait_for(pods, self.key, settled, timeout=self._start_timeout)
        if not is_pod_ready(pod):
            reasons = await self.messages(created.uid) or ["it is gone"]
            raise RuntimeError(f"{self.key} did not start: {'; '.join(reasons)}")
        return f"http://{pod['status']['podIP']}:8888" if pod else ""

    async def poll(self) -> int | None:
        """Return None while the server runs, else its exit status; a read of memory."""
        pod = (await self._reflectors.pods(self._namespace)).by_key.get(self.key)
        return 0 if pod is None else exit_code(pod)

    async def stop(self, timeout: float = 60) -> None:
        """Delete the pod, and wait until it has gone."""
        client, pods = await self._reflectors.client(), await self._reflectors.pods(self._namespace)
        pod = pods.by_key.get(self.key)
        if pod is not None:
            with suppress(NotFoundError):
                await client.delete("v1/pods", self.key, uid=pod.uid)
            await wait_for(pods, self.key, is_deleted(pod.uid), timeout=timeout)

    async def messages(self, uid: str) -> list[str]:
        """Return what the Events of a pod say, the oldest first."""
        events = (await self._reflectors.events(self._namespace)).lister.by_index("pod", uid)
        return [one["message"] for one in sorted(events, key=_time_of)]

    async def progress(self, uid: str) -> AsyncIterator[str]:
        """Yield what the Events of a pod say, those that exist and each that comes."""
        events = await self._reflectors.events(self._namespace)
        async with events.events(filter=lambda event: event.path("involvedObject.uid") == uid) as stream:
            async for event in stream:
                if event.type != "DELETED":
                    yield event.object["message"]

    def _manifest(self) -> dict[str, Any]:
        namespace, name = self.key.split("/")
        metadata = {"name": name, "namespace": namespace, "labels": {"component": "singleuser-server"}}
        container = {"name": "notebook", "image": self._image, "ports": [{"containerPort": 8888}]}
        spec = {"containers": [container], "restartPolicy": "Never"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _time_of(event: KubeObject) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
