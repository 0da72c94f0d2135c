"""The rules, in one table: those for an object, and the one for an informer of this program."""

from __future__ import annotations

from kinformer.contrib.problems.board import INFORMER
from kinformer.kinds.health.diagnosis import Diagnosis
from kinformer.kinds.health.rules import RULES as RULES_OF_OBJECTS
from kinformer.kinds.health.rules import Rule
from kinformer.objects.accessors import number_at, string_at
from kinformer.objects.types import Object

__all__ = ["INFORMER_RULE", "RULES", "Rule"]


def _does_not_follow(informer: Object) -> Diagnosis:
    """Return how an informer does not follow its server."""
    return Diagnosis(
        reason=string_at(informer, "status", "state"),
        message=string_at(informer, "status", "error"),
        since=float(number_at(informer, "status", "since")) or None,
        events=False,
    )


INFORMER_RULE = Rule(
    *("informer", "critical", 30, (INFORMER,), _does_not_follow),
    "an informer of this program does not follow the server",
)

RULES: tuple[Rule, ...] = (*RULES_OF_OBJECTS, INFORMER_RULE)
