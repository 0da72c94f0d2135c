"""The examiner: applies the rules to an object, and waits for the end of a grace time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kinformer import Collection, KubeObject, SharedInformer
from kinformer.conditions import is_job_complete
from kinformer.contrib.problems.board import API_VERSION, INFORMER, MOMENTS, ProblemBoard
from kinformer.contrib.problems.look import Evidence, KindResources, member_of, newest, top_owner
from kinformer.contrib.problems.problem import Owner, ProblemFinding
from kinformer.contrib.problems.rules import INFORMER_RULE, Rule
from kinformer.derived import Fetch
from kinformer.kinds.health.cluster import is_node_down
from kinformer.kinds.health.diagnosis import one_line
from kinformer.kinds.health.pods import is_healthy
from kinformer.kinds.health.rules import Ailment, ailment_of
from kinformer.objects import controller_of
from kinformer.objects.accessors import string_at

__all__ = ["Examiner"]

_OF_NODES = frozenset({"not-ready", "starting", "hangs"})  # problems of pods that a broken node causes

_AFTER_CAUSE = 5.0  # seconds by which a symptom is later than a cause of the same age, which then hides it


class Examiner:
    """Applies the rules to one object at a time.

    It reads the clock, which a derived collection's function otherwise must not: if a grace time has not ended yet, the
    board changes an object at that moment, and the function runs again.

    Args:
        board: Where moments are requested.
        objects: The union of the informers.
        moments: The informer of the board.
        evidence: The warnings, with the index `about`.
        kinds: The resources of the followed kinds.
        grace: The grace time of all rules, or None for their own.
        clock: Returns the time in seconds since the epoch.

    Attributes:
        kinds: See above.
    """

    def __init__(
        self,
        board: ProblemBoard,
        objects: Collection[KubeObject],
        moments: SharedInformer,
        evidence: Collection[Evidence],
        kinds: KindResources,
        *,
        grace: float | None,
        clock: Callable[[], float],
    ) -> None:
        self.kinds = kinds
        self._board = board
        self._objects = objects
        self._moments = moments
        self._evidence = evidence
        self._grace = grace
        self._clock = clock
        # By the uid of an object: its key among the objects, a rule, and the time at which that was first seen.
        self._seen: dict[str, tuple[str, str, float]] = {}

    def examine(self, obj: KubeObject, fetch: Fetch) -> Iterable[tuple[str, ProblemFinding]]:
        """Return the finding about an object, or nothing."""
        resource, ailment = self._resource(obj), self._ailment(obj)
        # Without a resource, its informer has let it go in the meantime.
        if not resource or ailment is None or not self._counts(ailment, obj, fetch):
            self._forget(obj)
            return ()
        rule, diagnosis = ailment
        since = ailment.began(obj)
        if since is None:
            since = self._first_seen(obj, resource, rule)
        warning = self._newest_warning(obj, fetch) if diagnosis.events else None
        if not self._has_lasted(obj, ailment, since, fetch):
            self._note(obj, resource, rule, since)
            return ()
        if diagnosis.until is None:
            self._board.forget(obj.uid)
        else:
            fetch(self._moments, key=self._board.call_at(obj.uid, diagnosis.until))
        owner, name = self._owner(obj, rule, fetch)
        message = diagnosis.message
        if warning is not None and warning.message not in message:
            message = f"{message} ({warning.reason}: {warning.message})" if message else warning.message
        finding = ProblemFinding(
            rule=name,
            owner=owner,
            resource=resource,
            key="" if obj.api_version == API_VERSION else obj.key,
            is_own=(owner.kind, owner.namespace, owner.name) == (obj.kind, obj.namespace, obj.name),
            count=diagnosis.count,
            unit=diagnosis.unit or ("informers" if obj.api_version == API_VERSION else resource.rpartition("/")[2]),
            reason=diagnosis.reason,
            message=one_line(message),
            since=since,
        )
        return ((_place(obj, resource), finding),)

    # --- rules ------------------------------------------------------------------------------------

    def _ailment(self, obj: KubeObject) -> Ailment | None:
        """Return the first rule that applies, and what it has found."""
        if obj.api_version != API_VERSION:
            return ailment_of(obj, self._clock())
        diagnosis = INFORMER_RULE.find(obj) if obj.kind == INFORMER else None
        return None if diagnosis is None else Ailment(INFORMER_RULE, diagnosis)

    def _counts(self, ailment: Ailment, obj: KubeObject, fetch: Fetch) -> bool:
        """Return False if other objects show that nothing is wrong."""
        if ailment.rule.name == "replicas":
            return self._lost_with_nodes(obj, fetch) < ailment.diagnosis.count
        if not ailment.diagnosis.needs_others:
            return True
        if obj.kind == "Job":
            return not self._has_succeeded_since(obj, fetch)
        return not self._waits_for_a_pod(obj, fetch)

    def _has_lasted(self, obj: KubeObject, ailment: Ailment, since: float, fetch: Fetch) -> bool:
        """Return True if the grace time has passed. If not, the function of the collection runs again then."""
        due = since + (ailment.grace if self._grace is None else self._grace)
        if ailment.rule.is_symptom and due > since:
            due += _AFTER_CAUSE
        if self._clock() >= due:
            return True
        fetch(self._moments, key=self._board.call_at(obj.uid, due))
        return False

    def _lost_with_nodes(self, workload: KubeObject, fetch: Fetch) -> int:
        """Return how many pods of a workload are on nodes that are down, whose problems are the nodes'."""
        below: list[KubeObject] = fetch(self._objects, owner=workload.uid)
        replica_sets = [obj for obj in below if obj.kind == "ReplicaSet"]
        pods = [obj for obj in below if obj.kind == "Pod"]
        for replica_set in replica_sets:
            pods += fetch(self._objects, owner=replica_set.uid)
        return sum(not is_healthy(pod) and self._node_down(pod, fetch) is not None for pod in pods)

    def _has_succeeded_since(self, job: KubeObject, fetch: Fetch) -> bool:
        """Return True if a later Job of the same CronJob is complete."""
        owner = controller_of(job)
        assert owner is not None, "the rule has found a CronJob"
        created = string_at(job, "metadata", "creationTimestamp")
        siblings: list[KubeObject] = fetch(self._objects, owner=owner.uid)
        return any(
            is_job_complete(sibling) and string_at(sibling, "metadata", "creationTimestamp") >= created
            for sibling in siblings
            if sibling.kind == "Job" and sibling.uid != job.uid
        )

    def _waits_for_a_pod(self, claim: KubeObject, fetch: Fetch) -> bool:
        """Return True if volumes of a claim's class are made when the first pod needs them."""
        member = member_of("storage.k8s.io/v1/storageclasses")
        storage_class = fetch(self._objects, key=f"{member}//{string_at(claim, 'spec', 'storageClassName')}")
        if storage_class is None:  # its class cannot be read, so only a warning shows that something is wrong
            return self._newest_warning(claim, fetch) is None
        return string_at(storage_class, "volumeBindingMode") == "WaitForFirstConsumer"

    def _newest_warning(self, obj: KubeObject, fetch: Fetch) -> Evidence | None:
        if obj.api_version == API_VERSION:
            return None
        namespace = obj.namespace
        return newest(fetch(self._evidence, index=("about", f"{obj.kind}/{namespace}/{obj.name}")))

    # --- owners -----------------------------------------------------------------------------------

    def _owner(self, obj: KubeObject, rule: Rule, fetch: Fetch) -> tuple[Owner, str]:
        """Return the owner at the top and the rule. A broken node owns the problems that it causes."""
        if obj.kind == INFORMER and obj.api_version == API_VERSION:
            return Owner(INFORMER, "", string_at(obj, "status", "resource")), rule.name
        if obj.kind == "Pod" and rule.name in _OF_NODES and (down := self._node_down(obj, fetch)) is not None:
            node, of_node = down
            return Owner("Node", "", node.name), of_node.name
        return top_owner(obj, fetch, self._objects, self._moments, self.kinds), rule.name

    def _node_down(self, pod: KubeObject, fetch: Fetch) -> tuple[KubeObject, Rule] | None:
        """Return the node of a pod and its rule, if it has been down for the grace time of that rule."""
        node = string_at(pod, "spec", "nodeName")
        host = fetch(self._objects, key=f"{member_of('v1/nodes')}//{node}") if node else None
        ailment = None if host is None else ailment_of(host, self._clock())
        if host is None or ailment is None or ailment.rule.find is not is_node_down:
            return None
        since = ailment.began(host)
        return (host, ailment.rule) if since is None or self._has_lasted(host, ailment, since, fetch) else None

    def _resource(self, obj: KubeObject) -> str:
        if obj.api_version == API_VERSION:
            return string_at(obj, "status", "resource")
        return self.kinds.resource(obj.api_version, obj.kind)

    # --- times ------------------------------------------------------------------------------------

    def _first_seen(self, obj: KubeObject, resource: str, rule: Rule) -> float:
        noted = self._seen.get(obj.uid)
        if noted is None or noted[1] != rule.name:
            return self._note(obj, resource, rule, self._clock())
        return noted[2]

    def _note(self, obj: KubeObject, resource: str, rule: Rule, since: float) -> float:
        self._seen[obj.uid] = (_place(obj, resource), rule.name, since)
        return since

    def _forget(self, obj: KubeObject) -> None:
        if self._seen.pop(obj.uid, None) is not None:
            self._board.forget(obj.uid)

    def prune(self) -> None:
        """Forget objects that no longer exist. Deletes run no function."""
        for uid, (key, _, _) in list(self._seen.items()):
            obj = self._objects.by_key.get(key)
            if obj is None or obj.uid != uid:
                del self._seen[uid]
                self._board.forget(uid)


def _place(obj: KubeObject, resource: str) -> str:
    """Return the key of an object in the union of the informers."""
    member = MOMENTS if obj.api_version == API_VERSION else member_of(resource)
    return f"{member}/{obj.namespace}/{obj.name}"
