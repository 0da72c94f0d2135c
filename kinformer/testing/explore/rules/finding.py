"""A finding: a rule that was broken, or a check that does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kinformer.testing.explore.faults import LEASES

__all__ = ["LEASES", "Finding", "Object", "ObjectKey", "is_bookkeeping"]

Object = dict[str, Any]
ObjectKey = tuple[str, str]  # resource, "namespace/name" or "name"
_BOOKKEEPING = (LEASES, "v1/events", "events.k8s.io/v1/events")


@dataclass(frozen=True)
class Finding:
    """A rule that was broken.

    Attributes:
        rule: Its name, as used in `explore(ignore=...)`.
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
