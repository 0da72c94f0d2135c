"""Diagnosis: what a rule finds wrong with one object, and since when."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kinformer.objects.accessors import flag_at, moment_at, number_at, string_at, tables_at
from kinformer.objects.conditions import is_current
from kinformer.objects.types import Object

__all__ = ["Diagnosis", "controller_kind", "current_conditions", "is_unobserved", "one_line", "status_written"]

_PARTS = ("listeners", "parents", "ancestors")  # of the Gateway API


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule finds in one object.

    Attributes:
        reason: The reason as one word, such as `"CrashLoopBackOff"`.
        message: The reason in words. It may have line breaks.
        since: The time at which it began, in seconds since the epoch, or None if the object does not tell.
        grace: The seconds for which it is quiet, if it differs from the rule's.
        count: The number of objects that are hit.
        unit: The objects that are counted, or "" for the object itself.
        events: True to add the newest warning about the object to the message.
        until: The time from which it is over if nothing changes, in seconds since the epoch, or None.
        needs_others: True if other objects may show that nothing is wrong, such as a later Job.
    """

    reason: str
    message: str
    since: float | None = None
    grace: float | None = None
    count: int = 1
    unit: str = ""
    events: bool = True
    until: float | None = None
    needs_others: bool = False


def status_written(obj: Object) -> float | None:
    """Return the time of the last write of the status, since which it is as it is. None without managedFields."""
    return _written(obj, "status")


def is_unobserved(obj: Object) -> Diagnosis | None:
    """Find an object whose controller has not looked at its newest generation, perhaps because it does not run."""
    observed, newest = number_at(obj, "status", "observedGeneration"), number_at(obj, "metadata", "generation")
    if not 0 < observed < newest:
        return None
    message = f"its controller has seen generation {observed:,} of {newest:,}"
    return Diagnosis(reason="NotObserved", message=message, since=_written(obj, ""))


def _written(obj: Object, subresource: str) -> float | None:
    times = [
        moment_at(entry, "time")
        for entry in tables_at(obj, "metadata", "managedFields")
        if string_at(entry, "subresource") == subresource
    ]
    return max((time for time in times if time is not None), default=None)


def current_conditions(obj: Object) -> Iterator[Object]:
    """Yield the conditions for the current generation that are not for information only (Cluster API, Knative).

    Those of a part of the object follow, as in `status.listeners[]` of a Gateway and `status.parents[]` of a route.
    """
    parts = [part for name in _PARTS for part in tables_at(obj, "status", name)]
    return (
        condition
        for conditions in (tables_at(obj, "status", "conditions"), *(tables_at(part, "conditions") for part in parts))
        for condition in conditions
        if condition.get("severity") != "Info" and is_current(condition, obj)
    )


def controller_kind(obj: Object) -> str:
    """Return the kind of the owner that manages an object, or "" if there is none."""
    owners = tables_at(obj, "metadata", "ownerReferences")
    return next((string_at(owner, "kind") for owner in owners if flag_at(owner, "controller")), "")


def one_line(words: str, longest: int = 300) -> str:
    """Return a message in one line of at most so many characters."""
    line = " ".join(words[: 4 * longest].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
