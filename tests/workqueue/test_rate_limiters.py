"""The waiting time of a key that failed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import ConfigError
from kinformer.workqueue import (
    BucketRateLimiter,
    ExponentialFailureRateLimiter,
    FastSlowRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
)


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_the_delay_doubles_with_each_failure_of_a_key_up_to_the_maximum() -> None:
    limiter = ExponentialFailureRateLimiter(1, 10)
    assert [limiter.when("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert limiter.when("b") == 1
    assert limiter.num_requeues("a") == 6
    assert limiter.num_requeues("b") == 1
    limiter.forget("a")
    assert limiter.num_requeues("a") == 0
    assert limiter.when("a") == 1
    limiter.forget("never seen")


def test_ten_thousand_failures_are_no_overflow() -> None:
    limiter = ExponentialFailureRateLimiter(0.005, 1000)
    assert {limiter.when("a") for _ in range(10_000)} >= {0.005, 1000}


def test_a_base_that_is_the_maximum_is_a_constant_delay() -> None:
    limiter = ExponentialFailureRateLimiter(5, 5)
    assert [limiter.when("a") for _ in range(3)] == [5, 5, 5]


def test_a_key_that_nobody_forgets_is_forgotten_when_it_has_been_quiet_for_long() -> None:
    watch = Watch()
    limiter = ExponentialFailureRateLimiter(1, 1000, now=watch)
    for _ in range(5):
        limiter.when("a")
    watch.seconds += 3600
    assert limiter.num_requeues("a") == 5
    watch.seconds += 1
    assert limiter.num_requeues("a") == 0
    assert limiter.when("a") == 1


def test_keys_that_are_never_forgotten_do_not_pile_up() -> None:
    watch = Watch()
    limiter = ExponentialFailureRateLimiter(1, 10, now=watch)
    tracemalloc.start()
    for number in range(20_000):
        limiter.when(number)
        watch.seconds += 4  # 900 keys in the hour for which failures count
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1_000_000, "50 bytes for each"


def test_fast_for_the_first_failures_and_slow_from_then_on() -> None:
    limiter = FastSlowRateLimiter(0.5, 30, 3)
    assert [limiter.when("a") for _ in range(5)] == [0.5, 0.5, 0.5, 30, 30]
    limiter.forget("a")
    assert limiter.when("a") == 0.5
    assert limiter.num_requeues("a") == 1


def test_a_bucket_lets_a_burst_through_and_then_its_rate_for_all_keys_together() -> None:
    watch = Watch()
    limiter = BucketRateLimiter(10, 3, now=watch)
    assert [limiter.when(key) for key in "abcde"] == pytest.approx([0, 0, 0, 0.1, 0.2])
    watch.seconds += 0.2  # what was reserved is used up
    assert limiter.when("f") == pytest.approx(0.1)
    watch.seconds += 1000  # it fills up to the burst, and no further
    assert [limiter.when(key) for key in "abcd"] == pytest.approx([0, 0, 0, 0.1])
    limiter.forget("a")
    assert limiter.num_requeues("a") == 0


def test_a_clock_that_goes_back_gives_no_tokens_and_takes_none() -> None:
    watch = Watch()
    limiter = BucketRateLimiter(1, 1, now=watch)
    assert limiter.when("a") == 0
    watch.seconds -= 50
    assert limiter.when("a") == pytest.approx(1)


def test_the_longest_of_several_counts_and_all_count_the_failure() -> None:
    fast, slow = ExponentialFailureRateLimiter(1, 100), FastSlowRateLimiter(3, 50, 2)
    limiter: RateLimiter = MaxOfRateLimiter(fast, slow)
    assert [limiter.when("a") for _ in range(8)] == [3, 3, 50, 50, 50, 50, 64, 100]
    assert limiter.num_requeues("a") == 8
    limiter.forget("a")
    assert (fast.num_requeues("a"), slow.num_requeues("a"), limiter.num_requeues("a")) == (0, 0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExponentialFailureRateLimiter(0, 1),
        lambda: ExponentialFailureRateLimiter(2, 1),
        lambda: ExponentialFailureRateLimiter(1, float("inf")),
        lambda: FastSlowRateLimiter(1, float("nan"), 1),
        lambda: FastSlowRateLimiter(1, 1, -1),
        lambda: BucketRateLimiter(0, 1),
        lambda: BucketRateLimiter(1, 0),
        lambda: MaxOfRateLimiter(),
    ],
)
def test_values_that_cannot_work_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


@given(st.floats(1e-3, 10), st.floats(10, 5000), st.integers(1, 60))
def test_delays_never_shrink_and_stay_between_base_and_maximum(base: float, maximum: float, count: int) -> None:
    limiter = ExponentialFailureRateLimiter(base, maximum)
    delays = [limiter.when("a") for _ in range(count)]
    assert delays == sorted(delays)
    assert delays[0] == base
    assert delays[-1] <= maximum
