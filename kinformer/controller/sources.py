"""The sources of a controller: informers, each with the keys that its changes trigger."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from kinformer._runtime.cancellation import guarded
from kinformer._runtime.clock import UserFunction, YieldBudget, in_steps
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer.controller.predicates import EventFilter
from kinformer.controller.reconcile import Reason, Request, request_key
from kinformer.exceptions import StoppedError
from kinformer.informer.collection import Collection, core_of
from kinformer.kinds.builtin import parse_kind
from kinformer.objects.object import KubeObject
from kinformer.processor.event_stream import EventStream, InformerEvent
from kinformer.workqueue.work_queue import LOW_PRIORITY

__all__ = ["ControllerSource", "Mapper", "SourceFeed", "has_clusters", "keys_have_clusters", "keys_of_owners"]

log = get_logger("kinformer.controller")

Keys = Iterable[str | Request]
Mapper = Callable[[KubeObject], Keys | Awaitable[Keys]]
Trigger = Callable[[str, Reason, int], None]


@dataclass(frozen=True, slots=True)
class ControllerSource:
    """An informer or derived collection whose changes trigger reconciles.

    Attributes:
        informer: The informer or collection, which is entered by its owner.
        mapper: Maps an object to the keys that its change triggers. None is the key of the object itself.
        predicate: Chooses the events that trigger. None is all of them.
    """

    informer: Collection
    mapper: Mapper | None = None
    predicate: EventFilter | None = None


def has_clusters(sources: Iterable[ControllerSource]) -> bool:
    """Return True if one of the sources is a union, whose keys begin with the name of a member."""
    return any(_has_members(source) for source in sources)


def keys_have_clusters(sources: Iterable[ControllerSource]) -> bool:
    """Return True if the reconciled objects come from a union, so that their keys begin with the name of a member."""
    return any(source.mapper is None and _has_members(source) for source in sources)


def _has_members(source: ControllerSource) -> bool:
    core = core_of(source.informer)
    return core is not None and core.has_members


def keys_of_owners(
    owner_kind: str, is_cluster_scoped: Callable[[], bool | None], own_group: Callable[[], str | None]
) -> Mapper:
    """Return a mapper to the controlling owner of a kind (controller-runtime, pkg/handler/enqueue_owner.go).

    Args:
        owner_kind: The kind in a form of `parse_kind`.
        is_cluster_scoped: Returns True if the owners have no namespace, or None if unknown, because an owner reference
            has no namespace. A cluster-scoped object cannot have a namespaced owner (such a reference is ignored).
        own_group: Returns the group of the owners if `owner_kind` has none, or None for any group.

    Raises:
        ConfigError: `owner_kind` has no such form.
    """
    named, kind = parse_kind(owner_kind, "owner_kind")

    def owners(obj: KubeObject) -> list[str]:
        group = own_group() if named is None else named
        without_namespace = is_cluster_scoped()
        if not obj.namespace and without_namespace is False:
            return []
        return [
            owner.name if not obj.namespace or without_namespace else f"{obj.namespace}/{owner.name}"
            for owner in obj.owner_references
            if owner.controller and owner.kind == kind and group in (None, owner.api_version.rpartition("/")[0])
        ]

    return owners


class SourceFeed:
    """Turns the events of one source into triggers, for one run of a controller.

    Args:
        source: The source.
        name: The name of the controller.
        trigger: Called with each key, the reason and the priority.
        on_failure: Called when a predicate or mapper has raised, before the error is logged.
        is_ending: Returns True if the controller ends its tasks. See `guarded`.
        clusters: True if keys may begin with the name of a cluster, because one of the sources is a union.
        completes: True if a key without a cluster, which a mapper returns for an object of a union, gets the object's
            cluster.
    """

    def __init__(
        self,
        source: ControllerSource,
        name: str,
        trigger: Trigger,
        on_failure: Callable[[], None],
        is_ending: Callable[[], bool],
        *,
        clusters: bool,
        completes: bool = False,
    ) -> None:
        self.informer = source.informer
        self._source = source
        self._name = name
        self._trigger = trigger
        self._on_failure = on_failure
        self._is_ending = is_ending
        self._clusters = clusters
        self._completes = completes and _has_members(source)
        self._stream: EventStream | None = None
        self._entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queued = asyncio.Event()  # cleared while an object of the first list is being mapped
        self._queued.set()
        self._own_reasons: dict[str, Reason] = {}
        self._logged = LogOnce()
        resource = source.informer.name
        function = UserFunction(f"the predicate or mapper of controller {name} for {resource}", log, resource)
        self._budget = YieldBudget(function)

    async def run(self) -> None:
        """Turn events into triggers until cancelled.

        Raises:
            StoppedError: The informer was exited, so there will be no more events.
            Exception: The informer crashed with this error.
        """
        await in_steps(self._run(), self._budget)

    async def _run(self) -> None:
        # Events are not merged: the cache is ahead of the events waiting here, so a reconcile may have read a state
        # that merging would skip, and must be triggered when that state has ended.
        async with self.informer.events(name=f"controller {self._name}", queue_size=None) as stream:
            self._stream = stream
            self._entered.set_result(None)
            async for event in stream:
                if event.is_in_initial_list:
                    self._queued.clear()
                await self._trigger_keys_of(event)
                self._queued.set()
        raise StoppedError(f"informer {self.informer.name} was exited while controller {self._name} was using it")

    @property
    def has_synced(self) -> bool:
        """True if all objects that the informer held at first have triggered."""
        return self._stream is not None and self._stream.has_synced and self._queued.is_set()

    async def wait_synced(self) -> None:
        """Wait until `has_synced`."""
        await asyncio.shield(self._entered)
        assert self._stream is not None
        await self._stream._sync.first()  # the controller's run warns, and ends the wait
        await self._queued.wait()

    def unsynced_reason(self) -> str:
        """Return the reason why `has_synced` is False, in words."""
        core = core_of(self.informer)
        missing: str = "" if core is None else core.unlisted_reason()
        return missing or "its first objects are being queued"

    async def _trigger_keys_of(self, event: InformerEvent) -> None:
        source = self._source
        keys: Iterable[str] = (event.key,)
        if source.predicate is not None or source.mapper is not None:
            self._budget.key = event.key
            try:
                keys = await guarded(self._keys_of(event), self._is_ending, "the predicate or mapper")
            except Exception as error:  # noqa: BLE001 - counted and logged, and later events are still handled
                self._mapping_failed(event, error)
                return
        kind = "INITIAL" if event.is_in_initial_list else event.type
        reason = self._own_reason(kind) if source.mapper is None else Reason(kind, self.informer.name, event.key)
        for key in keys:
            self._trigger(key, reason, _priority(event))

    async def _keys_of(self, event: InformerEvent) -> Iterable[str]:
        source = self._source
        if source.predicate is not None and not source.predicate(event):
            return ()
        if source.mapper is None:
            return (event.key,)
        keys = dict.fromkeys(await self._mapped(source.mapper, event.object))
        if event.type == "UPDATED" and event.old is not None:  # also the keys that no longer depend on the object
            keys.update(dict.fromkeys(await self._mapped(source.mapper, event.old)))
        return [self._completed(key, event) for key in keys]

    async def _mapped(self, mapper: Mapper, obj: KubeObject) -> list[str]:
        keys = mapper(obj)
        if inspect.isawaitable(keys):
            keys = await keys
        return [request_key(key, clusters=self._clusters) for key in keys]

    def _completed(self, key: str, event: InformerEvent) -> str:
        if not self._completes or key.count("/") == 2:
            return key
        return f"{event.key.partition('/')[0]}/{key if '/' in key else f'/{key}'}"

    def _mapping_failed(self, event: InformerEvent, error: BaseException) -> None:
        self._on_failure()
        log.log(
            logging.ERROR if self._logged.is_news(event.key, type(error).__name__) else logging.DEBUG,
            "controller %s: predicate or mapper failed for %s of %s",
            self._name,
            event.type,
            event.key,
            exc_info=error,
            resource=self.informer.name,
            key=event.key,
            reason="mapper_failed",
        )

    def _own_reason(self, kind: str) -> Reason:
        # Shared by all keys, because a first list of 100,000 objects causes as many triggers.
        return self._own_reasons.setdefault(kind, Reason(kind, self.informer.name))


def _priority(event: InformerEvent) -> int:
    return LOW_PRIORITY if event.is_in_initial_list or event.type == "SYNC" else 0
