"""The request behind a write, and the reads of the process that sent it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from kinformer.testing.api.request import RequestInfo
from kinformer.testing.explore.rules.finding import Object, ObjectKey

__all__ = ["SENT", "ProcessReads", "SentRequest", "kind_of"]


def kind_of(resource: str) -> str:
    """Return the kind of a resource, which all its versions share: "example.com/websites" for ".../v1/websites"."""
    version, _, plural = resource.rpartition("/")
    group, _, _ = version.rpartition("/")
    return f"{group}/{plural}"


@dataclass
class ProcessReads:
    """What one process has read of the cluster so far, as revisions.

    The director notes each answer and event. A process that starts again has an empty one.
    """

    _of_kinds: dict[str, int] = field(default_factory=dict)  # by lists and watches
    _of_objects: dict[tuple[str, str], int] = field(default_factory=dict)  # by single reads
    _of_answers: dict[tuple[str, str], int] = field(default_factory=dict)  # by the responses to its writes

    def note_kind(self, resource: str, revision: int) -> None:
        """Note that it has read all objects of a kind, as of a revision."""
        kind = kind_of(resource)
        self._of_kinds[kind] = max(revision, self._of_kinds.get(kind, 0))

    def note_object(self, key: ObjectKey, revision: int) -> None:
        """Note that it has read an object, as of a revision."""
        self._of_objects[kind_of(key[0]), key[1]] = revision

    def note_answer(self, key: ObjectKey, revision: int) -> None:
        """Note that it has got the response to a write of an object."""
        self._of_answers[kind_of(key[0]), key[1]] = revision

    def have(self, key: ObjectKey) -> bool:
        """Return True if it may know the object from a read."""
        kind = kind_of(key[0])
        return kind in self._of_kinds or (kind, key[1]) in self._of_objects

    def newest(self, key: ObjectKey) -> int:
        """Return the newest revision of which it knows the object."""
        kind = kind_of(key[0])
        place = (kind, key[1])
        return max(self._of_kinds.get(kind, 0), self._of_objects.get(place, 0), self._of_answers.get(place, 0))


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request of a replica.

    Attributes:
        replica: The name of the replica.
        process: The name of its process, which differs after each restart.
        info: The target.
        arrived: When it arrived.
        reads: What the process has read.
        is_checked: True if the server compares it with the current state, by a resourceVersion or a test.
        is_apply: True for a server-side apply.
        fences: The Leases that the request needs, as "namespace/name".
        is_election: True if a `LeaderElector` sent it.
    """

    replica: str
    process: str
    info: RequestInfo
    arrived: float
    reads: ProcessReads
    is_checked: bool = False
    is_apply: bool = False
    fences: tuple[str, ...] = ()
    is_election: bool = False

    @property
    def program(self) -> str:
        """The name of the program, which its replicas share."""
        return self.replica.rpartition(" ")[0]

    @property
    def what(self) -> tuple[str, str, str]:
        """The kind of write: program, verb and resource."""
        return (self.program, self.info.verb, self.info.resource)

    def is_for(self, resource: str, obj: Object) -> bool:
        """Return True if it asked for a write of this object, of which others may be consequences."""
        info, metadata = self.info, obj["metadata"]
        if kind_of(f"{info.api_version}/{info.plural}") != kind_of(resource):
            return False
        namespace = "" if info.plural == "namespaces" else info.namespace
        if namespace and metadata.get("namespace", "") != namespace:
            return False
        return not info.name or info.name == metadata["name"]


SENT: ContextVar[SentRequest | None] = ContextVar("SENT", default=None)
"""The request of a replica that is being served."""
