"""Which changes are worth a reconcile.

A predicate filters what *triggers*; the cache holds everything all the same. Adds and deletes pass all of these, a
resync (an update without a change) passes none: who wants resyncs adds ``| resynced``
(controller-runtime, pkg/predicate/predicate.go).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinformer.objects.object import KubeObject
from kinformer.processor.event_stream import InformerEvent

__all__ = [
    "Predicate",
    "all_of",
    "annotations_changed",
    "any_of",
    "generation_changed",
    "labels_changed",
    "not_",
    "resource_version_changed",
    "resynced",
]

Condition = Callable[[InformerEvent], Any]


class Predicate:
    """A function of an `InformerEvent`, with `&`, `|` and `~`; as a decorator it makes one of any such function.

    ::

        @Predicate
        def is_ours(event: InformerEvent) -> bool:
            return event.object.labels.get("app") == "ours"

        controller.for_(foos, generation_changed & is_ours)

    What raises lets nothing pass, and is counted and logged by the controller.
    """

    __slots__ = ("_condition", "_name")

    def __init__(self, condition: Condition, name: str | None = None) -> None:
        self._condition = condition
        self._name = _name(condition) if name is None else name

    def __call__(self, event: InformerEvent) -> bool:
        """Whether the event passes."""
        return bool(self._condition(event))

    def __and__(self, other: Condition) -> Predicate:
        return all_of(self, other)

    def __or__(self, other: Condition) -> Predicate:
        return any_of(self, other)

    def __invert__(self) -> Predicate:
        return not_(self)

    def __repr__(self) -> str:
        return self._name


def all_of(*conditions: Condition) -> Predicate:
    """Passes what all of them let pass; with none, everything."""
    return Predicate(lambda event: all(one(event) for one in conditions), f"({' & '.join(map(_name, conditions))})")


def any_of(*conditions: Condition) -> Predicate:
    """Passes what one of them lets pass; with none, nothing."""
    return Predicate(lambda event: any(one(event) for one in conditions), f"({' | '.join(map(_name, conditions))})")


def not_(condition: Condition) -> Predicate:
    """Passes what the other does not: adds and deletes too, which all predicates of this module let pass."""
    return Predicate(lambda event: not condition(event), f"~{_name(condition)}")


def _name(condition: Condition) -> str:
    return repr(condition) if isinstance(condition, Predicate) else str(getattr(condition, "__name__", condition))


def _changed(name: str, differs: Callable[[KubeObject, KubeObject], bool]) -> Predicate:
    def condition(event: InformerEvent) -> bool:
        if event.type == "SYNC":
            return False
        return event.type != "UPDATED" or event.old is None or differs(event.old, event.object)

    return Predicate(condition, name)


def _generation_differs(old: KubeObject, new: KubeObject) -> bool:
    # Not all resources count generations (config maps, nodes); of those every change may be one of the spec.
    # controller-runtime lets none of their updates pass.
    return new.generation == 0 or old.generation != new.generation


generation_changed = _changed("generation_changed", _generation_differs)
"""The spec has changed, or deletion was asked for; a change of the status or of the labels alone does not pass.

Of resources without a generation every update passes.
"""

labels_changed = _changed("labels_changed", lambda old, new: old.labels != new.labels)
"""A label has."""

annotations_changed = _changed("annotations_changed", lambda old, new: old.annotations != new.annotations)
"""An annotation has."""

resource_version_changed = _changed(
    "resource_version_changed", lambda old, new: old.resource_version != new.resource_version
)
"""Anything has: all but resyncs."""

resynced = Predicate(lambda event: event.type == "SYNC", "resynced")
"""A resync, and nothing else: for `generation_changed | resynced`."""
