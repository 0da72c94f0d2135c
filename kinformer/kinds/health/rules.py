"""The rules, in one table.

Of an object, the first rule that applies counts. It is a problem when it has lasted for the grace time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from kinformer.kinds.builtin import is_custom
from kinformer.kinds.health import cluster, custom_resources, pods, workloads
from kinformer.kinds.health.diagnosis import Diagnosis, is_unobserved, status_written
from kinformer.objects.accessors import string_at
from kinformer.objects.types import Object

__all__ = ["GRACES", "RULES", "Ailment", "ProblemSeverity", "Rule", "ailment_of"]

ANY = "*"
CUSTOM = "custom resources"

ProblemSeverity: TypeAlias = Literal["critical", "error", "warning"]
"""How bad a problem is, as a constant of its rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what is wrong with an object, and how bad that is.

    Attributes:
        name: The name, as in `Problem.rule`.
        severity: `"critical"`, `"error"` or `"warning"`.
        grace: The seconds for which an object may be so without being a problem.
        kinds: The kinds of the objects: `"Pod"`, `"*"` for all, or `"custom resources"`.
        find: Returns what is wrong with an object, or None.
        text: The rule in words.
        is_symptom: True if it is left out for an owner whose pods have a problem of their own.
    """

    name: str
    severity: ProblemSeverity
    grace: float
    kinds: tuple[str, ...]
    find: Callable[[Object], Diagnosis | None]
    text: str
    is_symptom: bool = False


_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_CLAIM = ("PersistentVolumeClaim",)
_VOLUMES = ("PersistentVolumeClaim", "PersistentVolume")

# fmt: off
RULES: tuple[Rule, ...] = (
    Rule("hangs", "error", 600, (ANY,), cluster.hangs,
         "it was to be deleted and still exists: a finalizer, or a pod that does not end"),
    Rule("crashes", "error", 60, ("Pod",), pods.crashes,
         "a container ends again and again. While it waits after the third restart, without grace"),
    Rule("image", "error", 60, ("Pod",), pods.has_no_image,
         "an image cannot be pulled"),
    Rule("not-started", "error", 60, ("Pod",), pods.is_not_started,
         "a container cannot be created or started, for example without its ConfigMap"),
    Rule("unschedulable", "error", 120, ("Pod",), pods.is_unschedulable,
         "there is no node for a pod"),
    Rule("failed-pod", "error", 0, ("Pod",), pods.fails,
         "a pod without an owner has failed. Evicted and preempted ones are left out"),
    Rule("starting", "error", 300, ("Pod",), pods.is_starting,
         "a scheduled pod does not start, for example without its volume"),
    Rule("not-ready", "warning", 300, ("Pod",), pods.is_not_ready,
         "a running pod is not ready. For pods of Jobs the grace time is 30 minutes"),
    Rule("no-progress", "error", 0, ("Deployment",), workloads.is_stuck,
         "a rollout has passed its progress deadline", is_symptom=True),
    Rule("not-created", "error", 60, _WORKLOADS, workloads.cannot_create,
         "pods of a workload are refused, for example by a quota"),
    Rule("replicas", "error", 300, _WORKLOADS, workloads.is_short,
         "fewer replicas are ready than wanted", is_symptom=True),
    Rule("failed-job", "error", 0, ("Job",), workloads.has_failed,
         "a Job has failed. Of a CronJob, only if no later Job has succeeded"),
    Rule("node", "critical", 60, ("Node",), cluster.is_node_down,
         "a node is not ready. Its pods that are not ready, do not start or do not end are counted here"),
    Rule("pressure", "warning", 60, ("Node",), cluster.is_under_pressure,
         "a node is short of memory, disk or processes, has no network, or a detector has found a fault"),
    Rule("volume-lost", "critical", 0, _VOLUMES, cluster.is_lost,
         "a claim has lost its volume, or a volume has failed"),
    Rule("volume-pending", "error", 300, _CLAIM, cluster.waits_for_volume,
         "a claim has no volume. One that waits for its first pod is left out"),
    Rule("stalled", "error", 60, (CUSTOM,), custom_resources.is_stalled,
         "Stalled, Degraded, Failed, NotReady or an error is true, also of a listener or parent, or is the phase"),
    Rule("condition", "error", 300, (CUSTOM,), custom_resources.is_unready,
         "Ready, Available, Healthy, Synced or a similar condition is false, or unknown for 15 minutes"),
    Rule("unobserved", "error", 300, ("StatefulSet", "DaemonSet", CUSTOM), is_unobserved,
         "its controller has not looked at its newest generation, perhaps because it does not run"),
)
# fmt: on

GRACES = {rule.name: rule.grace for rule in RULES}


class Ailment(NamedTuple):
    """The first rule that applies to an object, and what it has found."""

    rule: Rule
    diagnosis: Diagnosis

    @property
    def grace(self) -> float:
        """The seconds for which it is quiet."""
        return self.rule.grace if self.diagnosis.grace is None else self.diagnosis.grace

    def began(self, obj: Object) -> float | None:
        """Return the time since which it is so, in seconds since the epoch, or None if the object does not tell."""
        return self.diagnosis.since if self.diagnosis.since is not None else status_written(obj)


def ailment_of(obj: Object, now: float) -> Ailment | None:
    """Return what is wrong with an object at a time, whether its grace time has passed or not, or None."""
    api_version, kind = string_at(obj, "apiVersion"), string_at(obj, "kind")
    if kind == "Pod" and pods.is_healthy(obj):
        return None
    group = api_version.rpartition("/")[0]
    for rule in _rules_for(group, kind):
        diagnosis = rule.find(obj)
        if diagnosis is None or (diagnosis.until is not None and diagnosis.until <= now):
            continue
        if CUSTOM in rule.kinds and is_custom(group) and custom_resources.is_stopped(obj):
            continue
        return Ailment(rule, diagnosis)
    return None


@lru_cache(maxsize=1024)
def _rules_for(group: str, kind: str) -> tuple[Rule, ...]:
    """Return the rules for the objects of a kind, in the order of the table."""
    kinds = {ANY, CUSTOM if is_custom(group) else kind}
    return tuple(rule for rule in RULES if kinds.intersection(rule.kinds))
