"""Predicates: choose which changes trigger a reconcile.

A predicate filters triggers; the cache holds every object all the same. Adds and deletes pass all predicates here. A
resync (an update without a change) passes only `resynced`: for resyncs add ``| resynced``
(controller-runtime, pkg/predicate/predicate.go).
"""

from __future__ import annotations

from collections.abc import Callable

from kinformer._runtime.signatures import check_callback
from kinformer.objects.object import KubeObject
from kinformer.processor.event_stream import InformerEvent

__all__ = [
    "EventFilter",
    "Predicate",
    "annotations_changed",
    "generation_changed",
    "labels_changed",
    "resource_version_changed",
    "resynced",
]

EventFilter = Callable[[InformerEvent], object]
"""A function of an event whose result is used as true or false."""


class Predicate:
    """A function of an `InformerEvent`, with `&`, `|` and `~`; as a decorator it makes one of any such function.

    ::

        @Predicate
        def is_ours(event: InformerEvent) -> bool:
            return event.object.labels.get("app") == "ours"

        controller.for_(foos, generation_changed & is_ours)

    An event for which it raises does not pass; the controller counts and logs that.

    Args:
        condition: The function.
        name: For `repr`; default: the function's name.
    """

    __slots__ = ("_condition", "_name")

    def __init__(self, condition: EventFilter, name: str | None = None) -> None:
        check_callback(condition, "condition", "event", "Predicate", plain=True)
        self._condition = condition
        self._name = _name_of(condition) if name is None else name

    def __call__(self, event: InformerEvent) -> bool:
        """Return True if the event passes."""
        return bool(self._condition(event))

    def __and__(self, other: EventFilter) -> Predicate:
        """Return a predicate that an event passes if it passes both."""
        other = Predicate(other)
        return Predicate(lambda event: self(event) and other(event), f"({self} & {other})")

    def __or__(self, other: EventFilter) -> Predicate:
        """Return a predicate that an event passes if it passes one of the two."""
        other = Predicate(other)
        return Predicate(lambda event: self(event) or other(event), f"({self} | {other})")

    def __invert__(self) -> Predicate:
        """Return a predicate that an event passes if it does not pass this one.

        Of the predicates of this module it excludes adds and deletes, because these pass all of them.
        """
        return Predicate(lambda event: not self(event), f"~{self}")

    def __repr__(self) -> str:
        return self._name


def _name_of(condition: EventFilter) -> str:
    return repr(condition) if isinstance(condition, Predicate) else str(getattr(condition, "__name__", condition))


def _changed(name: str, differs: Callable[[KubeObject, KubeObject], bool]) -> Predicate:
    def condition(event: InformerEvent) -> bool:
        if event.type == "SYNC":
            return False
        return event.type != "UPDATED" or event.old is None or differs(event.old, event.object)

    return Predicate(condition, name)


def _generation_differs(old: KubeObject, new: KubeObject) -> bool:
    # Some resources do not count generations (config maps, nodes); any of their changes may be one of the spec.
    # controller-runtime lets none of their updates pass.
    return new.generation == 0 or old.generation != new.generation


generation_changed = _changed("generation_changed", _generation_differs)
"""Passes an update if the spec has changed or deletion was requested, but not if only the status or labels have.

Of resources without a generation every update passes.
"""

labels_changed = _changed("labels_changed", lambda old, new: old.labels != new.labels)
"""Passes an update if a label has changed."""

annotations_changed = _changed("annotations_changed", lambda old, new: old.annotations != new.annotations)
"""Passes an update if an annotation has changed."""

resource_version_changed = _changed(
    "resource_version_changed", lambda old, new: old.resource_version != new.resource_version
)
"""Passes every update that changed anything: every event except resyncs."""

resynced = Predicate(lambda event: event.type == "SYNC", "resynced")
"""Passes resyncs, and nothing else: for `generation_changed | resynced`."""
