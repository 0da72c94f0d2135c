"""The problems of the cluster, for the first page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from kinformer import SharedInformer
from kinformer.cli.coverage import UNKNOWN_SINCE, Scope
from kinformer.contrib.problems import Owner, Problem, Problems, by_severity

__all__ = ["ProblemPage"]

_MOST = 1000  # problems sent to a page, the worst first

ResourceOf = Callable[[str, str], Awaitable[str | None]]


class ProblemPage:
    """The problems as a page shows them.

    Args:
        problems: The problems, which are followed.
        scope: The resources in which they are looked for.
        resource_of: Returns the name of the resource of a group and kind, or None.
    """

    def __init__(self, problems: Problems, scope: Scope, resource_of: ResourceOf) -> None:
        self._problems = problems
        self._scope = scope
        self._resource_of = resource_of
        self._version = 0
        problems.add_event_handler(
            on_add=self._note, on_update=self._note, on_delete=self._note, name="dashboard problems"
        )

    def _note(self, *_: Any, **__: Any) -> None:
        self._version += 1

    def informers(self) -> dict[str, SharedInformer]:
        """Return the informers in which problems are looked for."""
        return self._scope.informers(self._problems)

    def report(self, since: Callable[[str], float | None]) -> dict[str, Any]:
        """Return the number of problems by severity, a version that changes with them, and how much is looked at.

        Args:
            since: Returns the time since when an informer is not live, or None.
        """
        coverage = self._scope.coverage(self._problems)
        moments = [moment for name in coverage.unread if (moment := since(name)) is not None]
        return {
            "version": self._version,
            "synced": self._problems.health().synced,
            "counts": Counter(problem.severity for problem in self._scope.found(self._problems)),
            "verdict": coverage.verdict,
            "unknown": {"words": UNKNOWN_SINCE, "since": min(moments, default=None) if coverage.is_unknown else None},
            "left_out": self._scope.left_out_words,
        }

    async def list(self) -> dict[str, Any]:
        """Return the problems, the worst first. The owner of each has its `resource` and `key`, if it can be opened."""
        problems = by_severity(self._scope.found(self._problems))
        return {
            "version": self._version,
            "items": [await self._shown(problem) for problem in problems[:_MOST]],
            "more": max(0, len(problems) - _MOST),
        }

    async def _shown(self, problem: Problem) -> dict[str, Any]:
        document = problem.as_dict()
        owner = problem.owner
        document["owner"] |= {"resource": await self._resource_of(owner.group, owner.kind), "key": _key(owner)}
        return document


def _key(owner: Owner) -> str:
    return f"{owner.namespace}/{owner.name}" if owner.namespace else owner.name
