"""The replicas that share a resource, as their Leases tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kinformer.leaderelection.lease import Lease, LeaseObservation
from kinformer.sharding.slots import ALL_SLOTS, slots_of_text, slots_text

__all__ = ["EPOCH", "GROUP", "SEEN", "SLOTS_HELD", "ShardMember", "ShardMembers"]

GROUP = "kinformer.dev/shard-group"  # a label: the Leases of one group
SLOTS_HELD = "kinformer.dev/slots"  # annotations
EPOCH = "kinformer.dev/epoch"
SEEN = "kinformer.dev/seen"


@dataclass(frozen=True, slots=True)
class ShardMember:
    """Another replica, as its Lease last told.

    `slots` are those that it holds, or is about to take; `seen` is the resourceVersion up to which it has seen
    everything and has nothing to do with older keys under way, None where it does not know yet.
    """

    identity: str
    slots: frozenset[int]
    epoch: int
    seen: int | None

    @classmethod
    def of(cls, lease: Lease) -> ShardMember:
        """Of a replica's Lease. What cannot be read is read as what is safe: all slots, and nothing seen."""
        annotations = lease.annotations
        return cls(
            identity=lease.holder,
            slots=slots_of_text(str(annotations.get(SLOTS_HELD, ""))) if lease.holder else frozenset(),
            epoch=_number(annotations.get(EPOCH)) or 0,
            seen=_number(annotations.get(SEEN)),
        )

    @classmethod
    def vanished(cls, lease: Lease) -> ShardMember:
        """A replica whose Lease was deleted while it held it, perhaps later than we saw it last."""
        return cls(identity=lease.holder, slots=ALL_SLOTS, epoch=0, seen=None)


def annotations_of(slots: Iterable[int], epoch: int, seen: int | None) -> dict[str, str]:
    """What a replica writes into its Lease."""
    return {SLOTS_HELD: slots_text(slots), EPOCH: str(epoch), SEEN: "" if seen is None else str(seen)}


class ShardMembers:
    """The other replicas: who lives, by our clock, and what they hold.

    A replica lives until its Lease has stood unchanged for its duration, as seen from here. One whose Lease has
    vanished lives until then too, and might hold any slot: nobody but its holder knows what the Lease said at the end.

    Args:
        own: The name of our own Lease, which does not count.
        duration: Seconds for a Lease that names none.

    Attributes:
        asked: When the last list was asked for, on the boot clock.
    """

    def __init__(self, own: str, duration: float) -> None:
        self._own = own
        self._duration = duration
        self._observed: dict[str, LeaseObservation] = {}
        self.asked = -math.inf
        self.living: tuple[ShardMember, ...] = ()

    def listed(self, leases: Iterable[Lease], asked: float, arrived: float) -> None:
        """A list of all Leases of the group that was asked for, and arrived, then."""
        present: dict[str, Lease] = {lease.name: lease for lease in leases if lease.name != self._own}
        for name, lease in present.items():
            self._observed.setdefault(name, LeaseObservation(self._duration)).saw(lease, arrived)
        for name in [name for name in self._observed if name not in present]:
            if asked >= self._observed[name].expires:
                del self._observed[name]
        self.asked = asked
        # By the time of asking: who renewed after the answer was made might still live though it looks expired now.
        self.living = tuple(
            ShardMember.of(observation.lease) if name in present else ShardMember.vanished(observation.lease)
            for name, observation in self._observed.items()
            if observation.lease is not None and asked < observation.expires
        )

    @property
    def held(self) -> frozenset[int]:
        """All slots that another living replica holds, or is about to take."""
        return frozenset().union(*(member.slots for member in self.living))

    @property
    def seen(self) -> int | None:
        """What every other living replica has seen; None where there is no other, -1 where one does not know."""
        if not self.living:
            return None
        return min(-1 if member.seen is None else member.seen for member in self.living)

    def dead(self, asked: float, after: float) -> list[Lease]:
        """The Leases that expired, or were given back, more than so many seconds ago: to be swept away."""
        return [
            observation.lease
            for observation in self._observed.values()
            if observation.lease is not None and asked > max(observation.expires, observation.since) + after
        ]


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else None


def with_annotations(document: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]) -> Any:
    """A Lease's document with some labels and annotations more."""
    metadata = dict(document["metadata"])
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return {**document, "metadata": metadata}
