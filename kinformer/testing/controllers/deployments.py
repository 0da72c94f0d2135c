"""The Deployment controller: ReplicaSets, rollouts, scaling, and the status (pkg/controller/deployment)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kinformer.apiserver.status import StatusError
from kinformer.testing.controllers import rollout
from kinformer.testing.controllers.cluster import (
    Actor,
    APIClient,
    Object,
    controller_of,
    is_active,
    is_terminating,
    matcher,
)
from kinformer.testing.controllers.deployment_status import DeploymentStatus
from kinformer.testing.controllers.replica_sets import PODS, REPLICA_SETS, owner_reference
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["DeploymentController"]

DEPLOYMENTS = "apps/v1/deployments"
_ACTOR = Actor("deployment-controller")


class _Sets(NamedTuple):
    """The ReplicaSets of a Deployment: the one with its present template, if there is one, and the others by age."""

    newest: Object | None
    old: list[Object]

    @property
    def all(self) -> list[Object]:
        return [*self.old, *([self.newest] if self.newest is not None else [])]


class DeploymentController:
    """Rolls Deployments out.

    Args:
        cluster: The objects.
        now: Returns the time of the event loop, for `progressDeadlineSeconds`.
    """

    def __init__(self, cluster: APIClient, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._status = DeploymentStatus(cluster, _ACTOR, now)

    def keys(self, resource: ResourceType, old: Object | None, new: Object | None) -> list[tuple[str, str]]:
        """Return the Deployments that a change concerns."""
        changed = new or old
        assert changed is not None
        metadata = changed["metadata"]
        if resource.group == "apps" and resource.kind == "Deployment":
            return [(metadata["namespace"], metadata["name"])]
        if resource.group == "apps" and resource.kind == "ReplicaSet":
            reference = controller_of(changed)
            if reference is None:  # an orphan that a Deployment may adopt
                deployments = self._cluster.all_of(DEPLOYMENTS, metadata["namespace"])
                return [(metadata["namespace"], d["metadata"]["name"]) for d in deployments if _selects(d, changed)]
            return [(metadata["namespace"], reference["name"])] if reference["kind"] == "Deployment" else []
        if resource.kind == "Pod" and not resource.group and new is None:  # Recreate waits for the last one
            reference = controller_of(changed)
            owner = reference and self._cluster.get(REPLICA_SETS, metadata["namespace"], reference["name"])
            above = controller_of(owner) if owner else None
            return [(metadata["namespace"], above["name"])] if above else []
        return []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Take one step of a rollout, and write the status."""
        deployment = self._cluster.get(DEPLOYMENTS, namespace, name)
        if deployment is None or not deployment["spec"].get("selector"):
            return None
        sets = self._sets(deployment)
        if is_terminating(deployment):
            return self._status.write(deployment, sets.newest, sets.old, estimate=False)
        deployment = self._status.note_pause(deployment)
        if deployment["spec"].get("paused") or self._is_scaled(deployment, sets):
            deployment, sets = self._synced(deployment, sets, create=False)
            self._scale(deployment, sets)
            if deployment["spec"].get("paused"):
                self._clean_up(deployment, sets.old)
            sets = self._sets(deployment)
            return self._status.write(deployment, sets.newest, sets.old, estimate=False)
        if rollout.is_rolling(deployment):
            deployment = self._roll(deployment, sets)
        else:
            deployment = self._recreate(deployment, sets)
        sets = self._sets(deployment)
        return self._status.write(deployment, sets.newest, sets.old)

    # -- ReplicaSets ----------------------------------------------------------------------------------------------

    def _sets(self, deployment: Object) -> _Sets:
        metadata, claimed = deployment["metadata"], []
        for rs in self._cluster.all_of(REPLICA_SETS, metadata["namespace"]):
            reference = controller_of(rs)
            if reference is not None and reference["uid"] == metadata["uid"]:
                claimed.append(rs)
            elif reference is None and _may_adopt(deployment, rs):
                claimed.append(self._cluster.patch(_ACTOR, REPLICA_SETS, rs, lambda new: _own(new, deployment)))
        claimed.sort(key=lambda rs: (rs["metadata"]["creationTimestamp"], rollout.annotation(rs, rollout.REVISION)))
        newest = next((rs for rs in claimed if rollout.same_template(deployment, rs)), None)
        return _Sets(newest, [rs for rs in claimed if rs is not newest])

    def _synced(self, deployment: Object, sets: _Sets, *, create: bool) -> tuple[Object, _Sets]:
        """Return both with an up-to-date newest ReplicaSet, which is created if needed (getNewReplicaSet)."""
        revision = max((rollout.annotation(rs, rollout.REVISION) for rs in sets.old), default=0) + 1
        newest = sets.newest
        if newest is None:
            if not create:
                return deployment, sets
            newest = self._create(deployment, sets.old, revision)
            deployment = self._status.note_new_set(deployment, newest, created=True)
        else:
            newest = self._annotated(deployment, newest, revision)
            deployment = self._status.note_new_set(deployment, newest, created=False)
        return deployment, _Sets(newest, sets.old)

    def _annotated(self, deployment: Object, newest: Object, revision: int) -> Object:
        given = newest["metadata"].get("annotations") or {}
        annotations = rollout.copied_annotations(deployment)
        before = rollout.annotation(newest, rollout.REVISION)
        if before < revision:  # a rollback: the old ReplicaSet becomes the newest
            annotations[rollout.REVISION] = str(revision)
            if before:
                history = [entry for entry in given.get(rollout.HISTORY, "").split(",") if entry]
                annotations[rollout.HISTORY] = ",".join([*history, str(before)])
        least = deployment["spec"].get("minReadySeconds", 0)
        if annotations.items() <= given.items() and newest["spec"].get("minReadySeconds", 0) == least:
            return newest

        def change(replica_set: Object) -> None:
            _annotate(replica_set, annotations)
            replica_set["spec"]["minReadySeconds"] = least

        return self._cluster.patch(_ACTOR, REPLICA_SETS, newest, change)

    def _create(self, deployment: Object, old: Sequence[Object], revision: int) -> Object:
        metadata, spec = deployment["metadata"], deployment["spec"]
        template = copy.deepcopy(spec["template"])
        collisions = (deployment.get("status") or {}).get("collisionCount", 0)
        mark = {rollout.HASH_LABEL: rollout.hash_of(template, collisions)}
        template.setdefault("metadata", {})["labels"] = {**(template["metadata"].get("labels") or {}), **mark}
        selector = copy.deepcopy(spec["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **mark}
        newest: Object = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{metadata['name'][: 252 - 10]}-{mark[rollout.HASH_LABEL]}",
                "namespace": metadata["namespace"],
                "labels": template["metadata"]["labels"],
                "annotations": {
                    **rollout.copied_annotations(deployment),
                    **_sizes(deployment),
                    rollout.REVISION: str(revision),
                },
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {"replicas": 0, "selector": selector, "template": template},
        }
        if spec.get("minReadySeconds"):
            newest["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        size = newest["spec"]["replicas"] = rollout.new_size(deployment, [*old, newest], newest)
        try:
            made = self._cluster.create(_ACTOR, newest)
        except StatusError as error:
            self._status.note_failure(deployment, newest, error)
            raise
        if size:
            self._tell(deployment, "up", made, 0, size)
        return made

    def _resize(self, deployment: Object, replica_set: Object, size: int, *, force: bool = False) -> bool:
        """Change the size of a ReplicaSet. Returns True if it changed."""
        before, sizes = rollout.replicas(replica_set), _sizes(deployment)
        stale = not sizes.items() <= (replica_set["metadata"].get("annotations") or {}).items()
        if before == size and not (force and stale):
            return False

        def change(newest: Object) -> None:
            newest["spec"]["replicas"] = size
            _annotate(newest, sizes)

        self._cluster.patch(_ACTOR, REPLICA_SETS, replica_set, change)
        if before != size:
            self._tell(deployment, "up" if size > before else "down", replica_set, before, size)
        return before != size

    def _resize_all(self, deployment: Object, sized: Iterable[tuple[Object, int]]) -> bool:
        """Change the sizes of some ReplicaSets. Returns True if one changed."""
        changed = [self._resize(deployment, replica_set, size) for replica_set, size in sized]
        return any(changed)

    def _tell(self, deployment: Object, way: str, replica_set: Object, before: int, size: int) -> None:
        message = f"Scaled {way} replica set {replica_set['metadata']['name']} from {before} to {size}"
        self._cluster.event(_ACTOR, deployment, "ScalingReplicaSet", message)

    def _clean_up(self, deployment: Object, old: Iterable[Object]) -> None:
        """Delete the oldest ReplicaSets above `revisionHistoryLimit`."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        alive = [rs for rs in old if not is_terminating(rs)]
        alive.sort(key=lambda rs: rollout.annotation(rs, rollout.REVISION))
        for replica_set in alive[: max(0, len(alive) - limit)]:
            status = replica_set.get("status") or {}
            seen = status.get("observedGeneration", 0) >= replica_set["metadata"]["generation"]
            if seen and not status.get("replicas") and not rollout.replicas(replica_set):
                self._cluster.delete(REPLICA_SETS, replica_set)

    # -- strategies -----------------------------------------------------------------------------------------------

    def _roll(self, deployment: Object, sets: _Sets) -> Object:
        deployment, sets = self._synced(deployment, sets, create=True)
        newest = sets.newest
        assert newest is not None
        size = rollout.replicas(deployment)
        if rollout.replicas(newest) > size:
            moved = self._resize(deployment, newest, size)
        else:
            moved = self._resize(deployment, newest, rollout.new_size(deployment, sets.all, newest))
        if not moved and not self._shrink(deployment, sets, newest) and self._status.is_complete(deployment):
            self._clean_up(deployment, sets.old)
        return deployment

    def _shrink(self, deployment: Object, sets: _Sets, newest: Object) -> bool:
        """Scale old ReplicaSets down as far as enough pods stay available (reconcileOldReplicaSets)."""
        least = rollout.replicas(deployment) - rollout.limits(deployment)[1]
        old = [rs for rs in sets.old if rollout.replicas(rs)]
        pending = rollout.replicas(newest) - rollout.available([newest])
        room = rollout.wanted(sets.all) - least - pending
        if not old or room <= 0:
            return False
        removed, sizes = 0, {}
        for replica_set in old:  # first the pods that are not available
            broken = min(room - removed, rollout.replicas(replica_set) - rollout.available([replica_set]))
            if broken > 0:
                sizes[replica_set["metadata"]["name"]] = rollout.replicas(replica_set) - broken
                removed += broken
        spare, taken = rollout.available(sets.all) - least, 0
        for replica_set in old:
            size = sizes.get(replica_set["metadata"]["name"], rollout.replicas(replica_set))
            count = max(0, min(size, spare - taken))
            if count:
                sizes[replica_set["metadata"]["name"]] = size - count
                taken += count
        sized = [(rs, sizes[rs["metadata"]["name"]]) for rs in old if rs["metadata"]["name"] in sizes]
        return self._resize_all(deployment, sized)

    def _recreate(self, deployment: Object, sets: _Sets) -> Object:
        """Create the new pods after all old ones are gone."""
        deployment, sets = self._synced(deployment, sets, create=False)
        if self._resize_all(deployment, [(rs, 0) for rs in sets.old if rollout.replicas(rs)]):
            return deployment
        if any(self._has_pods(rs) for rs in sets.old):
            return deployment
        deployment, sets = self._synced(deployment, sets, create=True)
        assert sets.newest is not None
        self._resize(deployment, sets.newest, rollout.replicas(deployment))
        if self._status.is_complete(deployment):
            self._clean_up(deployment, sets.old)
        return deployment

    def _has_pods(self, replica_set: Object) -> bool:
        pods = self._cluster.owned(PODS, replica_set)
        return any(is_active(pod) or is_terminating(pod) for pod in pods)

    # -- scaling --------------------------------------------------------------------------------------------------

    def _is_scaled(self, deployment: Object, sets: _Sets) -> bool:
        """Return True if the size of a Deployment has changed since its ReplicaSets were sized."""
        active = [rs for rs in sets.all if rollout.replicas(rs)]
        marks = [(rs["metadata"].get("annotations") or {}).get(rollout.DESIRED) for rs in active]
        return any(mark is not None and mark != str(rollout.replicas(deployment)) for mark in marks)

    def _scale(self, deployment: Object, sets: _Sets) -> None:
        """Change the sizes of all ReplicaSets in proportion, without a step of the rollout."""
        size, active = rollout.replicas(deployment), [rs for rs in sets.all if rollout.replicas(rs)]
        only = active[0] if len(active) == 1 else sets.newest or (sets.old[-1] if sets.old else None)
        if len(active) <= 1:
            if only is not None:
                self._resize(deployment, only, size, force=True)
            return
        newest = sets.newest
        if newest is not None and rollout.replicas(newest) == size and rollout.available([newest]) == size:
            for replica_set in sets.old:
                self._resize(deployment, replica_set, 0)
            return
        if not rollout.is_rolling(deployment):
            return
        to_add = (size + rollout.limits(deployment)[0] if size else 0) - rollout.wanted(active)
        newer = sorted(active, key=lambda rs: rollout.annotation(rs, rollout.REVISION), reverse=to_add > 0)
        ordered = sorted(newer, key=rollout.replicas, reverse=True)
        added, sizes = 0, []
        for replica_set in ordered:
            share = rollout.proportion(deployment, replica_set, to_add, added)
            sizes.append(rollout.replicas(replica_set) + share)
            added += share
        sizes[0] = max(0, sizes[0] + to_add - added)
        for replica_set, new in zip(ordered, sizes, strict=True):
            self._resize(deployment, replica_set, new, force=True)


def _selects(deployment: Object, replica_set: Object) -> bool:
    return matcher(deployment["spec"].get("selector"))(replica_set)


def _may_adopt(deployment: Object, replica_set: Object) -> bool:
    return not is_terminating(deployment) and not is_terminating(replica_set) and _selects(deployment, replica_set)


def _sizes(deployment: Object) -> dict[str, str]:
    size = rollout.replicas(deployment)
    return {rollout.DESIRED: str(size), rollout.MAXIMUM: str(size + rollout.limits(deployment)[0])}


def _annotate(obj: Object, annotations: dict[str, str]) -> None:
    if annotations:
        obj["metadata"].setdefault("annotations", {}).update(annotations)


def _own(replica_set: Object, deployment: Object) -> None:
    replica_set["metadata"].setdefault("ownerReferences", []).append(owner_reference(deployment))
