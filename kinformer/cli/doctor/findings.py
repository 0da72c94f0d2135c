"""What `kinformer doctor` finds, step by step, and the exit status that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NoReturn

from kinformer.cli.output.errors import FAILED
from kinformer.exceptions import ConnectError, ForbiddenError, NotFoundError, UnauthorizedError

__all__ = [
    "CONFIGURATION",
    "DENIED",
    "NO_RESOURCE",
    "UNAUTHENTICATED",
    "UNREACHED",
    "CannotGoOn",
    "Finding",
    "Report",
    "Verdict",
    "status_of",
]

CONFIGURATION: Final = 3
UNREACHED: Final = 4
UNAUTHENTICATED: Final = 5
NO_RESOURCE: Final = 6
DENIED: Final = 7


class CannotGoOn(Exception):
    """A step has failed that the next ones stand on."""


class Verdict(StrEnum):
    """How a step went."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Finding:
    """One step: what was found, what to do about it, and the figures for programs."""

    step: str
    verdict: Verdict
    text: str
    advice: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


class Report:
    """All findings, in order.

    Args:
        found: Called with each at once.
    """

    def __init__(self, found: Callable[[Finding], None] | None = None) -> None:
        self.findings: list[Finding] = []
        self.status = 0
        """The exit status: that of the first failure, 0 where there is none."""
        self._found = found

    def ok(self, step: str, text: str, *advice: str, **data: Any) -> None:
        """It is as it should be."""
        self._add(Finding(step, Verdict.OK, text, advice, data))

    def warn(self, step: str, text: str, *advice: str, **data: Any) -> None:
        """It works, but."""
        self._add(Finding(step, Verdict.WARN, text, advice, data))

    def skip(self, step: str, text: str) -> None:
        """It was not looked at."""
        self._add(Finding(step, Verdict.SKIP, text))

    def fail(self, step: str, text: str, *advice: str, status: int, **data: Any) -> None:
        """It does not work."""
        self.status = self.status or status
        self._add(Finding(step, Verdict.FAIL, text, advice, data))

    def stop(self, step: str, text: str, *advice: str, status: int, **data: Any) -> NoReturn:
        """It does not work, and nothing behind it can."""
        self.fail(step, text, *advice, status=status, **data)
        raise CannotGoOn(step)

    def failed(self, step: str) -> bool:
        """Whether a step has failed."""
        return any(one.step == step and one.verdict is Verdict.FAIL for one in self.findings)

    def data(self, step: str) -> Mapping[str, Any]:
        """The figures of a step; none where it was not reached."""
        return next((one.data for one in self.findings if one.step == step), {})

    def _add(self, finding: Finding) -> None:
        self.findings.append(finding)
        if self._found is not None:
            self._found(finding)


def status_of(error: BaseException) -> int:
    """The exit status for what a request failed of."""
    if isinstance(error, ConnectError):
        return UNREACHED
    if isinstance(error, UnauthorizedError):
        return UNAUTHENTICATED
    if isinstance(error, NotFoundError):
        return NO_RESOURCE
    return DENIED if isinstance(error, ForbiddenError) else FAILED
