"""A part: one of several equal ranges of the hash of uids, and the objects in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Self, TypeVar

from kinformer._runtime.clock import YieldBudget
from kinformer.exceptions import ConfigError
from kinformer.list_watcher import Events, WatchEvent
from kinformer.objects.object import KubeObject, UndecodableObject

__all__ = ["Part", "in_slices", "selector_of"]

T = TypeVar("T")

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_SLICE = 64  # objects looked at between two checks of the clock, which take half a millisecond


@lru_cache(maxsize=4096)  # 1 MB: many objects have the same owner, and the same objects change again and again
def _hash(uid: str) -> int:
    """Return the 64-bit FNV-1a hash that the API server computes (apimachinery, pkg/sharding/hash.go), in 8 us."""
    value = _OFFSET
    for byte in uid.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


@dataclass(frozen=True, slots=True)
class Part:
    """One of `count` equal parts of all objects, by the hash of their uids. A uid is in exactly one of them, for ever.

    Attributes:
        index: The number of the part, from 0 to `count - 1`.
        count: The number of parts.
        by_owner: True if the uid of an object's controlling owner decides, and not its own. An object without one is in
            no part.

    Raises:
        ConfigError: `index` or `count` is invalid.
    """

    index: int
    count: int
    by_owner: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("index", "count"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ConfigError(f"{type(self).__name__}: invalid {name}={value!r}: expected a whole number")
        if not 0 <= self.index < self.count:
            raise ConfigError(
                f"{type(self).__name__}: invalid index={self.index} of count={self.count}: "
                "expected a count of at least 1, and an index from 0 to count - 1"
            )

    def of_owners(self) -> Self:
        """Return the same part for owned objects: the uid of their controlling owner decides.

        Only one step counts. The pods of a Deployment are owned by its ReplicaSets, whose uids are their own. No server
        can filter by an owner, so everything is received, and the rest is left out here.
        """
        return replace(self, by_owner=True)

    def has(self, obj: KubeObject) -> bool:
        """Return True if the object is in this part."""
        uid = obj.uid
        if self.by_owner:
            owner = next((owner.uid for owner in obj.owner_references if owner.controller), None)
            if owner is None:
                return False
            uid = owner
        return _hash(uid) * self.count >> 64 == self.index

    @property
    def name(self) -> str:
        """`"0 of 3"`, or `"0 of 3 by owner"`.

        :meta private:
        """
        return f"{self.index} of {self.count}{' by owner' if self.by_owner else ''}"

    @property
    def selector(self) -> str | None:
        """The `shardSelector` of this part (KEP-5866), or None if there is none: for all uids, and for owners."""
        if self.count == 1 or self.by_owner:
            return None
        start, end = (-(-(index << 64) // self.count) for index in (self.index, self.index + 1))
        return f"shardRange(object.metadata.uid,'0x{start:016x}','0x{end:016x}')"

    def objects(self, objects: Sequence[KubeObject]) -> list[KubeObject]:
        """Return the objects that are in this part, in order.

        :meta private:
        """
        return [obj for obj in objects if self.has(obj)]

    def events(self, events: Sequence[WatchEvent]) -> Events:
        """Return the events that a reader of this part alone should get, in order.

        A changed owner may move an object out of the part. Since only a cache knows whether it had the object, each
        change of an object elsewhere becomes a DELETED without its new state. Nothing is known of an object that could
        not be decoded, so its event passes.

        :meta private:
        """
        passed: Events = []
        for event in events:
            kind, obj = event
            if kind == "BOOKMARK" or type(obj) is UndecodableObject or self.has(obj):
                passed.append(event)
            elif self.by_owner and kind != "ADDED":
                passed.append(WatchEvent("DELETED", UndecodableObject.of(obj.key, obj.resource_version)))
        return passed


async def in_slices(filtered: Callable[[Sequence[T]], list[T]], values: list[T], budget: YieldBudget) -> list[T]:
    """Return the values that a filter lets pass, without stalling the event loop."""
    passed: list[T] = []
    for start in range(0, len(values), _SLICE):
        passed += filtered(values[start : start + _SLICE])
        if budget.exhausted():
            await budget.pause()
    return passed


def selector_of(part: Part | None, shard_selector: str | None, resource: str) -> str | None:
    """Return the selector of a part, or the one that was passed if there is no part.

    Raises:
        ConfigError: `part` is something else, or both were passed. The message names the resource.
    """
    if part is None:
        return shard_selector
    if not isinstance(part, Part):
        raise ConfigError(f"{resource}: expected a kinformer.sharding.Shard, got {part!r}")
    if shard_selector:
        raise ConfigError(f"{resource}: pass a shard or shard_selector, not both: a shard has its own selector")
    return part.selector
