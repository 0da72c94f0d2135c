"""The data of the page: rows of a factory's informers, their changes, and reports on the informers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary, ref
from zlib import crc32

import msgspec

from kinformer import ConfigError, GroupVersionResource, KubeObject, SharedInformer, SharedInformerFactory
from kinformer.cli.coverage import Scope
from kinformer.cli.dashboard.catalogue import Catalogue
from kinformer.cli.dashboard.logs import Logs
from kinformer.cli.dashboard.problems import ProblemPage
from kinformer.cli.dashboard.relations import EVENT_INDEX, indexers_of, relations_of
from kinformer.cli.dashboard.troubles import Troubles
from kinformer.cli.dashboard.view.order import Orders
from kinformer.cli.dashboard.view.rows import AllRows, Row, column_names, plain
from kinformer.cli.dashboard.view.stream import PageView, ViewStream
from kinformer.cli.output.errors import error_text
from kinformer.cli.process import resident_memory
from kinformer.contrib.changes import Changes
from kinformer.contrib.event_log import EventLog
from kinformer.contrib.problems import Problems
from kinformer.derived import DerivedCollection
from kinformer.kinds.builtin import builtin_kind, is_namespaced

__all__ = ["EVENTS", "ClusterBoard", "board_of", "present_board"]

EVENTS = "v1/events"

_KEPT = 300.0  # seconds for which a resource is still followed after the last request of a page
_CHANGES = 8192  # changes kept for pages, which look at them four times a second
_ROWS_KEPT = 60.0  # seconds for which rows are kept after the last page has gone


class ClusterBoard:
    """The informers of one factory, as shown on a page. It ends when they do.

    An informer that has already ended is shown with its last cache and the reason why it ended.

    `informers` is replaced when a resource is followed or released, and never changed in place, because threads read
    it. `show` sets `problems`. The other public attributes stay, and the objects that they hold change.

    Args:
        informers: The informers, by their names on the page.
        catalogue: The other resources that a page can open. None: no others.
        derived: Returns the current derived collections of the factory.
    """

    def __init__(
        self,
        informers: Mapping[str, SharedInformer],
        catalogue: Catalogue | None = None,
        derived: Callable[[], Iterable[Any]] = tuple,
    ) -> None:
        self.informers = informers
        self._derived = derived
        self.catalogue = catalogue
        self.logs = Logs(catalogue.client) if catalogue is not None else None
        self._readers = 0  # event streams of pages
        self._forgetting: asyncio.TimerHandle | None = None  # forgets the rows, as there are no readers
        self.rows = AllRows(lambda: self.informers)
        self.orders = Orders()
        running = {name: informer for name, informer in informers.items() if informer.health().state != "stopped"}
        self.problems: ProblemPage | None = None
        self.changes = Changes({}, noise=True)  # ends with the informers
        for name, informer in running.items():
            self.changes.follow(name, informer)
        self.troubles = Troubles(self._all, catalogue)
        self.log = EventLog(running, events=_CHANGES, on_end=self._end)
        self.log.start()
        if not running:
            self._end()
        self._following = asyncio.Lock()
        self._looked_at: dict[str, float] = {}  # resource name -> time of a page's last request for it
        self._timer: asyncio.TimerHandle | None = None  # until a resource may be released
        self._releasing: asyncio.Task[None] | None = None  # kept, because the loop refers to tasks weakly
        self._began = time.time()

    def _end(self) -> None:
        self.troubles.end()
        if self._forgetting is not None:
            self._forgetting.cancel()

    def show(self, problems: Problems, scope: Scope) -> None:
        """Show the problems of the cluster on the first page."""
        self.problems = ProblemPage(problems, scope, self.resource_of)

    def _all(self) -> Mapping[str, SharedInformer]:
        """Return the informers of the page, and those in which problems are looked for."""
        return {**(self.problems.informers() if self.problems is not None else {}), **self.informers}

    async def follow(self, name: str) -> str:
        """Follow a resource, if it is not followed yet, and return its name on the page.

        A page repeats the request while it shows the resource. A resource without a request for five minutes is
        released, unless the factory had it from the start.

        Raises:
            ConfigError: The resource does not exist, or cannot be listed and watched.
            APIError, ConnectError, DecodeError: Discovery failed.
        """
        if name in self.informers:
            if name in self._looked_at:
                self._looked_at[name] = asyncio.get_running_loop().time()
            return name
        if self.catalogue is None:
            raise ConfigError(f"{name} is not followed by this service; it follows {', '.join(self.informers)}")
        resource = await self.catalogue.find(name)
        async with self._following:
            full_name = str(resource)
            if full_name not in self.informers:
                informer = self.catalogue.inform(resource)
                await informer.build_indexers(indexers_of(full_name))
                self.informers = {**self.informers, full_name: informer}  # threads may be reading the old dict
                self.changes.follow(full_name, informer)
                self.log.follow(full_name, informer)
                self._looked_at[full_name] = asyncio.get_running_loop().time()
                self._release_later()
            elif full_name in self._looked_at:
                self._looked_at[full_name] = asyncio.get_running_loop().time()
        return full_name

    def _release_later(self) -> None:
        if self._timer is None and self._looked_at:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(min(self._looked_at.values()) + _KEPT, self._release_soon)

    def _release_soon(self) -> None:
        self._timer = None
        if not self.log.ended:
            self._releasing = asyncio.create_task(self._release_idle(), name="kinformer dashboard: release")

    async def _release_idle(self) -> None:
        """Release resources that no page has requested for a while."""
        async with self._following:
            before = asyncio.get_running_loop().time() - _KEPT
            assert self.catalogue is not None
            for name in [name for name, at in self._looked_at.items() if at <= before]:
                del self._looked_at[name]
                informer = self.informers[name]
                self.informers = {key: kept for key, kept in self.informers.items() if key != name}
                await self.log.unfollow(name)
                await self.changes.unfollow(name)
                await self.catalogue.release(informer)
            self._release_later()

    async def resource_of(self, group: str, kind: str) -> str | None:
        """Return the name of the resource of a kind, followed or not, or None if there is none."""
        for name, informer in self.informers.items():
            if _kind_of(name, informer) == (group, kind):
                return name
        return await self.catalogue.of_kind(group, kind) if self.catalogue is not None else None

    def stream(self, view: PageView) -> ViewStream:
        """Return the stream of a view for one page."""
        return ViewStream(self, view)

    def note_reader(self, change: int) -> None:
        """Count the readers of streams. Rows are forgotten a minute after the last one has gone."""
        self._readers += change
        if self._forgetting is not None:
            self._forgetting.cancel()
            self._forgetting = None
        if not self._readers and not self.log.ended:
            self._forgetting = asyncio.get_running_loop().call_later(_ROWS_KEPT, self._forget)

    def _forget(self) -> None:
        self.rows.clear()
        self.orders.clear()

    def columns(self, name: str) -> list[str]:
        """Return the columns of a resource that is followed."""
        return column_names(*_kind_of(name, self.informers[name]))

    def row(self, name: str, key: str) -> Row | None:
        """Return the row of an object, or None if it is not in a cache."""
        rows = self.rows.of(name)
        return rows.get(key) if rows is not None else None

    async def relations(self, name: str, obj: KubeObject) -> list[dict[str, Any]]:
        """Return the relations of an object. Items in a cache have `ready`, `status`, `level` and `reason`."""
        groups = await relations_of(self.informers, name, obj, self.resource_of)
        for item in (item for group in groups for item in group["items"]):
            resource = item["resource"]
            row = self.row(resource, item["key"]) if resource in self.informers else None
            if row is not None:
                cells = dict(zip(self.columns(resource), map(plain, row.cells), strict=False))
                ready, of = cells.get("READY", ""), cells.get("DESIRED", "")
                item["ready"] = f"{ready}/{of}" if of and "/" not in ready else ready
                item |= {"status": cells.get("STATUS", ""), "level": row.level, "reason": row.reason}
        return groups

    def last_state(self, resource: str, key: str) -> KubeObject | None:
        """Return the last state of an object, even if it has been deleted, or None if its changes are not kept."""
        state = self.log.last_state(resource, key)
        return state if isinstance(state, KubeObject) else None

    async def marks_of(self, resource: str, key: str) -> tuple[str, int]:
        """Return two marks, which change with an object, and with what is related to it or has occurred to it."""
        informer, row = self.informers.get(resource), self.row(resource, key)
        obj = informer.indexer.get_by_key(key) if informer is not None else None
        obj = obj or self.last_state(resource, key)
        own = f"{row.version} {row.level}" if row is not None else ""
        if obj is None:
            return own, 0
        around: list[Any] = [await self.relations(resource, obj)]
        if (events := self.informers.get(EVENTS)) is not None:
            occurrences = events.indexer.by_index(EVENT_INDEX, f"{obj.namespace}/{obj.kind}/{obj.name}")
            around.append(sorted((event.key, event.resource_version) for event in occurrences))
        return own, crc32(msgspec.json.encode(around))

    def report(self) -> dict[str, Any]:
        """Return the state of the informers and of the process."""
        return {
            "now": time.time(),
            "began": self._began,
            "memory": resident_memory(),
            "picks": self.catalogue is not None,
            "logs": self.logs is not None,
            "problems": self.problems.report(self.troubles.since) if self.problems is not None else None,
            "changes": {"last": self.changes.last, "since": self.changes.since.timestamp()},
            "troubles": self.troubles.report(),
            "withheld": self.troubles.withheld(),
            "namespaces": sorted(self._namespaces()),
            "resources": [self._report_of(name, informer) for name, informer in self.informers.items()],
            "derived": [_report_of_derived(collection) for collection in self._derived()],
        }

    def _namespaces(self) -> set[str]:
        namespaces = (informer.indexer.index_values("namespace") for informer in self.informers.values())
        return {name for names in namespaces for name in names if name}

    def _report_of(self, name: str, informer: SharedInformer) -> dict[str, Any]:
        health, figures = informer.health(), informer.statistics()
        group, kind = _kind_of(name, informer)
        rows = self.rows.of(name)
        return {
            "name": name,
            "kind": kind,
            "levels": rows.levels() if rows is not None else {},
            "columns": column_names(group, kind),
            "namespaced": _is_namespaced(name, informer),
            "state": health.state,
            "synced": health.synced,
            "live": health.live,
            "error": error_text(health.last_error),
            "since": self.troubles.since(name),
            "failures": health.consecutive_failures,
            "event_age": health.last_event_age,
            "sync_age": health.last_sync_age,
            "staleness": health.staleness,
            "holder": health.holder,
            "version": health.resource_version,
            "watches": health.watches,
            "relists": figures.relists,
            "restarts": figures.watch_restarts,
            "objects": len(informer.by_key),
            "events": sum(figures.events.values()),
            "received": figures.bytes,
            "memory": figures.memory,
            "queued": figures.queued,
            "pending": sum(figures.pending.values()),
            "coalesced": figures.coalesced,
            "errors": figures.decode_errors + figures.handler_errors + figures.index_errors + figures.transform_errors,
        }


def _report_of_derived(collection: DerivedCollection[Any]) -> dict[str, Any]:
    health, figures = collection.health(), collection.statistics()
    return {
        "name": collection.name,
        "reads": figures.reads,
        "state": health.state,
        "synced": health.synced,
        "live": health.live,
        "error": error_text(health.last_error),
        "values": figures.objects,
        "runs": figures.runs,
        "failures": figures.failures,
        "dependencies": figures.dependencies,
        "waiting": figures.waiting,
        "events": sum(figures.events.values()),
        "pending": sum(figures.pending.values()),
        "coalesced": figures.coalesced,
        "errors": figures.handler_errors + figures.index_errors,
    }


class _Place:
    """The board of one factory, once it is created. The lock is held during its creation."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.board: ClusterBoard | None = None


_places: WeakKeyDictionary[SharedInformerFactory, _Place] = WeakKeyDictionary()


async def board_of(factory: SharedInformerFactory, catalogue: Catalogue | None = None) -> ClusterBoard:
    """Return the board of a factory. It has the factory's informers at the first call, and all derived collections.

    Args:
        factory: The factory.
        catalogue: The other resources that pages can open. Used at the first call.
    """
    place = _places.setdefault(factory, _Place())
    async with place.lock:
        if place.board is None:
            informers = dict(zip(factory.health(), factory.informers, strict=True))
            # The API finds objects by owner and pods by node. Full caches are indexed in slices.
            for name, informer in informers.items():
                await informer.build_indexers(indexers_of(name))
            place.board = ClusterBoard(informers, catalogue, _derived_of(ref(factory)))
    return place.board


def present_board(factory: SharedInformerFactory) -> ClusterBoard | None:
    """Return the board of a factory, if there is one."""
    place = _places.get(factory)
    return place.board if place is not None else None


def _derived_of(factory: ref[SharedInformerFactory]) -> Callable[[], Iterable[Any]]:
    """Return a function that returns a factory's current derived collections, without keeping the factory alive."""

    def derived() -> Iterable[Any]:
        alive = factory()
        return () if alive is None else alive.derived

    return derived


def _resource(name: str) -> GroupVersionResource:
    return GroupVersionResource.parse(name.partition("#")[0])


def _kind_of(name: str, informer: SharedInformer) -> tuple[str, str]:
    """Return group and kind. Before the first object, they are guessed from the name."""
    some = informer.indexer.sample(1)
    if some and some[0].kind and some[0].kind != "PartialObjectMetadata":
        return some[0].api_version.rpartition("/")[0], some[0].kind
    gvr = _resource(name)
    return gvr.group, builtin_kind(gvr) or gvr.resource.capitalize().removesuffix("s")


def _is_namespaced(name: str, informer: SharedInformer) -> bool:
    key = informer.indexer.any_key()
    return "/" in key if key else is_namespaced(_resource(name)) is not False
