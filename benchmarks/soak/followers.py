"""Followers: an informer of some shape, with handlers that come and go and check what they are told."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.soak.chaos import whole
from benchmarks.soak.truth import Mark, State, Truth, how_it_lies
from benchmarks.soak.writers import CONFIG_MAPS, NAMESPACES, WIDGETS, Kind
from kinformer import Backoff, Client, HandlerRegistration, SharedInformer, SharedInformerFactory
from kinformer.informer.options import ResourceKeywords

__all__ = ["QUICK", "SHAPES", "STREAMS", "Follower", "Replica", "Shape", "ThreadReplica", "difference"]

# Short times, so that minutes hold many lives of a stream.
QUICK: ResourceKeywords = {
    "idle_timeout": 4.0,  # above the 3 s that a server waits to get as far as a list asks
    "watch_timeout": 10.0,
    "backoff": Backoff(initial=0.05, factor=2.0, maximum=1.0, jitter=1.0, reset_after=5.0),
}

_HANDLERS = 4  # at the most at one informer; the first stays from the start to the end


def _everything(state: State) -> bool:
    return True


def _in(*namespaces: str) -> Callable[[State], bool]:
    return lambda state: state.namespace in namespaces


def _gold(state: State) -> bool:
    return state.labels.get("tier") == "gold"


@dataclass(frozen=True)
class Shape:
    """An informer's options, and which states it shows."""

    name: str
    kind: Kind = CONFIG_MAPS
    shows: Callable[[State], bool] = _everything
    whole: bool = True  # the cache holds all of an object
    restarts: bool = False  # the informer ends now and then, and goes on from its snapshot
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def index(self) -> Any:
        return f"{'data' if self.kind is CONFIG_MAPS else 'spec'}.shard" if self.whole else lambda obj: [obj.name]


SHAPES = (
    Shape("automatic"),
    Shape("list only", options={"watch_list": False, "page_size": 50}),
    Shape("stream only", options={"watch_list": True}),
    Shape("one namespace", shows=_in("soak-1"), options={"namespace": "soak-1"}),
    Shape("two namespaces", shows=_in("soak-0", "soak-2"), options={"namespaces": ["soak-0", "soak-2"]}),
    Shape("selector", shows=_gold, options={"label_selector": "tier=gold"}),
    Shape("metadata only", whole=False, options={"metadata_only": True}),
    Shape("compact", options={"compact": True}),
    Shape("snapshot", restarts=True),
    Shape(
        "snapshot of several namespaces",
        shows=_in("soak-0", "soak-1"),
        restarts=True,
        options={"namespaces": ["soak-0", "soak-1"]},
    ),
    Shape("custom", kind=WIDGETS),
    Shape("custom, list only", kind=WIDGETS, options={"watch_list": False}),
)

STREAMS = (
    Shape("watch"),
    Shape("watch, list only", options={"watch_list": False, "page_size": 50}),
    Shape("watch, one namespace", shows=_in("soak-1"), options={"namespace": "soak-1"}),
    Shape("watch, selector", shows=_gold, options={"label_selector": "tier=gold"}),
    Shape("watch, custom", kind=WIDGETS),
)


class Replica:
    """A handler that keeps what it was told, and notes what it should not have been told."""

    def __init__(self, shows: Callable[[State], bool], slowness: float, choice: random.Random) -> None:
        self.shows = shows
        self.objects: dict[str, Mark] = {}
        self.seen: dict[str, list[Mark]] = {}
        self.wrong: list[str] = []
        self._slowness = slowness
        self._choice = choice

    async def on_add(self, obj: Any) -> None:
        await self._take_time()
        self.added(obj)

    async def on_update(self, old: Any, new: Any) -> None:
        await self._take_time()
        self.updated(old, new)

    async def on_delete(self, obj: Any) -> None:
        await self._take_time()
        self.deleted(obj)

    async def _take_time(self) -> None:
        if self._slowness:
            await asyncio.sleep(self._choice.random() * self._slowness)

    def added(self, obj: Any) -> None:
        if obj.key in self.objects:
            self.wrong.append(f"an add of {obj.key}, which was there")
        self._tell(obj.key, (obj.uid, obj.resource_version))

    def updated(self, old: Any, new: Any) -> None:
        had = self.objects.get(new.key)
        if had is None:
            self.wrong.append(f"an update of {new.key}, which was not there")
        elif had[0] != new.uid or had != (old.uid, old.resource_version):
            self.wrong.append(f"an update of {new.key} from {(old.uid, old.resource_version)}, which had been {had}")
        self._tell(new.key, (new.uid, new.resource_version))

    def deleted(self, obj: Any) -> None:
        if obj.key not in self.objects:
            self.wrong.append(f"a delete of {obj.key}, which was not there")
        self._tell(obj.key, None)

    def _tell(self, key: str, mark: Mark) -> None:
        self.seen.setdefault(key, []).append(mark)
        if mark is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = mark

    def faults(self, truth: Truth) -> list[str]:
        """The errors in the events that it got."""
        wrong = list(self.wrong)
        if self.objects != truth.present(self.shows):
            wrong.append(f"its objects differ from the truth in {difference(self.objects, truth.present(self.shows))}")
        for key, seen in self.seen.items():
            lie = how_it_lies(seen, truth.history(key, self.shows))
            if lie:
                wrong.append(f"{key}: {lie}")
        return wrong

    def forget(self) -> None:
        self.seen = {key: [mark] for key, mark in self.objects.items()}


class ThreadReplica(Replica):
    """A handler of plain functions, which take their time by blocking."""

    def on_add(self, obj: Any) -> None:  # type: ignore[override]
        self._block()
        self.added(obj)

    def on_update(self, old: Any, new: Any) -> None:  # type: ignore[override]
        self._block()
        self.updated(old, new)

    def on_delete(self, obj: Any) -> None:  # type: ignore[override]
        self._block()
        self.deleted(obj)

    def _block(self) -> None:
        if self._slowness:
            time.sleep(self._choice.random() * self._slowness)


class Follower:
    """One informer of a shape, entered for as long as the soak lasts.

    Args:
        client: Shared with the others.
        shape: See `Shape`.
        seed: Of what its handlers do.
    """

    def __init__(self, client: Client, shape: Shape, seed: int) -> None:
        self.shape = shape
        self._client = client
        self._choice = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(prefix="kinformer-soak-")
        self._handlers: deque[tuple[Replica, HandlerRegistration]] = deque()
        self._begin()

    def _begin(self) -> None:
        self._factory = SharedInformerFactory(self._client, **QUICK)
        shape = self.shape
        options = {"indexers": {"index": shape.index}, **shape.options}
        if shape.restarts:
            options["snapshot"] = Path(self._folder.name) / "cache"
        self.informer: SharedInformer = self._factory.for_resource(shape.kind.resource, **options)

    async def __aenter__(self) -> Self:
        await self._factory.__aenter__()
        self.join()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._factory.__aexit__(kind, error, traceback)
        self._folder.cleanup()

    async def restart(self) -> None:
        """End, and begin again from the snapshot, with one handler."""
        await self._factory.__aexit__(None, None, None)
        for replica, _ in self._handlers:
            self._let_go(replica)
        self._handlers.clear()
        self._begin()
        await self._factory.__aenter__()
        self.join()

    def _let_go(self, replica: Replica) -> None:
        if replica.wrong:
            raise AssertionError(f"{self.shape.name}: a handler that left was told {replica.wrong[0]}")

    @property
    def relists(self) -> int:
        """Full lists after the first."""
        return sum(self.informer.statistics().relists.values())

    def join(self) -> None:
        """One more handler: quick or slow, in a thread or not, with a filter or without."""
        roll = self._choice.random()
        shape = self.shape
        slowness = 0.0 if roll < 0.5 else 0.01
        picky = roll > 0.75

        def shows(state: State) -> bool:
            return shape.shows(state) and (not picky or _gold(state))

        def only(obj: Any) -> bool:
            # A real server has objects of its own.
            return obj.namespace in NAMESPACES and (not picky or obj.labels.get("tier") == "gold")

        thread = self._choice.random() < 0.3
        replica = (ThreadReplica if thread else Replica)(shows, slowness, self._choice)
        queue_size = self._choice.choice((1, 16, 1024))
        registration = self.informer.add_event_handler(replica, queue_size=queue_size, filter=only, thread=thread)
        self._handlers.append((replica, registration))

    async def come_and_go(self) -> None:
        """Until cancelled: a handler joins, and the oldest but one leaves."""
        while True:
            await asyncio.sleep(self._choice.uniform(0.5, 4))
            self.join()
            if len(self._handlers) > _HANDLERS:
                replica, registration = self._handlers[1]
                del self._handlers[1]
                await self.informer.remove_event_handler(registration, drain=self._choice.random() < 0.5)
                self._let_go(replica)
            if self.shape.restarts and self._choice.random() < 0.3:
                await whole(self.restart())

    def behind(self, truth: Truth) -> bool:
        """The cache, or a handler, is not at the truth (yet)."""
        cached = {obj.key: (obj.uid, obj.resource_version) for obj in self._objects()}
        return cached != truth.present(self.shape.shows) or any(self.informer.statistics().pending.values())

    async def handlers_synced(self) -> None:
        """Until every handler has finished the adds that it started with."""
        await self.informer.wait_handlers_synced()

    def _objects(self) -> list[Any]:
        return [obj for obj in self.informer.lister if obj.namespace in NAMESPACES]

    def faults(self, truth: Truth, contents: dict[str, Any]) -> list[str]:
        """The errors of the cache, its indexes and its handlers, now that all should agree."""
        wrong = []
        cached = {obj.key: obj for obj in self._objects()}
        present = truth.present(self.shape.shows)
        if {key: (obj.uid, obj.resource_version) for key, obj in cached.items()} != present:
            wrong.append(f"the cache differs from the truth in {difference(cached, present)}")
        elif self.shape.whole:
            different = [key for key, obj in cached.items() if obj.to_dict() != contents[key]]
            if different:
                wrong.append(f"the content of {different[:3]} differs from the server's")
        wrong += self._index_faults(cached)
        for replica, registration in self._handlers:
            wrong += [f"handler {registration.name}: {fault}" for fault in replica.faults(truth)]
        return [f"{self.shape.name}: {fault}" for fault in wrong]

    def _index_faults(self, cached: dict[str, Any]) -> list[str]:
        indexer = self.informer.indexer
        right: dict[str, set[str]] = {}
        for key, obj in cached.items():
            value = obj.path(self.shape.index) if self.shape.whole else obj.name
            right.setdefault(value, set()).add(key)
        has = {value: set(indexer.index_keys("index", value)) for value in indexer.index_values("index")}
        has = {value: mine for value, keys in has.items() if (mine := {k for k in keys if k.startswith(NAMESPACES)})}
        if has != right:
            return [f"the index differs from the objects in {difference(has, right)}"]
        namespaces = {namespace: {key for key in cached if key.startswith(f"{namespace}/")} for namespace in NAMESPACES}
        if {namespace: set(indexer.index_keys("namespace", namespace)) for namespace in NAMESPACES} != namespaces:
            return ["the namespace index differs from the objects"]
        return []

    def forget(self) -> None:
        """All was well up to here."""
        for replica, _ in self._handlers:
            replica.forget()


def difference(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    keys = sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
    return [f"{key}: {one.get(key)} / {other.get(key)}" for key in keys[:3]]
