"""The status of a Deployment: counts, and the conditions Available, Progressing and ReplicaFailure (progress.go)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from kinformer.apiserver.status import StatusError
from kinformer.testing.controllers import rollout
from kinformer.testing.controllers.cluster import Actor, APIClient, Object, condition_of, set_condition

__all__ = ["DeploymentStatus"]

_DEPLOYMENTS = "apps/v1/deployments"
_NO_DEADLINE = 2147483647  # seconds that mean none (HasProgressDeadline)


class DeploymentStatus:
    """Writes the status of Deployments.

    Args:
        cluster: The objects.
        actor: Who writes.
        now: Returns the time of the event loop.
    """

    def __init__(self, cluster: APIClient, actor: Actor, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._actor = actor
        self._now = now
        self._progress: dict[str, float] = {}  # the time of the last progress, by uid

    def is_complete(self, deployment: Object, status: Object | None = None) -> bool:
        """Return True if all pods are of the present template and available."""
        present: Object = (deployment.get("status") or {}) if status is None else status
        fields = ("updatedReplicas", "replicas", "availableReplicas")
        size = rollout.replicas(deployment)
        seen = present.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        return seen and all(present.get(field, 0) == size for field in fields)

    def note_pause(self, deployment: Object) -> Object:
        """Write that a Deployment is paused, or is not any more."""
        condition = condition_of(deployment.get("status"), "Progressing")
        reason = condition.get("reason") if condition is not None else None
        paused = bool(deployment["spec"].get("paused"))
        if self._deadline(deployment) is None or reason == "ProgressDeadlineExceeded":
            return deployment
        if paused == (reason == "DeploymentPaused"):
            return deployment
        self._progress[deployment["metadata"]["uid"]] = self._now()
        text, reason = ("paused", "DeploymentPaused") if paused else ("resumed", "DeploymentResumed")
        return self._with(deployment, self._condition("Progressing", "Unknown", reason, f"Deployment is {text}"))

    def note_new_set(self, deployment: Object, newest: Object, *, created: bool) -> Object:
        """Write the revision of the newest ReplicaSet, and that it was created or found."""
        revision = newest["metadata"]["annotations"][rollout.REVISION]
        status = copy.deepcopy(deployment.get("status") or {})
        unknown = condition_of(status, "Progressing") is None
        if self._deadline(deployment) is not None and (created or unknown):
            self._progress[deployment["metadata"]["uid"]] = self._now()
            what, reason = ("Created", "NewReplicaSetCreated") if created else ("Found", "FoundNewReplicaSet")
            message = f'{what} new replica set "{newest["metadata"]["name"]}"'
            set_condition(status, self._condition("Progressing", "True", reason, message))
        if rollout.annotation(deployment, rollout.REVISION) == int(revision) and status == deployment.get("status"):
            return deployment

        def change(current: Object) -> None:
            current["metadata"].setdefault("annotations", {})[rollout.REVISION] = revision
            current["status"] = status

        return self._cluster.patch(self._actor, _DEPLOYMENTS, deployment, change, subresource="status")

    def note_failure(self, deployment: Object, newest: Object, error: StatusError) -> None:
        """Write that a ReplicaSet could not be created."""
        message = f'Failed to create new replica set "{newest["metadata"]["name"]}": {error}'
        self._cluster.event(self._actor, deployment, "ReplicaSetCreateError", message, "Warning")
        if self._deadline(deployment) is not None:
            self._with(deployment, self._condition("Progressing", "False", "ReplicaSetCreateError", message))

    def write(
        self, deployment: Object, newest: Object | None, old: Sequence[Object], *, estimate: bool = True
    ) -> float | None:
        """Write the status, and return the seconds until the deadline for progress, or None.

        Args:
            deployment: The Deployment.
            newest, old: Its ReplicaSets.
            estimate: True to say whether the rollout makes progress.
        """
        sets = [*old, *([newest] if newest is not None else [])]
        status = self._counted(deployment, newest, sets)
        if estimate:
            self._estimate(deployment, newest, status)
        failed = [failure for rs in ([newest] if newest else []) + list(old) if (failure := _failure(rs)) is not None]
        if failed:
            set_condition(status, {**failed[0], "lastUpdateTime": failed[0]["lastTransitionTime"]})
        else:
            status["conditions"] = [other for other in status["conditions"] if other["type"] != "ReplicaFailure"]
        self._cluster.set_status(self._actor, _DEPLOYMENTS, deployment, status)
        return self._left(deployment, status) if estimate else None

    def _counted(self, deployment: Object, newest: Object | None, sets: Sequence[Object]) -> Object:
        before = deployment.get("status") or {}
        available = rollout.available(sets)
        counts = {
            "replicas": rollout.actual(sets),
            "updatedReplicas": rollout.actual([newest] if newest is not None else []),
            "readyReplicas": rollout.actual(sets, "readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(0, rollout.wanted(sets) - available),
        }
        status: Object = {"observedGeneration": deployment["metadata"]["generation"]}
        status |= {name: count for name, count in counts.items() if count}
        status["terminatingReplicas"] = rollout.actual(sets, "terminatingReplicas")
        if "collisionCount" in before:
            status["collisionCount"] = before["collisionCount"]
        status["conditions"] = copy.deepcopy(before.get("conditions") or [])
        enough = available >= rollout.replicas(deployment) - rollout.limits(deployment)[1]
        condition = (
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
            if enough
            else ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        )
        set_condition(status, self._condition("Available", *condition))
        return status

    def _estimate(self, deployment: Object, newest: Object | None, status: Object) -> None:
        """Set the condition Progressing (syncRolloutStatus)."""
        current, name = condition_of(status, "Progressing"), deployment["metadata"]["name"]
        if self._deadline(deployment) is None:
            status["conditions"] = [other for other in status["conditions"] if other["type"] != "Progressing"]
            return
        what = f'ReplicaSet "{newest["metadata"]["name"]}"' if newest is not None else f'Deployment "{name}"'
        available = current is not None and current.get("reason") == "NewReplicaSetAvailable"
        if available and status.get("replicas", 0) == status.get("updatedReplicas", 0):
            return
        if self.is_complete(deployment, status):
            message = f"{what} has successfully progressed."
            set_condition(status, self._condition("Progressing", "True", "NewReplicaSetAvailable", message))
        elif self._progresses(deployment.get("status") or {}, status):
            self._progress[deployment["metadata"]["uid"]] = self._now()
            new = self._condition("Progressing", "True", "ReplicaSetUpdated", f"{what} is progressing.")
            if current is not None and current["status"] == "True":
                new["lastTransitionTime"] = current["lastTransitionTime"]
            status["conditions"] = [other for other in status["conditions"] if other["type"] != "Progressing"] + [new]
        elif (left := self._left(deployment, status)) is not None and left <= 0:
            message = f"{what} has timed out progressing."
            set_condition(status, self._condition("Progressing", "False", "ProgressDeadlineExceeded", message))

    @staticmethod
    def _progresses(before: Object, now: Object) -> bool:
        def old(status: Object) -> int:
            return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

        grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return old(now) < old(before) or any(now.get(field, 0) > before.get(field, 0) for field in grown)

    def _left(self, deployment: Object, status: Object) -> float | None:
        """Return the seconds until the deadline for progress, or None if there is none."""
        deadline, condition = self._deadline(deployment), condition_of(status, "Progressing")
        ended = ("NewReplicaSetAvailable", "ProgressDeadlineExceeded")
        if deadline is None or condition is None or condition.get("reason") in ended or self.is_complete(deployment):
            return None
        since = self._progress.setdefault(deployment["metadata"]["uid"], self._now())
        return since + deadline - self._now()

    @staticmethod
    def _deadline(deployment: Object) -> int | None:
        seconds = int(deployment["spec"].get("progressDeadlineSeconds", 600))
        return None if seconds == _NO_DEADLINE else seconds

    def _condition(self, kind: str, status: str, reason: str, message: str) -> Object:
        now = self._cluster.timestamp()
        return {
            "type": kind,
            "status": status,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    def _with(self, deployment: Object, condition: Object) -> Object:
        status = copy.deepcopy(deployment.get("status") or {})
        set_condition(status, condition)
        return self._cluster.set_status(self._actor, _DEPLOYMENTS, deployment, status)


def _failure(replica_set: Object) -> Object | None:
    return condition_of(replica_set.get("status"), "ReplicaFailure")
