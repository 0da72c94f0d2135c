"""The world of a test: what it declares of the cluster, the programs, the people and the checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kinformer.exceptions import ConfigError
from kinformer.testing.explore.history import Check, Goal, Plan, Program
from kinformer.testing.explore.replica import Main
from kinformer.testing.explore.steps import Step
from kinformer.testing.kinds.crd_files import read_documents

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["World"]

_WITHIN = 600.0  # virtual seconds: longer than the backoff of a controller that failed a dozen times


class World:
    """What a test of `explore` gets: it declares here, and the exploration runs when the test has returned.

    Args:
        draw: Draws a value of a hypothesis strategy.
    """

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.plan = Plan()
        self.drawn: list[Step] = []  # those of strategies
        self._draw = draw

    def apply(self, *sources: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """Have these objects in the cluster from the beginning: dicts, YAML files, or folders of them.

        Raises:
            ConfigError: A source cannot be read.
        """
        for source in sources:
            if isinstance(source, Mapping):
                self.plan.objects.append(dict(source))
            else:
                self.plan.objects += msgspec.json.decode(_documents(str(Path(source).expanduser())))

    def run(
        self,
        main: Main,
        *,
        replicas: int = 1,
        name: str | None = None,
        faults: bool = True,
        may_raise: type[BaseException] | tuple[type[BaseException], ...] = (),
    ) -> None:
        """Run a program: ``async def main(client)``, in so many processes, each with a client of its own.

        Args:
            main: The program. It runs until it is cancelled or gets a SIGTERM, as it would in a pod.
            replicas: How many processes of it.
            name: In stories; default: "replica", and for further programs the name of `main`.
            faults: False for a part of the cluster that works well, such as one that makes Deployments ready.
            may_raise: Errors by which it may end, such as `LeadershipLostError`; it is started again then. Every other
                error is found.
        """
        if replicas < 1:
            raise ConfigError(f"world.run: invalid replicas={replicas!r}: expected 1 or more")
        usual = "replica" if not self.plan.programs else getattr(main, "__name__", "program").strip("<>")
        errors = may_raise if isinstance(may_raise, tuple) else (may_raise,)
        self.plan.programs.append(Program(main, replicas, name or usual, faults, errors))

    def create(self, obj: Mapping[str, Any]) -> Step:
        """Return the step in which people create an object."""
        return Step("create", body=dict(obj))

    def patch(self, resource: str, key: str, patch: Mapping[str, Any]) -> Step:
        """Return the step in which people change an object, by a merge patch; `key` is "namespace/name" or "name"."""
        return Step("patch", resource, key, dict(patch))

    def delete(self, resource: str, key: str) -> Step:
        """Return the step in which people delete an object."""
        return Step("delete", resource, key)

    def script(self, *steps: Step | SearchStrategy[list[Step]]) -> None:
        """Have people do this meanwhile, in this order; when each step comes is explored.

        Args:
            steps: Steps, or a hypothesis strategy that makes a list of them.
        """
        for step in steps:
            if isinstance(step, Step):
                self.plan.steps.append(step)
            else:
                drawn = list(self._draw(step))
                self.drawn += drawn
                self.plan.steps += drawn

    def always(self, check: Check) -> None:
        """Call ``check(state)`` after every write; it fails by an AssertionError or by returning False."""
        self.plan.always.append(check)

    def eventually(self, check: Check, within: float = _WITHIN) -> None:
        """Have ``check(state)`` hold when all is at rest, at most so many virtual seconds after the last fault."""
        self.plan.goals.append(Goal(check, within))


@lru_cache(maxsize=64)
def _documents(path: str) -> bytes:
    # As JSON, so that each history gets dicts of its own, faster than by YAML.
    return msgspec.json.encode(read_documents(path))
