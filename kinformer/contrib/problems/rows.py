"""The rows: the findings of one owner as problems, one for each cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from kinformer.contrib.problems.problem import Owner, Problem, ProblemFinding
from kinformer.contrib.problems.rules import RULES

__all__ = ["owner_key", "rows_of"]

_RULES = {rule.name: rule for rule in RULES}


def owner_key(owner: Owner) -> str:
    """Return the key of an owner, whose first part is its namespace."""
    kind = f"{owner.kind}.{owner.group}" if owner.group else owner.kind
    return f"{owner.namespace}/{kind}:{owner.name}" if owner.namespace else f"{kind}:{owner.name}"


def rows_of(findings: Sequence[ProblemFinding]) -> Iterator[tuple[str, Problem]]:
    """Yield the problems of one owner, with their keys."""
    by_rule: dict[str, list[ProblemFinding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    causes = [name for name in by_rule if not _RULES[name].is_symptom]
    # A workload that is short of replicas because its pods crash has one problem, the crash.
    for name in causes or by_rule:
        row = _row(name, by_rule[name])
        yield f"{owner_key(row.owner)}:{name}", row


def _row(name: str, group: Sequence[ProblemFinding]) -> Problem:
    reasons = Counter(finding.reason for finding in group)
    # The owner speaks for itself. Of its objects, one with the most frequent reason does.
    shown = min(group, key=lambda finding: (not finding.is_own, -reasons[finding.reason], finding.since, finding.key))
    others = [finding for finding in group if not finding.is_own]
    return Problem(
        severity=_RULES[name].severity,
        rule=name,
        owner=shown.owner,
        resource=shown.resource,
        key=shown.key,
        count=len(others) or shown.count,
        unit=others[0].unit if others else shown.unit,
        reason=shown.reason,
        message=shown.message,
        since=datetime.fromtimestamp(min(finding.since for finding in group), UTC),
    )
