"""Predicates: choose which changes trigger a reconcile.

A predicate filters triggers, not the cache, which holds every object. Adds and deletes pass all predicates here except
`resynced`. A resync (an update without a change) passes only `resynced`, so append ``| resynced`` to include resyncs
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
    """A function of an `InformerEvent` that supports `&`, `|` and `~`. As a decorator, it converts any such function.

    ::

        @Predicate
        def is_ours(event: InformerEvent) -> bool:
            return event.object.labels.get("app") == "ours"

        controller.for_(foos, generation_changed & is_ours)

    If it raises, the event does not pass, and the controller counts and logs the error.

    Args:
        condition: The function.
        name: The name in `repr`. By default, the name of the function.
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
        """Return a predicate that an event passes if it passes either."""
        other = Predicate(other)
        return Predicate(lambda event: self(event) or other(event), f"({self} | {other})")

    def __invert__(self) -> Predicate:
        """Return a predicate that an event passes if it does not pass this one.

        Inverting a predicate of this module (except `resynced`) excludes adds and deletes, because they pass it.
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
    # Some resources have no generation (config maps, nodes), and any change of theirs may affect the spec.
    # In controller-runtime, none of their updates passes.
    return new.generation == 0 or old.generation != new.generation


generation_changed = _changed("generation_changed", _generation_differs)
"""Passes an update if the spec has changed or deletion was requested, but not if only the status or labels have.

For resources without a generation, every update passes.
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
