"""The report of Kubernetes' own tests: its counts, and the comparison of two servers."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.e2e.report import difference, read_report

NAME = "[It] [sig-api-machinery] {name} [Conformance] [sig-api-machinery, Conformance]"
CASE = f'<testcase name="{NAME}" status="{{status}}" time="1.5">{{more}}</testcase>'


def report(folder: Path, server: str, **statuses: str) -> Path:
    """A JUnit report with one test for each keyword."""
    cases = ['<testcase name="[SynchronizedBeforeSuite]" status="passed" time="0"></testcase>']
    for name, status in statuses.items():
        more = f'<failure message="{name} is wrong" type="failed"></failure>' if status == "failed" else ""
        cases.append(CASE.format(name=name, status=status, more=more))
    file = folder / f"{server}.xml"
    file.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>", encoding="utf-8")
    return file


def test_tests_that_passed_and_failed_are_counted_and_others_are_not(tmp_path: Path) -> None:
    found = read_report(report(tmp_path, "a", one="passed", two="failed", three="skipped", four="timedout"), "a")
    assert found.passed == {"one": 1.5}
    assert found.failed == {"two": "two is wrong", "four": "timedout"}
    assert found.lines()[:3] == ["a: 1 of 3 passed", "  four", "      timedout"]


def test_a_setup_that_failed_is_a_failure(tmp_path: Path) -> None:
    file = report(tmp_path, "a")
    file.write_text(file.read_text(encoding="utf-8").replace("passed", "failed"), encoding="utf-8")
    assert read_report(file, "a").failed == {"[SynchronizedBeforeSuite]": "failed"}


def test_what_failed_on_one_server_alone_is_told_apart(tmp_path: Path) -> None:
    ours = read_report(report(tmp_path, "ours", one="failed", two="passed", three="failed"), "ours")
    real = read_report(report(tmp_path, "real", one="passed", two="failed", three="failed"), "real")
    assert difference(ours, real) == [
        "failed only on ours: 1",
        "  one",
        "failed only on real: 1",
        "  two",
        "failed on both: 1",
        "  three",
    ]
