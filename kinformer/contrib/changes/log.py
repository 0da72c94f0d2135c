"""The log of the latest changes of some informers, bounded in number and in memory."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import anyio.to_thread

from kinformer import Collection, HandlerRegistration, KubeObject, SharedInformerFactory, StoppedError
from kinformer.contrib._numbered_log import NumberedLog
from kinformer.contrib.changes.author import author_of
from kinformer.contrib.changes.causes import Causes
from kinformer.contrib.changes.causes import grouped as by_cause
from kinformer.contrib.changes.change import Change, ChangeType, bounded, size_of
from kinformer.contrib.changes.differences import Difference, object_differences
from kinformer.contrib.changes.noise import is_noise
from kinformer.contrib.changes.summary import summary_of
from kinformer.exceptions import DecodeError
from kinformer.kinds.builtin import parse_kind, parse_resource
from kinformer.objects import showable
from kinformer.objects.accessors import number_at
from kinformer.objects.spellings import parts_of

__all__ = ["Changes"]

_LARGE = 64 * 1024  # bytes of an object. Comparing two larger ones takes milliseconds, so a thread does it

_EVENTS = ("v1/events", "events.k8s.io/v1/events")
_WITHOUT = frozenset({"metadata.resourceVersion", "metadata.managedFields"})  # these differ at every write


class Changes:
    """The latest changes of the objects of some informers, as differences.

    ``async with`` begins and ends it, inside of the factory's or informers' own. It has no objects that exist when it
    begins, and none of the changes before. Reads may come from any thread.

    Args:
        informers: A factory, whose present informers are followed, or informers by resource.
        limit: The number of changes to keep. If it keeps noise, that is forgotten first.
        size: The maximum memory of the changes in bytes, approximately.
        noise: True to keep changes of heartbeats, generations, counts of replicas and the like.
        show_secrets: True to keep the values of Secrets. They are `"(hidden)"` otherwise.
        clock: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        informers: SharedInformerFactory | Mapping[str, Collection[KubeObject]],
        *,
        limit: int = 10_000,
        size: int = 32 * 1024 * 1024,
        noise: bool = False,
        show_secrets: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if limit < 1:
            raise ValueError(f"Changes(limit={limit!r}): must be at least 1")
        self._source = informers
        self._log: NumberedLog[Change] = NumberedLog(limit, size, size_of)
        self._causes = Causes()
        self._noise = noise
        self._shown: Callable[[KubeObject], KubeObject] = (lambda obj: obj) if show_secrets else showable
        self._clock = clock
        self._began = datetime.fromtimestamp(clock(), UTC)
        self._followed: dict[str, tuple[Collection[KubeObject], HandlerRegistration]] = {}

    # --- life -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._began = datetime.fromtimestamp(self._clock(), UTC)
        source = self._source
        named = source.items() if isinstance(source, Mapping) else [(cache.name, cache) for cache in source.informers]
        for name, informer in named:
            self.follow(name, informer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in list(self._followed):
            await self.unfollow(name)

    def follow(self, resource: str, informer: Collection[KubeObject]) -> None:
        """Keep the changes of an informer too, from now on. Does nothing for a resource that is followed."""
        if resource in self._followed:
            return

        async def on_add(obj: KubeObject, *, is_in_initial_list: bool) -> None:
            if not is_in_initial_list:
                await self._note(resource, "created", None, obj)

        async def on_update(old: KubeObject, new: KubeObject) -> None:
            if old.uid != new.uid:
                await self._note(resource, "deleted", old, old)
                await self._note(resource, "created", None, new)
            elif old.resource_version != new.resource_version:  # a resync is not a change
                await self._note(resource, "changed", old, new)

        async def on_delete(obj: KubeObject) -> None:
            await self._note(resource, "deleted", obj, obj)

        handler = informer.add_event_handler(on_add=on_add, on_update=on_update, on_delete=on_delete, name="changes")
        self._followed[resource] = informer, handler

    async def unfollow(self, resource: str) -> None:
        """Keep no further changes of a resource. Those that are kept stay."""
        informer, handler = self._followed.pop(resource)
        with suppress(StoppedError):
            await informer.remove_event_handler(handler)

    # --- writing ----------------------------------------------------------------------------------

    async def _note(self, resource: str, kind: ChangeType, old: KubeObject | None, new: KubeObject) -> None:
        when = datetime.fromtimestamp(self._clock(), UTC)
        if kind != "deleted" and any(obj is not None and len(obj.raw) > _LARGE for obj in (old, new)):
            change = await anyio.to_thread.run_sync(self._compared, resource, kind, old, new, when)
        else:
            change = self._compared(resource, kind, old, new, when)
        if change is None:
            self._causes.settle(new, when.timestamp())
            return
        change = replace(change, number=self._log.last + 1)
        if not change.is_noise:
            change = replace(change, cause=self._causes.cause_of(change, new))
        self._log.append(change, minor=change.is_noise)

    def _compared(
        self, resource: str, kind: ChangeType, old: KubeObject | None, new: KubeObject, when: datetime
    ) -> Change | None:
        """Return the change, without its number, or None if it is noise that is not kept."""
        telling: list[Difference] = []
        noise: list[Difference] = []
        summary: str = kind
        if kind == "changed" and old is not None:
            try:
                differences = object_differences(old, new, _WITHOUT, shown=self._shown)
                paths = {difference.path for difference in differences}
                for difference in differences:
                    (noise if is_noise(new.kind, difference, paths) else telling).append(difference)
                summary = summary_of(telling or noise)
            except (DecodeError, RecursionError):  # nested too deeply to be compared
                summary, telling = "unreadable", [Difference("<unreadable>", None, None)]
            if not telling and not self._noise:
                return None
        return Change(
            number=0,
            time=when,
            type=kind,
            resource=resource,
            kind=new.kind,
            namespace=new.namespace,
            name=new.name,
            version=new.resource_version,
            summary=summary,
            differences=bounded(telling),
            noise=bounded(noise) if self._noise else (),
            by="" if kind == "deleted" else author_of(old, new),
            replicas=number_at(new, "spec", "replicas"),
        )

    # --- reading ----------------------------------------------------------------------------------

    @property
    def since(self) -> datetime:
        """The time after which no change is missing, except for noise."""
        forgotten = self._log.forgotten
        return self._began if forgotten is None else forgotten.time

    @property
    def last(self) -> int:
        """The number of the last change, or 0 before the first."""
        return self._log.last

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that are followed."""
        return tuple(self._followed)

    def __len__(self) -> int:
        return len(self._log)

    def list(
        self,
        *,
        after: int = 0,
        resource: str | None = None,
        kind: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        noise: bool = False,
        grouped: bool = False,
    ) -> Sequence[Change]:
        """Return the changes that match, oldest first.

        Args:
            after: Only those with a higher number.
            resource, kind, namespace, name: Only those of such objects.
            noise: True to include changes of nothing but noise, if the log keeps them, and Events. These are included
                too if `resource` or `kind` asks for them.
            grouped: True to return, of each cause with a change that matches, the first change, with all others as its
                `members` and what has come of it in its summary: `"image 1.2 to 1.3, 6 of 8 pods replaced"`.

        Raises:
            ConfigError: `resource` or `kind` is the name of another thing. The message has the right one.
        """
        group, kind = parse_kind(kind, "kind") if kind is not None else (None, None)
        filters = {"resource": resource, "kind": kind, "namespace": namespace, "name": name}
        asked = {field: value for field, value in filters.items() if value is not None}
        has_noise = noise or kind == "Event" or (resource or "").partition("#")[0] in _EVENTS
        entries = self._log.entries(minor=has_noise)
        matches = [
            change
            for change in entries
            if change.number > after
            and all(getattr(change, field) == value for field, value in asked.items())
            and group in (None, parts_of(change.resource)[0])
            and (noise or not change.is_noise or change.kind == "Event")
        ]
        if not matches and resource is not None and resource not in self._followed:
            parse_resource(resource.partition("#")[0])
        if not grouped:
            return matches
        causes = {change.cause or change.number for change in matches}
        return by_cause(change for change in entries if (change.cause or change.number) in causes)

    async def wait(self, number: int, timeout: float | None = None) -> bool:
        """Wait until there is a change after `number`. Returns False after `timeout` seconds."""
        return await self._log.wait(number, timeout)

    async def stream(self, *, after: int | None = None, noise: bool = False) -> AsyncIterator[Change]:
        """Yield each change as it comes, from now on or after a number. A slow reader misses what is forgotten."""
        number = self.last if after is None else after
        while True:
            await self.wait(number)
            changes = self.list(after=number, noise=noise)
            number = self.last
            for change in changes:
                yield change
