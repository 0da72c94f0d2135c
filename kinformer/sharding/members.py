"""The other replicas that share a resource, as their Leases show them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from kinformer.leaderelection.lease import Lease, LeaseObservation
from kinformer.sharding.slots import ALL_SLOTS, slots_of_text, slots_text

__all__ = ["EPOCH", "GROUP", "SEAL", "SEEN", "SLOTS_HELD", "ShardMember", "ShardMembers", "annotations_of"]

GROUP = "kinformer.dev/shard-group"  # the label of the Leases of one group
SLOTS_HELD = "kinformer.dev/slots"  # annotations
EPOCH = "kinformer.dev/epoch"
SEEN = "kinformer.dev/seen"
SEAL = "kinformer.dev/seal"  # shows whether the annotations were edited by hand since the renewal

_LONGEST = 20  # the most digits of a 64-bit number


@dataclass(frozen=True, slots=True)
class ShardMember:
    """Another replica, as its Lease last showed it.

    Attributes:
        identity: The holder of its Lease.
        slots: The slots that it holds, or is about to take.
        epoch: The number of the membership that it has seen.
        seen: The resourceVersion up to which it has seen everything and runs no work for keys that changed before, or
            None if it does not know yet.
    """

    identity: str
    slots: frozenset[int]
    epoch: int
    seen: int | None

    @classmethod
    def from_lease(cls, lease: Lease) -> ShardMember:
        """Read a replica's Lease. An unreadable part gets the safe value: all slots, and nothing seen."""
        annotations = lease.annotations
        if _is_edited(lease):
            return cls.unknown(lease.holder)
        return cls(
            identity=lease.holder,
            slots=slots_of_text(str(annotations.get(SLOTS_HELD, ""))),
            epoch=_number(annotations.get(EPOCH)) or 0,
            seen=_number(annotations.get(SEEN)),
        )

    @classmethod
    def unknown(cls, identity: str) -> ShardMember:
        """Return a replica whose slots are unknown, because its Lease was deleted or edited while it held it."""
        return cls(identity=identity, slots=ALL_SLOTS, epoch=0, seen=None)


def annotations_of(holder: str, renew_time: str, slots: Iterable[int], epoch: int, seen: int | None) -> dict[str, str]:
    """Return the annotations that a replica writes into its Lease together with holder and renewTime."""
    texts = {SLOTS_HELD: slots_text(slots), EPOCH: str(epoch), SEEN: "" if seen is None else str(seen)}
    return {**texts, SEAL: _seal(holder, renew_time, texts)}


def _seal(holder: str, renew_time: str, annotations: Mapping[str, object]) -> str:
    parts = [holder, renew_time, *(str(annotations.get(name, "")) for name in (SLOTS_HELD, EPOCH, SEEN))]
    return f"{renew_time} {blake2b(chr(0).join(parts).encode(errors='replace'), digest_size=8).hexdigest()}"


def _is_edited(lease: Lease) -> bool:
    """Return True if a Lease is not as its holder wrote it. False for an earlier version, which writes no seal."""
    seal = lease.annotations.get(SEAL)
    if not isinstance(seal, str) or seal.partition(" ")[0] != lease.renew_time:
        return False
    return seal != _seal(lease.holder, lease.renew_time, lease.annotations)


class ShardMembers:
    """The other living replicas, by this replica's clock, and their slots.

    A replica lives until its Lease has not changed for its duration, as seen from here. A replica whose Lease has
    vanished lives until then too, and might hold any slot, because only its holder knows the Lease's last state.

    Args:
        own: The name of this replica's own Lease, which does not count.
        duration: Seconds for a Lease without a duration, and the minimum for any Lease that was not released.

    Attributes:
        asked: The time when the last list was requested, on the boot clock.
        living: The replicas that were living at that time.
    """

    def __init__(self, own: str, duration: float) -> None:
        self._own = own
        self._duration = duration
        self._observed: dict[str, LeaseObservation] = {}
        self.asked = -math.inf
        self.living: tuple[ShardMember, ...] = ()

    def update(self, leases: Iterable[Lease], asked: float, arrived: float) -> None:
        """Take over a list of all Leases of the group, which was requested and arrived at these times."""
        present: dict[str, Lease] = {lease.name: lease for lease in leases if lease.name != self._own}
        for name, lease in present.items():
            if name not in self._observed:
                # A replica never creates a Lease without a holder, so a Lease that looks unused was edited.
                self._observed[name] = LeaseObservation(self._duration, unused_is_free=False)
            self._observed[name].observe(lease, arrived)
        for name in [name for name in self._observed if name not in present]:
            if asked >= self._observed[name].expires:
                del self._observed[name]
        self.asked = asked
        # At the time of the request, because a replica that renewed after the response was made would look expired now.
        self.living = tuple(
            ShardMember.from_lease(observation.lease)
            if name in present and observation.lease.holder
            else ShardMember.unknown(observation.holder)
            for name, observation in self._observed.items()
            if observation.lease is not None and asked < observation.expires
        )

    @property
    def held(self) -> frozenset[int]:
        """All slots that other living replicas hold, or are about to take."""
        return frozenset().union(*(member.slots for member in self.living))

    @property
    def seen(self) -> int | None:
        """The version that all other living replicas have seen, None without others, or -1 if one does not know."""
        if not self.living:
            return None
        return min(-1 if member.seen is None else member.seen for member in self.living)

    def dead(self, asked: float, after: float) -> list[Lease]:
        """Return the Leases to delete, which expired or were given back more than `after` seconds ago."""
        return [
            observation.lease
            for observation in self._observed.values()
            if observation.lease is not None and asked > max(observation.expires, observation.since) + after
        ]


def _number(value: object) -> int | None:
    is_number = isinstance(value, str) and len(value) <= _LONGEST and value.isascii() and value.isdigit()
    return int(str(value)) if is_number else None
