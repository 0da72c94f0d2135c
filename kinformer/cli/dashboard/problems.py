"""The problems of the cluster, for the first page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from kinformer.cli.output.errors import error_text
from kinformer.contrib.problems import Owner, Problem, Problems, by_severity

__all__ = ["ProblemPage"]

_MOST = 1000  # problems sent to a page, the worst first

ResourceOf = Callable[[str, str], Awaitable[str | None]]


class ProblemPage:
    """The problems as a page shows them.

    Args:
        problems: The problems, which are followed.
        resource_of: Returns the name of the resource of a group and kind, or None.
    """

    def __init__(self, problems: Problems, resource_of: ResourceOf) -> None:
        self._problems = problems
        self._resource_of = resource_of
        self._version = 0
        problems.add_event_handler(
            on_add=self._note, on_update=self._note, on_delete=self._note, name="dashboard problems"
        )

    def _note(self, *_: Any, **__: Any) -> None:
        self._version += 1

    def report(self) -> dict[str, Any]:
        """Return the number of problems by severity, and a version that changes with them."""
        health = self._problems.health()
        return {
            "version": self._version,
            "synced": health.synced,
            "counts": Counter(one.severity for one in self._problems.lister.list()),
            "resources": len(self._problems.resources),
            "unread": {name: error_text(error) for name, error in sorted(self._problems.unread().items())},
        }

    async def list(self) -> dict[str, Any]:
        """Return the problems, the worst first. The owner of each has its `resource` and `key`, if it can be opened."""
        found = by_severity(self._problems.lister.list())
        return {
            "version": self._version,
            "items": [await self._shown(one) for one in found[:_MOST]],
            "more": max(0, len(found) - _MOST),
        }

    async def _shown(self, problem: Problem) -> dict[str, Any]:
        document = problem.as_dict()
        owner = problem.owner
        document["owner"] |= {"resource": await self._resource_of(owner.group, owner.kind), "key": _key(owner)}
        return document


def _key(owner: Owner) -> str:
    return f"{owner.namespace}/{owner.name}" if owner.namespace else owner.name
