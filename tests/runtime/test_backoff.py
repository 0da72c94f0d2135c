"""The delays between attempts.

Internals: the state of a backoff, which nothing public shows.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from kinformer import Backoff
from kinformer._runtime.backoff import BackoffState
from kinformer.exceptions import ConfigError


class _Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _state(time: _Time, chance: float = 0.0, **options: Any) -> BackoffState:
    return Backoff(**options).start(now=time, uniform=lambda: chance)


def test_delays_double_from_the_initial_one_up_to_the_maximum() -> None:
    state = _state(_Time())

    assert [round(state.next(), 3) for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_jitter_adds_up_to_as_much_again() -> None:
    assert _state(_Time(), 0.0).next() == 0.8
    assert _state(_Time(), 0.5).next() == pytest.approx(1.2)
    assert _state(_Time(), 0.999).next() < 1.6


def test_the_plateau_is_held_for_as_long_as_failures_go_on() -> None:
    """client-go at HEAD falls back to 0.8 s every two minutes."""
    time = _Time()
    state = _state(time)
    delays = []
    for _ in range(200):
        delay = state.next()
        delays.append(delay)
        time.now += delay + 1.0  # and a second for the request that fails

    assert time.now > 3600
    assert set(delays[6:]) == {30.0}


def test_a_plateau_above_reset_after_is_held_too() -> None:
    time = _Time()
    state = _state(time, initial=100, maximum=400, reset_after=120)
    delays = []
    for _ in range(5):
        delays.append(state.next())
        time.now += delays[-1]

    assert delays == [100, 200, 400, 400, 400]


def test_it_starts_again_after_enough_quiet() -> None:
    time = _Time()
    state = _state(time)
    last = [state.next() for _ in range(3)][-1]

    time.now += last + 119.9
    assert state.next() == 6.4
    time.now += 6.4 + 120.0
    assert state.next() == 0.8


def test_a_reset_starts_again_at_once() -> None:
    state = _state(_Time())
    state.next()
    state.next()
    state.reset()

    assert state.next() == 0.8


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"initial": 0}, "initial"),
        ({"initial": -1}, "initial"),
        ({"factor": 0.5}, "factor"),
        ({"maximum": 0.1}, "maximum"),
        ({"jitter": -0.1}, "jitter"),
        ({"reset_after": math.inf}, "reset_after"),
        ({"initial": "1"}, "initial"),
        ({"jitter": math.nan}, "jitter"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        Backoff(**options)


def test_each_start_is_a_sequence_of_its_own() -> None:
    backoff = Backoff(jitter=0)
    first, second = backoff.start(now=_Time()), backoff.start(now=_Time())
    first.next()

    assert second.next() == 0.8
