"""The faults that an exploration chooses from. A test may select some: ``faults={Stale, LostAnswer, Restart}``."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ALL",
    "BY_NAME",
    "LEASES",
    "ClockJump",
    "Conflict",
    "CutWatch",
    "DefinitionDeleted",
    "Fault",
    "Folded",
    "ForeignChange",
    "LateEvents",
    "LostAnswer",
    "LostRequest",
    "NamespaceDeleted",
    "Pause",
    "Refused",
    "Restart",
    "Slow",
    "Stale",
    "Stop",
]

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_READS = frozenset({"get", "list", "watch"})
_CHANGES = frozenset({"update", "patch", "delete"})
_CACHED = frozenset({"cached"})
_EVENT = frozenset({"event"})
LEASES = "coordination.k8s.io/v1/leases"


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault.

    Attributes:
        name: Its name, in stories and encoded schedules.
        verbs: The requests that it strikes, as in RBAC. "event" is an event of a watch, and "cached" is a read that
            accepts cached data.
        text: Its description in a story.
        variants: Its variants.
        seconds: Possible durations in seconds. The first is the simplest.
        alone: The number of `seconds` tried as a single fault.
        first: Its position in the order in which single faults are tried. Smaller is earlier.
    """

    name: str
    verbs: frozenset[str]
    text: str
    variants: tuple[str, ...] = ("",)
    seconds: tuple[float, ...] = (0.0,)
    alone: int = 1
    first: int = 0

    def strikes_at(self, verb: str, resource: str) -> bool:
        """Return True if the fault may strike this request."""
        if self.name in ("NamespaceDeleted", "ForeignChange") and resource.startswith(LEASES):
            return False
        return verb in self.verbs

    def rank(self, verb: str) -> int:
        """Return the sort key for trying it alone. Writes come first."""
        return self.first + (0 if verb in _WRITES else 2)

    def __repr__(self) -> str:
        return self.name


LostAnswer = Fault(
    "LostAnswer", _WRITES, "done, but the answer is lost", ("cut", "504", "silence"), seconds=(5.0, 0.0, 20.0), first=0
)
Restart = Fault(
    "Restart",
    _WRITES | _READS | _EVENT,
    "the replica is killed",
    ("after", "before", "stale"),
    seconds=(0.5, 20.0, 5.0, 60.0),
    alone=2,  # back at once, or only after later steps of the script
    first=0,
)
Stale = Fault(
    "Stale", _CACHED, "answered by a cache that is behind", ("1", "2", "4", "9"), seconds=(5.0, 1.0, 20.0), first=1
)
LateEvents = Fault("LateEvents", _EVENT, "this watch is held up", seconds=(5.0, 1.0, 20.0, 90.0), first=0)
Slow = Fault("Slow", _WRITES | _READS, "slow", ("before", "after"), seconds=(5.0, 1.0, 20.0), first=3)
ForeignChange = Fault("ForeignChange", _CHANGES, "another client changes the object before", first=0)
Conflict = Fault("Conflict", frozenset({"update", "patch"}), "refused: 409 Conflict", first=2)
Refused = Fault("Refused", _WRITES | _READS, "refused", ("500", "429", "503"), first=2)
LostRequest = Fault("LostRequest", _WRITES | _READS, "lost before it arrives", ("cut", "silence"), first=3)
Pause = Fault("Pause", _WRITES | _READS | _EVENT, "the replica is stopped", seconds=(20.0, 2.0, 60.0), first=1)
Folded = Fault("Folded", _EVENT, "the watch is cut, and history compacted", seconds=(8.0, 1.0, 30.0), first=1)
CutWatch = Fault("CutWatch", _EVENT, "the watch is cut", ("end", "line", "410"), seconds=(0.0,), first=4)
Stop = Fault("Stop", _WRITES, "the replica is asked to stop", seconds=(1.0, 20.0), first=3)
ClockJump = Fault("ClockJump", _WRITES, "the replica's clock jumps", ("+", "-"), seconds=(60.0, 7200.0), first=5)
NamespaceDeleted = Fault(
    "NamespaceDeleted", _WRITES, "the namespace is deleted, and made again", seconds=(20.0,), first=5
)
DefinitionDeleted = Fault(
    "DefinitionDeleted", _WRITES, "the definition is deleted, and made again", seconds=(20.0,), first=6
)

ALL: tuple[Fault, ...] = (
    LostAnswer,
    Restart,
    LateEvents,
    ForeignChange,
    Stale,
    Folded,
    Pause,
    Conflict,
    Refused,
    Slow,
    LostRequest,
    Stop,
    CutWatch,
    ClockJump,
    NamespaceDeleted,
    DefinitionDeleted,
)
"""All faults, the most revealing ones first."""

BY_NAME = {fault.name: fault for fault in ALL}
