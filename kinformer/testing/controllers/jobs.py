"""The Job controller: pods until enough have succeeded or too many have failed (pkg/controller/job)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kinformer.testing.controllers.cluster import (
    Actor,
    APIClient,
    Object,
    condition_of,
    controller_of,
    is_active,
    is_terminating,
    set_condition,
)
from kinformer.testing.controllers.replica_sets import PODS, is_ready, pod_from_template
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["JobController"]

JOBS = "batch/v1/jobs"
_ACTOR = Actor("job-controller")
_TRACKING = "batch.kubernetes.io/job-tracking"
_INDEX = "batch.kubernetes.io/job-completion-index"
_BACKOFF, _LONGEST_BACKOFF = 10.0, 600.0  # seconds after a pod has failed, doubled each time
_INTERIM = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


class _Pods(NamedTuple):
    """The pods of a Job: running, being deleted, and those that have ended and are not counted yet."""

    active: list[Object]
    terminating: list[Object]
    succeeded: list[Object]
    failed: list[Object]


class JobController:
    """Runs Jobs.

    Args:
        cluster: The objects.
        now: Returns the time of the event loop, for deadlines and for the pauses after failures.
    """

    def __init__(self, cluster: APIClient, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now
        self._started: dict[str, float] = {}  # by uid
        self._finished: dict[str, float] = {}
        self._failures: dict[str, float] = {}  # the time of the last failed pod

    def keys(self, resource: ResourceType, old: Object | None, new: Object | None) -> list[tuple[str, str]]:
        """Return the Jobs that a change concerns."""
        changed = new or old
        assert changed is not None
        metadata = changed["metadata"]
        if resource.group == "batch" and resource.kind == "Job":
            if new is None:
                for times in (self._started, self._finished, self._failures):
                    times.pop(metadata["uid"], None)
            return [(metadata["namespace"], metadata["name"])]
        reference = controller_of(changed) if resource.kind == "Pod" and not resource.group else None
        if reference is None or reference["kind"] != "Job":
            return []
        return [(metadata["namespace"], reference["name"])]

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Count what has ended, create and delete pods, and write the status."""
        job = self._cluster.get(JOBS, namespace, name)
        if job is None:
            self._release_orphans(namespace, name)
            return None
        if is_terminating(job):
            self._release(self._cluster.owned(PODS, job))
            return None
        if (ended := _ending(job.get("status"))) is not None and ended["type"] in _INTERIM.values():
            self._release(self._cluster.owned(PODS, job))
            return self._expire(job)
        pods = _sorted(self._cluster.owned(PODS, job))
        job = self._count(job, pods)
        self._release([*pods.succeeded, *pods.failed])
        return self._advance(job, pods)

    # -- counting -------------------------------------------------------------------------------------------------

    def _count(self, job: Object, pods: _Pods) -> Object:
        """Write what has ended into the status, before the pods lose the finalizer that keeps them for this."""
        status = copy.deepcopy(job.get("status") or {})
        if "startTime" not in status and not job["spec"].get("suspend"):
            status["startTime"] = self._cluster.timestamp()
        if pods.failed:
            self._failures[job["metadata"]["uid"]] = self._now()
            status["failed"] = status.get("failed", 0) + len(pods.failed)
        if pods.succeeded and _is_indexed(job):
            indexes = _indexes(status.get("completedIndexes", "")) | {_index_of(pod) for pod in pods.succeeded}
            status["completedIndexes"], status["succeeded"] = _ranges(indexes), len(indexes)
        elif pods.succeeded:
            status["succeeded"] = status.get("succeeded", 0) + len(pods.succeeded)
        status |= {"active": len(pods.active), "terminating": len(pods.terminating)}
        status["ready"] = sum(map(is_ready, pods.active))
        status["uncountedTerminatedPods"] = {}
        if _ending(status) is None and (condition := self._outcome(job, status, pods)) is not None:
            set_condition(status, {**condition, "status": "True", **self._times()})
        return self._write(job, status)

    def _outcome(self, job: Object, status: Object, pods: _Pods) -> Object | None:
        """Return the condition that ends a Job, or None."""
        spec, uid = job["spec"], job["metadata"]["uid"]
        deadline = spec.get("activeDeadlineSeconds")
        started = self._started.setdefault(uid, self._now()) if "startTime" in status else self._now()
        if status.get("failed", 0) > spec.get("backoffLimit", 6):
            return _cond("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if deadline is not None and self._now() - started >= deadline:
            return _cond("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
        completions, succeeded = spec.get("completions"), status.get("succeeded", 0)
        enough = succeeded >= completions if completions is not None else succeeded > 0 and not pods.active
        if not enough:
            return None
        return _cond("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")

    def _times(self) -> Object:
        now = self._cluster.timestamp()
        return {"lastProbeTime": now, "lastTransitionTime": now}

    def _release(self, pods: Sequence[Object]) -> None:
        """Remove the finalizer of pods that are counted."""

        def change(newest: Object) -> None:
            newest["metadata"]["finalizers"] = [name for name in newest["metadata"]["finalizers"] if name != _TRACKING]

        for pod in pods:
            if _TRACKING in (pod["metadata"].get("finalizers") or ()):
                self._cluster.patch(_ACTOR, PODS, pod, change)

    def _release_orphans(self, namespace: str, name: str) -> None:
        pods = self._cluster.all_of(PODS, namespace)
        self._release([pod for pod in pods if (owner := controller_of(pod)) is not None and owner["name"] == name])

    # -- pods -----------------------------------------------------------------------------------------------------

    def _advance(self, job: Object, pods: _Pods) -> float | None:
        """Create or delete pods, and return the seconds after which to look again."""
        spec, status = job["spec"], job.get("status") or {}
        ending = _ending(status)
        if ending is not None or spec.get("suspend"):
            for pod in pods.active:
                self._cluster.delete(PODS, pod)
            if ending is None:
                self._suspend(job)
            elif not pods.active and not pods.terminating:
                self._finish(job, ending)
            return None
        if (condition := condition_of(status, "Suspended")) is not None and condition["status"] == "True":
            job = self._resume(job)
        later = self._pause(job)
        if later is None:
            self._create(job, pods)
        return self._until_deadline(job, later)

    def _pause(self, job: Object) -> float | None:
        """Return the seconds that are left of the pause after a failed pod, or None."""
        failed, since = (job.get("status") or {}).get("failed", 0), self._failures.get(job["metadata"]["uid"])
        if not failed or since is None:
            return None
        left = since + min(_BACKOFF * 2 ** (failed - 1), _LONGEST_BACKOFF) - self._now()
        return left if left > 0 else None

    def _until_deadline(self, job: Object, later: float | None) -> float | None:
        deadline, since = job["spec"].get("activeDeadlineSeconds"), self._started.get(job["metadata"]["uid"])
        delays = [later] if later is not None else []
        if deadline is not None and since is not None:
            delays.append(max(0.0, since + deadline - self._now()))
        return min(delays, default=None)

    def _create(self, job: Object, pods: _Pods) -> None:
        spec, status = job["spec"], job.get("status") or {}
        parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
        room = parallelism
        if completions is not None:
            room = min(parallelism, completions - status.get("succeeded", 0))
        elif status.get("succeeded"):
            room = len(pods.active)  # a work queue gets no new pods after the first success
        taken = _indexes(status.get("completedIndexes", "")) | {_index_of(pod) for pod in pods.active}
        free = iter(index for index in range(completions or 0) if index not in taken)
        for _ in range(room - len(pods.active) - len(pods.terminating)):
            pod = pod_from_template(self._cluster, job, spec["template"])
            pod["metadata"]["finalizers"] = [*pod["metadata"].get("finalizers", ()), _TRACKING]
            labels = pod["metadata"].setdefault("labels", {})
            uid, name = job["metadata"]["uid"], job["metadata"]["name"]
            labels |= {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
            labels |= {"controller-uid": uid, "job-name": name}
            if _is_indexed(job):
                _index(pod, name, next(free))
            self._cluster.create(_ACTOR, pod)
            message = f"Created pod: {pod['metadata']['name']}"
            self._cluster.event(_ACTOR, job, "SuccessfulCreate", message)
        for pod in pods.active[max(0, room) :]:
            self._cluster.delete(PODS, pod)

    # -- ends -----------------------------------------------------------------------------------------------------

    def _suspend(self, job: Object) -> None:
        status = copy.deepcopy(job.get("status") or {})
        status.pop("startTime", None)
        condition = _cond("Suspended", "JobSuspended", "Job suspended")
        set_condition(status, {**condition, "status": "True", **self._times()})
        self._started.pop(job["metadata"]["uid"], None)
        self._write(job, status)

    def _resume(self, job: Object) -> Object:
        status = copy.deepcopy(job["status"])
        set_condition(status, {**_cond("Suspended", "JobResumed", "Job resumed"), "status": "False", **self._times()})
        self._started[job["metadata"]["uid"]] = self._now()
        return self._write(job, status)

    def _finish(self, job: Object, interim: Object) -> None:
        status = copy.deepcopy(job["status"])
        kind = _INTERIM[interim["type"]]
        set_condition(status, {**interim, "type": kind, **self._times()})
        if kind == "Complete":
            status["completionTime"] = self._cluster.timestamp()
        job = self._write(job, status)
        self._finished[job["metadata"]["uid"]] = self._now()
        if kind == "Complete":
            self._cluster.event(_ACTOR, job, "Completed", "Job completed")
        else:
            self._cluster.event(_ACTOR, job, interim["reason"], interim["message"], "Warning")

    def _expire(self, job: Object) -> float | None:
        """Delete a finished Job after its `ttlSecondsAfterFinished`."""
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return None
        left: float = self._finished.setdefault(job["metadata"]["uid"], self._now()) + seconds - self._now()
        if left > 0:
            return left
        self._cluster.delete(JOBS, job)
        return None

    def _write(self, job: Object, status: Object) -> Object:
        shown = {
            name: value
            for name, value in status.items()
            if value or name in ("terminating", "ready", "uncountedTerminatedPods")
        }
        return self._cluster.set_status(_ACTOR, JOBS, job, shown)


def _sorted(pods: Sequence[Object]) -> _Pods:
    sorted_pods = _Pods([], [], [], [])
    for pod in pods:
        phase = (pod.get("status") or {}).get("phase")
        tracked = _TRACKING in (pod["metadata"].get("finalizers") or ())
        if is_active(pod):
            sorted_pods.active.append(pod)
        elif phase == "Succeeded" and tracked:
            sorted_pods.succeeded.append(pod)
        elif phase == "Failed" and tracked:
            sorted_pods.failed.append(pod)
        elif phase not in ("Succeeded", "Failed"):
            sorted_pods.terminating.append(pod)
    return sorted_pods


def _cond(kind: str, reason: str, message: str) -> Object:
    return {"type": kind, "reason": reason, "message": message}


def _ending(status: Object | None) -> Object | None:
    """Return the condition that says that a Job ends or has ended, the last one first."""
    kinds = (*_INTERIM.values(), *_INTERIM)
    conditions = [condition for kind in kinds if (condition := condition_of(status, kind)) is not None]
    return next((condition for condition in conditions if condition["status"] == "True"), None)


def _is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _index(pod: Object, name: str, index: int) -> None:
    """Make a pod the one of an index."""
    metadata = pod["metadata"]
    metadata["name"] = f"{name}-{index}-{metadata['name'][-5:]}"
    metadata["generateName"] = f"{name}-{index}-"
    metadata.setdefault("annotations", {})[_INDEX] = str(index)
    metadata["labels"][_INDEX] = str(index)
    pod["spec"].setdefault("hostname", f"{name}-{index}")


def _index_of(pod: Object) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(_INDEX, "-1"))


def _indexes(text: str) -> set[int]:
    """Parse `completedIndexes`: `0-2,5`."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def _ranges(indexes: set[int]) -> str:
    """Write `completedIndexes`."""
    runs: list[list[int]] = []
    for index in sorted(indexes - {-1}):
        if runs and runs[-1][-1] == index - 1:
            runs[-1][1:] = [index]
        else:
            runs.append([index])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
