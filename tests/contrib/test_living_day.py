"""A cluster that is well has no problems for hours, and twelve breakages become problems when their grace times end."""

from __future__ import annotations

import pytest

from tests.contrib.broken_things import BREAKAGES
from tests.contrib.living_day import run

pytestmark = [pytest.mark.search, pytest.mark.timeout(300)]


def test_no_problem_is_false_and_each_breakage_is_said_in_time() -> None:
    day = run(hours=1.5, pods=20, rate=0.5, pause=60.0, seed=3)
    assert day.wrong == []
    assert set(day.delays) == {breakage.name for breakage in BREAKAGES}
