"""The world of a test: declares the cluster, the programs, the script and the checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kinformer.exceptions import ConfigError
from kinformer.testing.explore.history import Check, Goal, Plan, TestedProgram
from kinformer.testing.explore.replica import Main
from kinformer.testing.explore.steps import Step
from kinformer.testing.kinds.crd_files import read_documents

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["World"]

_WITHIN = 600.0  # virtual seconds: longer than the backoff of a controller that failed a dozen times


class World:
    """The argument of an `explore` test, for its declarations. The exploration runs when the test has returned.

    Its methods add to `plan`, which a history then plays.

    Args:
        draw: Draws a value of a hypothesis strategy.
    """

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.plan = Plan()
        self.drawn: list[Step] = []  # steps drawn from strategies
        self._draw = draw

    def apply(self, *sources: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """Add objects to the initial state of the cluster: dicts, YAML files, or folders of such files.

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
        """Run a program, ``async def main(client)``, in `replicas` processes, each with its own client.

        Args:
            main: The program. It runs until it is cancelled or gets a SIGTERM, as it would in a pod. When it ends, it
                is started again, as by a Deployment.
            replicas: The number of processes.
            name: Its name in stories. By default "replica", and for further programs the name of `main`.
            faults: False for a reliable part of the cluster, such as a program that makes Deployments ready.
            may_raise: Errors with which it may end, such as `LeadershipLostError`, also in an ExceptionGroup. Any other
                error, except `SystemExit`, is a failure.
        """
        if replicas < 1:
            raise ConfigError(f"world.run: invalid replicas={replicas!r}: expected 1 or more")
        usual = "replica" if not self.plan.programs else getattr(main, "__name__", "program").strip("<>")
        errors = may_raise if isinstance(may_raise, tuple) else (may_raise,)
        self.plan.programs.append(TestedProgram(main, replicas, name or usual, faults, errors))

    def create(self, obj: Mapping[str, Any]) -> Step:
        """Return a step in which people create an object."""
        return Step("create", body=dict(obj))

    def patch(self, resource: str, key: str, patch: Mapping[str, Any]) -> Step:
        """Return a step in which people change an object with a merge patch. `key` is "namespace/name" or "name"."""
        return Step("patch", resource, key, dict(patch))

    def delete(self, resource: str, key: str) -> Step:
        """Return a step in which people delete an object."""
        return Step("delete", resource, key)

    def script(self, *steps: Step | SearchStrategy[list[Step]]) -> None:
        """Have people do these steps in this order while the programs run. The time of each step is explored.

        Args:
            steps: Steps, or a hypothesis strategy that generates a list of them.
        """
        for step in steps:
            if isinstance(step, Step):
                self.plan.steps.append(step)
            else:
                drawn = list(self._draw(step))
                self.drawn += drawn
                self.plan.steps += drawn

    def always(self, check: Check) -> None:
        """Call ``check(state)`` after every write. It fails by raising AssertionError or by returning False."""
        self.plan.always.append(check)

    def eventually(self, check: Check, within: float = _WITHIN) -> None:
        """Require ``check(state)`` to hold at rest, at most `within` virtual seconds after the last fault."""
        self.plan.goals.append(Goal(check, within))


@lru_cache(maxsize=64)
def _documents(path: str) -> bytes:
    # JSON gives each history its own dicts, faster than YAML.
    return msgspec.json.encode(read_documents(path))
