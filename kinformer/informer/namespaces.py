"""The chosen namespaces of an informer: those that a collection of Namespaces has, which come and go."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.logs import get_logger
from kinformer._runtime.one_by_one import OneByOne
from kinformer._runtime.tasks import Tasks
from kinformer.exceptions import StoppedError, describe
from kinformer.informer.collection import CollectionReads
from kinformer.list_watcher import Capabilities, IngestCounts, ListerWatcher, by_scope, capabilities_of
from kinformer.listwatch.transform import TransformingListerWatcher
from kinformer.processor.mailbox import ADD, DELETE, Notification
from kinformer.processor.processor import UNKNOWN_SCOPES
from kinformer.processor.publisher import Readable
from kinformer.queue.atomic_delta_fifo import ScopeStep
from kinformer.reflector.reflector import Reflector

__all__ = ["ChosenNamespaces", "DepartedCounts", "NamespaceFollower", "sources_of"]

log = get_logger("kinformer.informer")

_STEPS = {ADD: ScopeStep.JOINED, DELETE: ScopeStep.LEFT}


class ChosenNamespaces:
    """The sources of an informer for the namespaces that a collection has.

    Args:
        collection: Its keys are the names of the namespaces; entered by its owner.
        source_of: Makes the source of a namespace; of None one of all, which is only asked what it is.
    """

    def __init__(self, collection: CollectionReads[Any], source_of: Callable[[str | None], ListerWatcher]) -> None:
        self.collection = collection
        self.source_of = source_of
        self.template = source_of(None)

    def unsynced_reason(self) -> str:
        """Return why the namespaces are not known; "" if they are."""
        reason = self.collection._readable.unsynced_reason()
        return reason and f"the namespaces of {self.collection.name} are not known: {reason}"


Sources = dict[str | None, ListerWatcher] | ChosenNamespaces


def sources_of(
    list_watch: ListerWatcher | Mapping[str, ListerWatcher] | ChosenNamespaces,
) -> tuple[Sources, Capabilities]:
    """Return the sources of an informer, by scope or as namespaces that are chosen; and what one of them can do.

    Raises:
        ConfigError: There is none.
    """
    if isinstance(list_watch, ChosenNamespaces):
        return list_watch, capabilities_of(list_watch.template)
    scopes = by_scope(list_watch)
    return scopes, capabilities_of(next(iter(scopes.values())))


class FollowedParts(Protocol):
    """The parts of an informer that a namespace joins and leaves: its `Wiring`."""

    @property
    def chosen(self) -> ChosenNamespaces | None: ...
    @property
    def queue(self) -> ScopedQueue: ...
    def join(self, namespace: str) -> Reflector:
        """Make the parts of a namespace, and return its reflector, to be run."""
        ...

    def leave(self, namespace: str) -> Reflector:
        """Have the objects of a namespace told as deletes, and return its reflector."""
        ...


class ScopedQueue(Protocol):
    """A queue that is told of namespaces."""

    def change_scope(self, scope: str, step: ScopeStep, /) -> None:
        """Put a step of a namespace behind the changes before it."""
        ...


class NamespaceFollower:
    """Receives the changes of a collection of namespaces for one informer, and has each of them followed.

    It does nothing if the namespaces of the informer are fixed. Those that come or go at once do so one by one, because
    each of them sends requests.

    Args:
        name: Of the informer.
        parts: Of the informer.
        run: Runs a reflector in a task.
        tasks: Of the informer.
    """

    def __init__(
        self,
        name: str,
        parts: FollowedParts,
        run: Callable[[Reflector], asyncio.Task[None]],
        tasks: Tasks,
    ) -> None:
        self._name = name
        self._parts = parts
        self._run = run
        self._steps = OneByOne[tuple[str, ScopeStep]](self._take, tasks, f"kinformer namespaces of {name}")
        self._running: dict[str, asyncio.Task[None]] = {}
        self._followed: Readable | None = None

    def start(self) -> None:
        """Begin to follow the collection.

        Raises:
            StoppedError: It has been left. If it has crashed, its error is raised instead.
        """
        if self._parts.chosen is not None:
            followed = self._parts.chosen.collection._readable
            followed.usable(f"informer {self._name}")
            self._followed = followed
            followed.publisher.attach(self)

    def stop(self) -> None:
        """Follow it no more."""
        self._steps.clear()
        followed, self._followed = self._followed, None
        if followed is not None:
            followed.publisher.detach(self)

    # --- the side of the collection ---------------------------------------------------------------

    def put(self, batch: Sequence[Notification], initial: int = 0, /) -> None:
        """Take some changes, in their order."""
        self._steps.add((key, _STEPS[kind]) for kind, key, _, _, _ in batch if kind in _STEPS)

    def replay(self, objects: ChunkedList[Any], /) -> None:
        """Take the namespaces that the collection begins with."""
        self._steps.add((entry.key, ScopeStep.JOINED) for entry in objects)

    def upstream_synced(self) -> None:
        """Note that all namespaces are known."""
        self._steps.add([(UNKNOWN_SCOPES, ScopeStep.COMPLETE)])

    def fail(self, error: BaseException, /) -> None:
        """Note that the collection has ended: the namespaces stay as they are."""
        if self._followed is not None:
            text = "%s: the namespaces of %s are followed no more: %s"
            level = log.warning if isinstance(error, StoppedError) else log.error
            level(text, self._name, self._followed.name, describe(error), resource=self._name, reason=error)

    def _take(self, change: tuple[str, ScopeStep]) -> None:
        key, step = change
        if step is ScopeStep.JOINED:
            self._join(key)
        elif step is ScopeStep.LEFT:
            self._leave(key)
        else:
            self._parts.queue.change_scope(key, step)

    def _join(self, key: str) -> None:
        if "/" in key:
            text = "%s: %r is not the name of a namespace, and is left out"
            log.error(text, self._name, key, resource=self._name, reason="bad_namespace")
        elif key not in self._running:
            self._running[key] = self._run(self._parts.join(key))

    def _leave(self, key: str) -> None:
        running = self._running.pop(key, None)
        if running is not None:
            self._parts.leave(key)
            running.cancel()


class DepartedCounts:
    """What the sources and reflectors of namespaces that have left had counted: counters do not go back."""

    def __init__(self) -> None:
        self.bytes = 0
        self.decode_errors = 0
        self.transform_errors = 0
        self.relists: Counter[str] = Counter()
        self.watch_restarts: Counter[str] = Counter()

    def add(
        self, reflector: Reflector, received: Iterable[IngestCounts], transform: TransformingListerWatcher | None
    ) -> None:
        """Add the counts of one namespace."""
        self.relists.update(reflector.relists)
        self.watch_restarts.update(reflector.watch_restarts)
        for counts in received:
            self.bytes += counts.bytes
            self.decode_errors += counts.decode_errors
        if transform is not None:
            self.transform_errors += transform.transform_errors
