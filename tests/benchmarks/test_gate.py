"""The verdicts of the regression gate; the benchmarks themselves measure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.gate import GATES, Gate, MeasurementError, judge, judge_all

GATE = Gate("G0", "time of nothing", "x", must=1.0, limit=1.5)


def measuring(*outcomes: float | Exception) -> Callable[[Gate], float]:
    """Measurements that come to these figures one after the other, or fail; more than these nobody may take."""
    left = list(outcomes)

    def measure(gate: Gate) -> float:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return measure


@pytest.mark.parametrize("value", [0.2, 1.2, 1.5])
def test_a_figure_within_its_limit_is_measured_once(value: float) -> None:
    verdict = judge(GATE, measuring(value))
    assert verdict.passes
    assert verdict.measured == (value,)


def test_a_figure_beyond_its_limit_gets_a_second_chance() -> None:
    verdict = judge(GATE, measuring(1.9, 1.1))
    assert verdict.passes
    assert verdict.measured == (1.9, 1.1)


def test_a_figure_that_is_beyond_its_limit_twice_is_a_regression() -> None:
    verdict = judge(GATE, measuring(1.51, 1.7))
    assert not verdict.passes
    assert str(verdict) == "REGRESSION: G0 time of nothing: 1.51, then 1.7 x; limit 1.5, on a quiet machine 1"


def test_a_measurement_that_failed_gets_a_second_chance() -> None:
    assert judge(GATE, measuring(MeasurementError("it broke"), 1.0)).passes


def test_a_measurement_that_fails_twice_does_not_pass() -> None:
    verdict = judge(GATE, measuring(MeasurementError("it broke"), MeasurementError("it broke again")))
    assert not verdict.passes
    assert str(verdict).startswith("FAILED: G0 time of nothing: not measured")
    assert "it broke again" in str(verdict)


def test_a_failure_does_not_hide_a_figure_that_was_beyond_its_limit() -> None:
    verdict = judge(GATE, measuring(1.6, MeasurementError("it broke")))
    assert not verdict.passes
    assert str(verdict).startswith("REGRESSION: G0 time of nothing: 1.6 x")


def test_a_bug_in_a_measurement_is_no_verdict() -> None:
    with pytest.raises(ZeroDivisionError):
        judge(GATE, measuring(ZeroDivisionError()))


def test_one_that_fails_does_not_keep_the_others_from_being_measured() -> None:
    said: list[str] = []
    gates = [Gate(name, "", "x", must=1.0, limit=1.5) for name in ("A", "B", "C")]
    verdicts = judge_all(gates, measuring(1.0, 2.0, 2.5, 1.2), said.append)
    assert [verdict.passes for verdict in verdicts] == [True, False, True]
    assert said[-2] == "1 of 3 figures have become worse than CI allows:"
    assert said[-1].startswith("  REGRESSION: B")


def test_all_that_pass_are_one_line_at_the_end() -> None:
    said: list[str] = []
    judge_all([GATE, GATE], measuring(1.0, 1.0), said.append)
    assert said[-1] == "none of 2 figures has become worse than CI allows"


def test_no_limit_of_ci_is_tighter_than_what_a_figure_must_be() -> None:
    assert [gate.name for gate in GATES] == ["G1", "G5", "G7", "G13", "G19", "G20", "G21", "G26", "G28", "G29"]
    assert all(gate.must < gate.limit <= 2 * gate.must for gate in GATES)
