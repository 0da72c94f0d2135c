"""The rule of the lead: a process whose Lease another one has taken makes no more of the writes that need it.

A write inside `LeaderElector.leading()` is known to need that Lease. A Lease that the program takes
by itself says nothing about that, so a write needs it unless processes without any Lease make such writes too.
"""

from __future__ import annotations

from collections.abc import Iterator

from kinformer.testing.explore.rules.finding import LEASES, Object, ObjectKey, Violation
from kinformer.testing.explore.rules.sent import SentRequest

__all__ = ["Lead"]

_UNDER_WAY = 0.001  # seconds for a request to reach the server


class Lead:
    """The Leases of one history, and the processes that held them.

    Args:
        free: Writes that need no lead, as known from earlier histories: program, verb and resource.
    """

    def __init__(self, free: frozenset[tuple[str, str, str]] = frozenset()) -> None:
        self._holders: dict[str, SentRequest] = {}  # Lease -> the last request that took or renewed it
        self._released: set[str] = set()
        self._lost: dict[str, dict[str, tuple[str, float]]] = {}  # process -> lost Leases: new holder, time
        self._elected: set[str] = set()  # Leases of a `LeaderElector`
        self._known = free
        self._free: set[tuple[str, str, str]] = set()  # as this history has shown

    @property
    def free(self) -> frozenset[tuple[str, str, str]]:
        """The writes that processes without a Lease make, if the program takes a Lease by itself."""
        return frozenset(self._known | self._free) if self._holders.keys() - self._elected else self._known

    def note_lease(self, lease: str, old: Object | None, new: Object | None, sent: SentRequest, now: float) -> None:
        """Note a write of a Lease by a replica."""
        before, after = (old or {}).get("spec") or {}, (new or {}).get("spec") or {}
        holder = self._holders.get(lease)
        if not after.get("holderIdentity"):
            if holder is not None and holder.process == sent.process:
                self._released.add(lease)
            return
        if all(before.get(name) == after.get(name) for name in ("holderIdentity", "renewTime")):
            return  # only its labels or the like
        if sent.is_election:
            self._elected.add(lease)
        if holder is not None and holder.process != sent.process:
            self._lost.setdefault(holder.process, {})[lease] = (sent.replica, now)
        self._holders[lease] = sent
        self._released.discard(lease)
        self._lost.get(sent.process, {}).pop(lease, None)

    def check(self, key: ObjectKey, sent: SentRequest) -> Iterator[Violation]:
        """Yield a finding for a write that needs a Lease which another process has taken."""
        lost = self._lost.get(sent.process)
        holds = any(self._holders[lease].process == sent.process for lease in self._holders.keys() - self._released)
        if not lost and not holds:
            self._free.add(sent.what)
        for lease, (other, at) in (lost or {}).items():
            if sent.arrived <= at + _UNDER_WAY:
                continue  # a client cannot recall a request
            if lease in self._elected:
                needed = lease in sent.fences
            else:
                needed = not (holds or sent.fences or sent.what in self._known or sent.what in self._free)
            if needed:
                message = f"{sent.replica} wrote {key[0]} {key[1]} after {other} had taken the Lease {lease} from it"
                yield Violation("lead", message, (" ".join(key), f"{LEASES} {lease}"))
