"""The result of a run of the suite, as its JUnit report has it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

__all__ = ["Report", "difference", "read_report"]

_LABELS = re.compile(r"\s*\[(It|Conformance|Slow|Serial|Disruptive|sig-api-machinery[^\]]*|[A-Z]\w*:[^\]]*)\]")


@dataclass
class Report:
    """The tests that ran: seconds of those that passed, and the message of those that failed."""

    server: str
    passed: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.passed) + len(self.failed)

    def lines(self) -> list[str]:
        """The counts, and a paragraph for each test that failed."""
        found = [f"{self.server}: {len(self.passed)} of {self.count} passed"]
        for name, message in sorted(self.failed.items()):
            found += [f"  {name}", f"      {_shortened(message)}"]
        return found


def read_report(path: Path, server: str) -> Report:
    """Read a report. Setups and teardowns of the suite count if they failed.

    Raises:
        FileNotFoundError: The suite did not live to write one.
    """
    report = Report(server)
    for case in ElementTree.parse(path).iter("testcase"):
        name, status = case.get("name", ""), case.get("status", "")
        if status == "skipped" or status == "pending":
            continue
        if status == "passed":
            if name.startswith("[It]"):
                report.passed[_short_name(name)] = float(case.get("time", "0"))
            continue
        message = next((case.find(tag) for tag in ("failure", "error") if case.find(tag) is not None), None)
        text = "" if message is None else message.get("message") or message.text or ""
        report.failed[_short_name(name)] = text.strip() or status
    return report


def difference(ours: Report, real: Report) -> list[str]:
    """Lines that name the tests with another result on one server than on the other."""
    lines = []
    for title, one, other in (("only on", ours, real), ("only on", real, ours)):
        names = sorted(one.failed.keys() & other.passed.keys())
        lines.append(f"failed {title} {one.server}: {len(names)}")
        lines += [f"  {name}" for name in names]
    both = sorted(ours.failed.keys() & real.failed.keys())
    lines.append(f"failed on both: {len(both)}")
    return [*lines, *(f"  {name}" for name in both)]


def _short_name(name: str) -> str:
    return _LABELS.sub("", name).strip()


def _shortened(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= 600 else f"{text[:600]}..."
