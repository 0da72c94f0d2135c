"""All built-in rules of one history."""

from __future__ import annotations

from collections.abc import Iterator

from kinformer.objects.meta import meta_namespace_key
from kinformer.testing.explore.rules.fields import Fields, UndoneChange
from kinformer.testing.explore.rules.finding import LEASES, Object, ObjectKey, Violation, is_bookkeeping
from kinformer.testing.explore.rules.lead import Lead
from kinformer.testing.explore.rules.leftovers import Leftovers
from kinformer.testing.explore.rules.sent import SentRequest
from kinformer.testing.explore.server import COLLECTOR, ExploredServer
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["Rules"]

_STORM = 400  # writes after the last disturbance. An operator that comes to rest makes only a few


class Rules:
    """Checks each write of one history, and its final state.

    Args:
        server: The server whose state it reads.
        ignored: The names of rules to skip.
        free: Writes that need no lead.
    """

    def __init__(
        self, server: ExploredServer, ignored: frozenset[str], free: frozenset[tuple[str, str, str]] = frozenset()
    ) -> None:
        self._server = server
        self._ignored = ignored
        self._lead = Lead(free)
        self._fields = Fields()
        self._leftovers = Leftovers()
        self._finalizers: set[str] = set()  # finalizers that replicas have added or removed
        self.writes = 0  # by replicas, without bookkeeping. The history sets it to 0 at each disturbance

    @property
    def free(self) -> frozenset[tuple[str, str, str]]:
        """The writes that need no lead: program, verb and resource."""
        return self._lead.free

    @property
    def undone(self) -> list[UndoneChange]:
        """Changes of others that writes have undone, perhaps on purpose."""
        return [] if "fields" in self._ignored else self._fields.suspected

    def note(
        self,
        resource: ResourceType,
        old: Object | None,
        new: Object | None,
        sent: SentRequest | None,
        actor: str,
        now: float,
    ) -> Iterator[Violation]:
        """Yield the rules broken by a write, by a request of a replica (`sent`) or by `actor`."""
        obj = new or old
        assert obj is not None, "a write has an object"
        key = (resource.name, meta_namespace_key(obj))
        if resource.name == LEASES:
            if sent is not None:
                self._lead.note_lease(key[1], old, new, sent, now)
            return
        if sent is not None:
            yield from self._note_own(key, old, new, sent)
        elif old is not None and actor != COLLECTOR:
            self._note_foreign(key, old, new)
        if new is None:
            self._leftovers.note_gone(key)
            self._fields.forget(key)
        elif old is None:
            self._leftovers.note_created(key)

    def _note_own(
        self, key: ObjectKey, old: Object | None, new: Object | None, sent: SentRequest
    ) -> Iterator[Violation]:
        self._finalizers |= _finalizers(old) ^ _finalizers(new)
        if not is_bookkeeping(key[0]):
            self.writes += 1
            findings = list(self._lead.check(key, sent))
            if "lead" not in self._ignored:
                yield from findings
            if old is not None and new is not None:
                self._fields.note(key, old, new, sent)
        if old is None:
            self._leftovers.note_made(key, sent.replica)

    def _note_foreign(self, key: ObjectKey, old: Object, new: Object | None) -> None:
        if new is None or new["metadata"].get("deletionTimestamp"):
            self._leftovers.note_removed(key, old)
        else:
            self._fields.note_foreign(key, old, new)

    # -- the end --------------------------------------------------------------------------------------------------

    def storm(self) -> Violation | None:
        """Return a finding if the replicas never stop writing."""
        if self.writes < _STORM or "rest" in self._ignored:
            return None
        text = f"the program never comes to rest: {self.writes} writes after the last change by others"
        return Violation("rest", text)

    def at_rest(self) -> Iterator[Violation]:
        """Yield the rules that the final state breaks, when nothing happens any more."""
        kinds = [kind for kind in self._server.resources() if not is_bookkeeping(kind.name)]
        objects = {(kind.name, meta_namespace_key(obj)): obj for kind in kinds for obj in self._server.list(kind.name)}
        if "finalizers" not in self._ignored:
            for key, obj in objects.items():
                held = [name for name in obj["metadata"].get("finalizers") or () if name in self._finalizers]
                if held and obj["metadata"].get("deletionTimestamp"):
                    message = f"{key[0]} {key[1]} is deleted, and its finalizers {', '.join(held)} are never removed"
                    yield Violation("finalizers", message, (" ".join(key),))
        if "leftovers" not in self._ignored:
            yield from self._leftovers.find(objects)


def _finalizers(obj: Object | None) -> set[str]:
    return set() if obj is None else set(obj["metadata"].get("finalizers") or ())
