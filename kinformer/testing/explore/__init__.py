"""Explores an operator under many orders of events, with faults, restarts and stale caches, in virtual time.

::

    from kinformer.testing.explore import ALL, explore

    @explore(schedules=500, faults=ALL)
    async def test_websites(world):
        world.apply("manifests/crd.yaml")
        world.run(main, replicas=2)                            # async def main(client)
        world.script(world.create(website("a")), world.delete("example.com/v1/websites", "default/a"))
        world.always(at_most_one_deployment_per_website)       # check(state) after every write
        world.eventually(every_website_is_ready, within=600)   # virtual seconds after the last fault

Tests: tests/explore, tests/watchcache/share/test_explored.py.
"""

from __future__ import annotations

import sys
from types import ModuleType

from kinformer.testing.explore.exploration import ExplorationError, explore, reproduce
from kinformer.testing.explore.faults import (
    ALL,
    ClockJump,
    Conflict,
    CutWatch,
    DefinitionDeleted,
    Fault,
    Folded,
    ForeignChange,
    LateEvents,
    LostAnswer,
    LostRequest,
    NamespaceDeleted,
    Pause,
    Refused,
    Restart,
    Slow,
    Stale,
    Stop,
)
from kinformer.testing.explore.state import ClusterState
from kinformer.testing.explore.steps import Step
from kinformer.testing.explore.world import World

__all__ = [
    "ALL",
    "ClockJump",
    "ClusterState",
    "Conflict",
    "CutWatch",
    "DefinitionDeleted",
    "ExplorationError",
    "Fault",
    "Folded",
    "ForeignChange",
    "LateEvents",
    "LostAnswer",
    "LostRequest",
    "NamespaceDeleted",
    "Pause",
    "Refused",
    "Restart",
    "Slow",
    "Stale",
    "Step",
    "Stop",
    "World",
    "explore",
    "reproduce",
]


class _Door(ModuleType):
    """A callable package: `from kinformer.testing import explore` can be used as the decorator."""

    __slots__ = ()
    __call__ = staticmethod(explore)


sys.modules[__name__].__class__ = _Door
