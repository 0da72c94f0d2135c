"""A ListerWatcher in memory: a truthful little server, with the failures that a test asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

from kinformer import KubeObject, ListOptions, ListPage, WatchEvent
from kinformer.exceptions import ExpiredError, InvalidError, ResourceVersionTooLargeError
from tests.support.kube import config_map


class MemorySource:
    """Holds config maps; every write gets the next resourceVersion and reaches open watches at once."""

    name = "v1/configmaps"
    type: Mapping[str, str] = MappingProxyType({"apiVersion": "v1", "kind": "ConfigMap"})

    def __init__(self, *, watch_list: bool = True, namespace: str | None = None) -> None:
        self.version = 1
        self.floor = 0  # versions below are forgotten
        self.objects: dict[str, KubeObject] = {}
        self.history: list[tuple[int, WatchEvent]] = []
        self.namespace = namespace
        self.lists: list[ListOptions] = []
        self.watches: list[ListOptions] = []
        self.fail_with: BaseException | None = None  # every request fails with it
        self.hang = False  # every request hangs
        self._watch_list = watch_list
        self._changed = asyncio.Event()
        self._epoch = 0

    # --- the cluster's side ---

    def set(self, name: str = "a", *, namespace: str = "default", uid: str | None = None, **fields: Any) -> KubeObject:
        key = f"{namespace}/{name}"
        old = self.objects.get(key)
        self.version += 1
        uid = uid or (old.uid if old is not None else f"uid-{self.version}")
        document = config_map(name, namespace=namespace, rv=self.version, uid=uid, **fields)
        obj = KubeObject.from_dict({**document, **self.type})
        self.objects[key] = obj
        self.record("ADDED" if old is None or old.uid != uid else "MODIFIED", obj)
        return obj

    def delete(self, name: str = "a", *, namespace: str = "default") -> None:
        old = self.objects.pop(f"{namespace}/{name}")
        self.version += 1
        last = config_map(name, namespace=namespace, rv=self.version, uid=old.uid, data=old["data"])
        self.record("DELETED", KubeObject.from_dict({**last, **self.type}))

    def record(self, kind: str, obj: KubeObject) -> None:
        self.history.append((self.version, WatchEvent(kind, obj)))
        self._wake()

    def cut(self) -> None:
        """End every open watch, cleanly."""
        self._epoch += 1
        self._wake()

    def expire(self) -> None:
        """Forget the history and end every watch: who comes back gets a 410."""
        self.version += 1
        self.floor = self.version
        self.history.clear()
        self.cut()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # --- the client's side ---

    def _mine(self, obj: KubeObject) -> bool:
        return self.namespace is None or obj.namespace == self.namespace

    async def _fault(self) -> None:
        if self.hang:
            await asyncio.Event().wait()
        if self.fail_with is not None:
            raise self.fail_with

    async def list(self, options: ListOptions) -> ListPage:
        self.lists.append(options)
        await self._fault()
        if options.resource_version and int(options.resource_version) > self.version:
            await asyncio.sleep(3)  # as a real server does, in case it is only behind
            if int(options.resource_version) > self.version:
                raise ResourceVersionTooLargeError(504, "Timeout", "Too large resource version")
        return ListPage([obj for obj in self.objects.values() if self._mine(obj)], str(self.version))

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        self.watches.append(options)
        await self._fault()
        if options.send_initial_events and not self._watch_list:
            raise _unsupported()
        yield self.events(options)

    async def events(self, options: ListOptions) -> AsyncIterator[list[WatchEvent]]:
        epoch = self._epoch
        if options.send_initial_events:
            seen = self.version
            yield [WatchEvent("ADDED", obj) for obj in self.objects.values() if self._mine(obj)]
            yield [WatchEvent("BOOKMARK", _bookmark(seen, end=True))]
        else:
            seen = int(options.resource_version or 0)
            if seen < self.floor:
                raise ExpiredError(410, "Expired", f"too old resource version: {seen} ({self.floor})")
        while self._epoch == epoch:
            changed = self._changed
            fresh = [(version, event) for version, event in self.history if version > seen]
            if fresh:
                seen = fresh[-1][0]
                yield [event for _, event in fresh if self._mine(event.object)]
            else:
                await changed.wait()


def _bookmark(version: int, *, end: bool = False) -> dict[str, Any]:
    annotations = {"k8s.io/initial-events-end": "true"} if end else {}
    metadata = {"resourceVersion": str(version), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _unsupported() -> Exception:
    return InvalidError(422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList gate is enabled")
