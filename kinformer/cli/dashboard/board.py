"""What the page is fed from: the changes of all informers of a factory, as rows, and how the informers do."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from kinformer._runtime.single_flight import SingleFlight
from kinformer.cli.dashboard.history import History
from kinformer.cli.dashboard.rows import Rows, column_names
from kinformer.contrib.event_log import EventLog
from kinformer.contrib.event_source import EventSourceResponse
from kinformer.exceptions import describe
from kinformer.informer.factory import SharedInformerFactory
from kinformer.informer.informer import SharedInformer
from kinformer.informer.metrics import memory_of
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

__all__ = ["NODE_INDEX", "OWNER_INDEX", "Board", "board_of"]

OWNER_INDEX = "kinformer dashboard: owner"
NODE_INDEX = "kinformer dashboard: node"

_BATCHES = 0.1  # seconds between two batches of changes to a page: what an eye takes for at once
_BEAT = 1.0  # seconds between two reports of how the informers do
_EVENTS = 8192  # changes that are kept for pages that come back
_PODS = GroupVersionResource("", "v1", "pods")

_KINDS = {
    "configmaps": "ConfigMap",
    "cronjobs": "CronJob",
    "daemonsets": "DaemonSet",
    "deployments": "Deployment",
    "jobs": "Job",
    "namespaces": "Namespace",
    "nodes": "Node",
    "pods": "Pod",
    "replicasets": "ReplicaSet",
    "secrets": "Secret",
    "services": "Service",
    "statefulsets": "StatefulSet",
}


class Board:
    """The informers of one factory, as a page sees them. It ends when they do.

    One that has ended already is shown as it is: what is in its cache, and why it ended.

    Args:
        informers: By the names that the page has for them.
    """

    def __init__(self, informers: dict[str, SharedInformer]) -> None:
        self.informers = informers
        self.rows = Rows()
        heard = {name: informer for name, informer in informers.items() if informer.health().state != "stopped"}
        self.history = History(heard)
        self.log = EventLog(heard, events=_EVENTS)
        self.log.start()
        self._began = time.time()

    def stream(self) -> EventSourceResponse:
        """Rows and reports, to one page."""
        return EventSourceResponse(
            self.log,
            render=self.rows.render,
            wait_synced=False,
            pause=_BATCHES,
            beat=lambda: b"event: HEALTH\ndata: " + msgspec.json.encode(self.report()) + b"\n\n",
            interval=_BEAT,
        )

    def report(self) -> dict[str, Any]:
        """How the informers do, and the process."""
        return {
            "now": time.time(),
            "began": self._began,
            "memory": _memory(),
            "resources": [self._report_of(name, informer) for name, informer in self.informers.items()],
        }

    def _report_of(self, name: str, informer: SharedInformer) -> dict[str, Any]:
        health, figures = informer.health(), informer.statistics()
        group, kind = _kind_of(name, informer)
        return {
            "name": name,
            "kind": kind,
            "columns": column_names(group, kind),
            "namespaced": _is_namespaced(informer, kind),
            "state": health.state,
            "synced": health.synced,
            "live": health.live,
            "error": describe(health.last_error) if health.last_error else None,
            "failures": health.consecutive_failures,
            "event_age": health.last_event_age,
            "sync_age": health.last_sync_age,
            "version": health.resource_version,
            "watches": health.watches,
            "relists": figures.relists,
            "restarts": figures.watch_restarts,
            "objects": figures.objects,
            "events": sum(figures.events.values()),
            "received": figures.bytes,
            "memory": memory_of(informer, figures.objects),
            "queued": figures.queued,
            "pending": sum(figures.pending.values()),
            "coalesced": figures.coalesced,
            "errors": figures.decode_errors + figures.handler_errors + figures.index_errors + figures.transform_errors,
        }


_boards: WeakKeyDictionary[SharedInformerFactory, SingleFlight[Board]] = WeakKeyDictionary()


async def board_of(factory: SharedInformerFactory) -> Board:
    """The board of a factory's informers, as they are when it is first asked for."""
    found = _boards.get(factory)
    if found is None:
        informers = dict(zip(factory.health(), factory.informers, strict=True))
        found = _boards[factory] = SingleFlight(lambda: _board(informers), ttl=math.inf)
    return await found.get()


async def _board(informers: dict[str, SharedInformer]) -> Board:
    """With what the API asks for by owner and by node indexed; in slices, where the caches are full already."""
    for name, informer in informers.items():
        await informer.build_indexers({OWNER_INDEX: _owners})
        if _resource(name) == _PODS:
            await informer.build_indexers({NODE_INDEX: "spec.nodeName"})
    return Board(informers)


def _owners(obj: KubeObject) -> Iterable[str]:
    for owner in obj.owner_references:
        yield owner.uid
        yield f"{obj.namespace}/{owner.kind}/{owner.name}"


def _resource(name: str) -> GroupVersionResource:
    return GroupVersionResource.parse(name.partition("#")[0])


def _kind_of(name: str, informer: SharedInformer) -> tuple[str, str]:
    """Group and kind; before the first object as far as the name tells."""
    some = informer.indexer.sample(1)
    if some and some[0].kind:
        return some[0].api_version.rpartition("/")[0], some[0].kind
    gvr = _resource(name)
    return gvr.group, _KINDS.get(gvr.resource, gvr.resource.capitalize().removesuffix("s"))


def _is_namespaced(informer: SharedInformer, kind: str) -> bool:
    key = informer.indexer.any_key()
    return "/" in key if key else kind not in ("Node", "Namespace", "PersistentVolume", "StorageClass")


def _memory() -> int | None:
    """Bytes that this process has in memory; None where the system has no such file."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
