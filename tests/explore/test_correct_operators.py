"""Correct operators of many kinds are not blamed for anything."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kinformer.testing.explore import World, explore
from tests.explore.operators.correct import finalizers, leaders, loops, pages, statuses

pytest.importorskip("time_machine")

SCHEDULES = int(os.environ.get("KINFORMER_SCHEDULES", "4"))  # 1,000 for a proof
CORRECT = [*pages.CORRECT, *statuses.CORRECT, *finalizers.CORRECT, *leaders.CORRECT, *loops.CORRECT]
Test = Callable[[World], Coroutine[Any, Any, None]]


@pytest.mark.search
@pytest.mark.parametrize("operator", CORRECT, ids=lambda one: one.__name__)
def test_a_correct_operator_is_not_blamed(operator: Test) -> None:
    explore(schedules=SCHEDULES)(operator)()
