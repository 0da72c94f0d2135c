"""A finding of an exploration: a rule that was broken, or a check that does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kinformer.testing.explore.faults import LEASES

__all__ = ["LEASES", "Object", "ObjectKey", "Violation", "is_bookkeeping"]

Object = dict[str, Any]
ObjectKey = tuple[str, str]  # resource, "namespace/name" or "name"
_BOOKKEEPING = (LEASES, "v1/events", "events.k8s.io/v1/events")


@dataclass(frozen=True)
class Violation:
    """A rule that was broken, or a check that does not hold.

    Attributes:
        rule: The name of the rule, as used in `explore(ignore=...)`, or the kind of check.
        text: A description.
        objects: The objects concerned, as "resource namespace/name".
        error: The exception, if any.
        remedy: A last line of the story, if the finding may be meant: how to allow it.
    """

    rule: str
    text: str
    objects: tuple[str, ...] = ()
    error: BaseException | None = None
    remedy: str = ""


def is_bookkeeping(resource: str) -> bool:
    """Return True for Leases and Events, which are written continually."""
    return resource in _BOOKKEEPING
