"""Each classic bug is found, and told; the operator without it survives. So are ten further bugs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

import pytest

from kinformer.testing.explore import ExplorationError, World, explore
from tests.explore.operators import (
    external_call,
    finalizer_first,
    generate_name,
    lost_answer,
    missed_deletion,
    missing_finalizer,
    owner_by_name,
    requeue_storm,
    stale_cache,
    status_overwritten,
    two_kinds,
    two_leaders,
)
from tests.explore.operators.buggy import processes, writes

# CI tries a few; both are raised for a proof: 20 seeds, 5,000 schedules.
SEEDS = int(os.environ.get("KINFORMER_SEEDS", "2"))
FURTHER_SEEDS = int(os.environ.get("KINFORMER_SEEDS", "1"))
SCHEDULES = int(os.environ.get("KINFORMER_SCHEDULES", "40"))

OPERATORS = [
    lost_answer,
    stale_cache,
    missing_finalizer,
    finalizer_first,
    status_overwritten,
    generate_name,
    missed_deletion,
    owner_by_name,
    requeue_storm,
    two_leaders,
    external_call,
    two_kinds,
]
each_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.__name__.rpartition(".")[2])


def declared(operator: ModuleType, *, mended: bool) -> Callable[..., object]:
    async def test(world: World) -> None:
        operator.declare(world, mended=mended)

    return test


@pytest.mark.search
@each_operator
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_bug_is_found_within_500_schedules_and_its_story_names_the_decisive_line(
    operator: ModuleType, seed: int
) -> None:
    with pytest.raises(ExplorationError) as caught:
        explore(schedules=500, seed=seed)(declared(operator, mended=False))()
    story = str(caught.value)
    assert re.search(operator.FINDS, story.splitlines()[0]), story
    assert re.search(operator.STORY, story), story
    assert '@reproduce("' in story


@pytest.mark.search
@each_operator
def test_without_the_bug_the_operator_survives(operator: ModuleType) -> None:
    explore(schedules=SCHEDULES, seed=SCHEDULES)(declared(operator, mended=True))()


@pytest.mark.search
@pytest.mark.parametrize(
    ("operator", "finding"), [*writes.BUGS, *processes.BUGS], ids=lambda one: getattr(one, "__name__", "")
)
@pytest.mark.parametrize("seed", range(FURTHER_SEEDS))
def test_a_further_bug_is_found_within_500_schedules(
    operator: Callable[[World], Coroutine[Any, Any, None]], finding: str, seed: int
) -> None:
    with pytest.raises(ExplorationError) as caught:
        explore(schedules=500, seed=seed)(operator)()
    assert re.search(finding, str(caught.value).splitlines()[0]), caught.value
