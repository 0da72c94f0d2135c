"""The examiner: applies the rules to an object, and waits for the end of a grace time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from kinformer import Collection, KubeObject, SharedInformer
from kinformer.contrib.problems.board import API_VERSION, INFORMER, MOMENTS, Board
from kinformer.contrib.problems.cluster import is_claimed, is_node_down
from kinformer.contrib.problems.fields import one_line, status_written, text
from kinformer.contrib.problems.look import (
    Evidence,
    Kinds,
    is_custom,
    member_of,
    newest,
    storage_class_waits,
    top_owner,
)
from kinformer.contrib.problems.pods import is_healthy
from kinformer.contrib.problems.problem import Finding, Found, Owner
from kinformer.contrib.problems.rules import ANY, CUSTOM, RULES, Rule
from kinformer.derived import Fetch
from kinformer.objects import condition_of, controller_of

__all__ = ["Examiner"]

_OF_NODES = frozenset({"not-ready", "starting", "hangs"})  # problems of pods that a broken node causes
_NODE_RULE = "node"


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
        board: Board,
        objects: Collection[KubeObject],
        moments: SharedInformer,
        evidence: Collection[Evidence],
        kinds: Kinds,
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

    def examine(self, obj: KubeObject, fetch: Fetch) -> Iterable[tuple[str, Finding]]:
        """Return the finding about an object, or nothing."""
        if obj.api_version == API_VERSION and obj.kind != INFORMER:
            return ()
        applied = self._first(obj, fetch)
        if applied is None:
            self._forget(obj)
            return ()
        rule, found = applied
        resource = self._resource(obj)
        if not resource:  # its informer has let it go in the meantime
            return ()
        since = found.since if found.since is not None else status_written(obj)
        if since is None:
            since = self._first_seen(obj, resource, rule)
        warning = self._newest_warning(obj, fetch) if found.events else None
        grace = self._grace if self._grace is not None else rule.grace if found.grace is None else found.grace
        if self._clock() < since + grace:
            self._note(obj, resource, rule, since)
            fetch(self._moments, key=self._board.call_at(obj.uid, since + grace))
            return ()
        self._board.forget(obj.uid)
        owner, name = self._owner(obj, rule, fetch)
        message = found.message
        if warning is not None and warning.message not in message:
            message = f"{message} ({warning.reason}: {warning.message})" if message else warning.message
        finding = Finding(
            rule=name,
            owner=owner,
            resource=resource,
            key="" if obj.api_version == API_VERSION else obj.key,
            is_own=(owner.kind, owner.namespace, owner.name) == (obj.kind, obj.namespace, obj.name),
            count=found.count,
            unit=found.unit or ("informers" if obj.api_version == API_VERSION else resource.rpartition("/")[2]),
            reason=found.reason,
            message=one_line(message),
            since=since,
        )
        return ((_place(obj, resource), finding),)

    # --- rules ------------------------------------------------------------------------------------

    def _first(self, obj: KubeObject, fetch: Fetch) -> tuple[Rule, Found] | None:
        """Return the first rule that applies, and what it has found."""
        if obj.kind == "Pod" and is_healthy(obj):
            return None
        for rule in _rules_for(obj.api_version, obj.kind):
            found = rule.find(obj)
            if found is not None:
                return (rule, found) if self._counts(rule, obj, fetch) else None
        return None

    def _counts(self, rule: Rule, obj: KubeObject, fetch: Fetch) -> bool:
        """Return False if other objects show that nothing is wrong."""
        if rule.name == "failed-job":
            return not self._has_succeeded_since(obj, fetch)
        if rule.name == "volume-pending":
            return not self._waits_for_a_pod(obj, fetch)
        return True

    def _has_succeeded_since(self, job: KubeObject, fetch: Fetch) -> bool:
        """Return True if a later Job of the same CronJob is complete."""
        owner = controller_of(job)
        if owner is None:
            return False
        created = text(job, "metadata", "creationTimestamp")
        siblings: list[KubeObject] = fetch(self._objects, owner=owner.uid)
        return any(
            (condition_of(one, "Complete") or {}).get("status") == "True"
            and text(one, "metadata", "creationTimestamp") >= created
            for one in siblings
            if one.kind == "Job" and one.uid != job.uid
        )

    def _waits_for_a_pod(self, claim: KubeObject, fetch: Fetch) -> bool:
        name = text(claim, "spec", "storageClassName")
        if not name or is_claimed(claim):
            return False
        member = member_of("storage.k8s.io/v1/storageclasses")
        storage_class = fetch(self._objects, key=f"{member}//{name}")
        if storage_class is None:  # its class cannot be read, so only a warning shows that something is wrong
            return self._newest_warning(claim, fetch) is None
        return storage_class_waits(storage_class)

    def _newest_warning(self, obj: KubeObject, fetch: Fetch) -> Evidence | None:
        if obj.api_version == API_VERSION:
            return None
        namespace = obj.namespace
        return newest(fetch(self._evidence, index=("about", f"{obj.kind}/{namespace}/{obj.name}")))

    # --- owners -----------------------------------------------------------------------------------

    def _owner(self, obj: KubeObject, rule: Rule, fetch: Fetch) -> tuple[Owner, str]:
        """Return the owner at the top and the rule. A broken node owns the problems that it causes."""
        if obj.kind == INFORMER and obj.api_version == API_VERSION:
            return Owner(INFORMER, "", text(obj, "status", "resource")), rule.name
        node = text(obj, "spec", "nodeName") if obj.kind == "Pod" and rule.name in _OF_NODES else ""
        if node:
            found = fetch(self._objects, key=f"{member_of('v1/nodes')}//{node}")
            if found is not None and is_node_down(found) is not None:
                return Owner("Node", "", node), _NODE_RULE
        return top_owner(obj, fetch, self._objects, self.kinds), rule.name

    def _resource(self, obj: KubeObject) -> str:
        if obj.api_version == API_VERSION:
            return text(obj, "status", "resource")
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
            found = self._objects.by_key.get(key)
            if found is None or found.uid != uid:
                del self._seen[uid]
                self._board.forget(uid)


def _place(obj: KubeObject, resource: str) -> str:
    """Return the key of an object in the union of the informers."""
    member = MOMENTS if obj.api_version == API_VERSION else member_of(resource)
    return f"{member}/{obj.namespace}/{obj.name}"


@lru_cache(maxsize=1024)
def _rules_for(api_version: str, kind: str) -> tuple[Rule, ...]:
    """Return the rules for the objects of a kind, in the order of the table."""
    if api_version == API_VERSION:
        return tuple(rule for rule in RULES if kind in rule.kinds)
    wanted = {ANY, CUSTOM if is_custom(api_version.rpartition("/")[0]) else kind}
    return tuple(rule for rule in RULES if wanted.intersection(rule.kinds))
