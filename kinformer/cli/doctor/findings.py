"""The findings of `kinformer doctor`, and the resulting exit status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NoReturn

from kinformer import ConnectError, ForbiddenError, NotFoundError, UnauthorizedError
from kinformer.cli.output.errors import FAILED

__all__ = [
    "CONFIGURATION",
    "DENIED",
    "NO_RESOURCE",
    "UNAUTHENTICATED",
    "UNREACHED",
    "CannotGoOn",
    "Report",
    "StepFinding",
    "Verdict",
    "status_of",
]

# The exit status names the first failure.
CONFIGURATION: Final = 3
UNREACHED: Final = 4
UNAUTHENTICATED: Final = 5
NO_RESOURCE: Final = 6
DENIED: Final = 7


class CannotGoOn(Exception):
    """A step has failed, and the following steps depend on it."""


class Verdict(StrEnum):
    """The result of a step."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class StepFinding:
    """The finding of one step: a message, advice, and data for programs."""

    step: str
    verdict: Verdict
    text: str
    advice: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


class Report:
    """All findings, in order.

    Args:
        on_finding: Called immediately with each finding.
    """

    def __init__(self, on_finding: Callable[[StepFinding], None] | None = None) -> None:
        self.findings: list[StepFinding] = []
        self.status = 0
        """The exit status of the first failure, or 0."""
        self._on_finding = on_finding

    def ok(self, step: str, text: str, *advice: str, **data: Any) -> None:
        """Record that a step succeeded."""
        self._add(StepFinding(step, Verdict.OK, text, advice, data))

    def warn(self, step: str, text: str, *advice: str, **data: Any) -> None:
        """Record that a step succeeded with a warning."""
        self._add(StepFinding(step, Verdict.WARN, text, advice, data))

    def skip(self, step: str, text: str) -> None:
        """Record that a step was not tried."""
        self._add(StepFinding(step, Verdict.SKIP, text))

    def fail(self, step: str, text: str, *advice: str, status: int, **data: Any) -> None:
        """Record that a step has failed."""
        self.status = self.status or status
        self._add(StepFinding(step, Verdict.FAIL, text, advice, data))

    def stop(self, step: str, text: str, *advice: str, status: int, **data: Any) -> NoReturn:
        """Record that a step has failed, and raise CannotGoOn, because the following steps depend on it."""
        self.fail(step, text, *advice, status=status, **data)
        raise CannotGoOn(step)

    def failed(self, step: str) -> bool:
        """True if a step has failed."""
        return any(finding.step == step and finding.verdict is Verdict.FAIL for finding in self.findings)

    def data(self, step: str) -> Mapping[str, Any]:
        """Return the data of a step, which is empty if it was not reached."""
        return next((finding.data for finding in self.findings if finding.step == step), {})

    def _add(self, finding: StepFinding) -> None:
        self.findings.append(finding)
        if self._on_finding is not None:
            self._on_finding(finding)


def status_of(error: BaseException) -> int:
    """Return the exit status for a request that failed with this error."""
    if isinstance(error, ConnectError):
        return UNREACHED
    if isinstance(error, UnauthorizedError):
        return UNAUTHENTICATED
    if isinstance(error, NotFoundError):
        return NO_RESOURCE
    return DENIED if isinstance(error, ForbiddenError) else FAILED
