"""The noise of status: differences that come with time, with every probe, or with every other change."""

from __future__ import annotations

import re
from collections.abc import Collection

from kinformer.contrib.changes.differences import Difference

__all__ = ["is_noise"]

# Of any kind: times, heartbeats, generations, and copies of what has changed elsewhere.
_ANYWHERE = re.compile(
    r"""
    metadata\.(resourceVersion|generation|managedFields)
    | metadata\.annotations\[(
        kubectl\.kubernetes\.io/last-applied-configuration
        | control-plane\.alpha\.kubernetes\.io/leader
        | deployment\.kubernetes\.io/(revision|desired-replicas|max-replicas)
        | endpoints\.kubernetes\.io/last-change-trigger-time
        | autoscaling\.alpha\.kubernetes\.io/.*
      )\]
    | metadata\.deletionGracePeriodSeconds
    | status\.(.*\.)?observedGeneration
    | status\.conditions\[.*\]\.(last(Heartbeat|Probe|Transition|Update)Time|observedGeneration)
    | status\.(.*\.)?last(Heartbeat|Observed|Probe|Refresh|Scale|Schedule|Sync|Transition|Update|Updated)(Time|At)?
    """,
    re.VERBOSE,
)

# Of one kind: what its controller counts with every probe and every pod.
_OF_KIND: dict[str, re.Pattern[str]] = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "Lease": r"spec\.renewTime",
        "Event": r"count|lastTimestamp|series(\..*)?|metadata\..*",
        "Node": r"status\.(images|volumesInUse|volumesAttached|runtimeHandlers)([.\[].*)?",
        "Pod": r"status\.conditions\[PodReadyToStartContainers\](\..*)?",
        "Deployment": r"status\.(\w*[rR]eplicas|collisionCount)",
        "ReplicaSet": r"status\.\w*[rR]eplicas",
        "StatefulSet": r"status\.(\w*[rR]eplicas|collisionCount|\w+Revision)",
        "DaemonSet": r"status\.(\w*Scheduled|number\w+|\w*[sS]cheduled\w*)",
        "Job": r"status\.(active|ready|terminating|uncountedTerminatedPods.*)",
        "CronJob": r"status\.(active.*|lastScheduleTime|lastSuccessfulTime)",
        "HorizontalPodAutoscaler": r"status\.(currentMetrics.*|currentReplicas|currentCPUUtilizationPercentage)",
        "PodDisruptionBudget": r"status\.(disruptionsAllowed|currentHealthy|expectedPods|disruptedPods.*)",
        "ResourceQuota": r"status\.used(\..*|\[.*)?",
        "Endpoints": r"metadata\.annotations\[.*",
        "EndpointSlice": r"metadata\.annotations\[.*",
    }.items()
}


# Of a condition whose status is the same: what a controller has to say meanwhile.
_WORDS = re.compile(r"(status\.conditions\[.*\]\.)(?:reason|message)")


def is_noise(kind: str, difference: Difference, changed: Collection[str]) -> bool:
    """Return True if a difference of an object of this kind says nothing that another one does not say better.

    Args:
        kind: The kind of the object.
        difference: The difference.
        changed: The paths of all differences of the change.
    """
    path = difference.path
    of_kind = _OF_KIND.get(kind)
    if (words := _WORDS.fullmatch(path)) is not None:
        return f"{words[1]}status" not in changed
    return _ANYWHERE.fullmatch(path) is not None or (of_kind is not None and of_kind.fullmatch(path) is not None)
