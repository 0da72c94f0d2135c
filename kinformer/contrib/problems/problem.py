"""The problem: one cause at one owner, with the number of objects that it hits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import msgspec

from kinformer.kinds.health.rules import ProblemSeverity

__all__ = ["SEVERITIES", "Owner", "Problem", "ProblemFinding", "by_severity"]

SEVERITIES: tuple[ProblemSeverity, ...] = ("critical", "error", "warning")  # worst first


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """The object at the top of a chain of owners, such as the Deployment of a pod.

    Attributes:
        kind: Its kind, such as `"Deployment"`.
        namespace: Its namespace, or "" for a cluster-scoped object.
        name: Its name.
        group: Its API group, or "" for the core group.
    """

    kind: str
    namespace: str
    name: str
    group: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One cause at one owner. A Deployment with five crashing pods is one problem.

    Attributes:
        severity: `"critical"`, `"error"` or `"warning"`.
        rule: The name of its rule in `RULES`.
        owner: The object at the top, such as the Deployment.
        resource: The resource of the affected object, such as `"v1/pods"`.
        key: The key of the affected object, or of one of them.
        count: The number of objects that are hit.
        unit: The objects that are counted, in the plural: `"pods"`, `"replicas"`, `"nodes"`.
        reason: The reason as one word, such as `"CrashLoopBackOff"`.
        message: The reason in words, in one line.
        since: The time at which it began, or the time at which it was first seen if the cluster does not tell.
    """

    severity: ProblemSeverity
    rule: str
    owner: Owner
    resource: str
    key: str
    count: int
    unit: str
    reason: str
    message: str
    since: datetime

    @property
    def namespace(self) -> str:
        """The namespace of the owner, or "" for a cluster-scoped one."""
        return self.owner.namespace

    def as_dict(self) -> dict[str, Any]:
        """Return the problem as JSON values, with `since` as in Kubernetes."""
        document = asdict(self)
        if not self.owner.group:
            del document["owner"]["group"]
        return document | {"since": self.since.strftime("%Y-%m-%dT%H:%M:%SZ")}


def by_severity(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems for people: the worst first, then by the number of objects hit, then by owner."""
    return sorted(
        problems, key=lambda problem: (SEVERITIES.index(problem.severity), -problem.count, problem.owner, problem.rule)
    )


class ProblemFinding(msgspec.Struct, frozen=True, kw_only=True):
    """An ailment that has outlasted its grace time, with its object and the owner at the top."""

    rule: str
    owner: Owner
    resource: str
    key: str
    is_own: bool  # the object is the owner itself
    count: int
    unit: str
    reason: str
    message: str
    since: float
