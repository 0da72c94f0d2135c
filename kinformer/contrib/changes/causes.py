"""The causes of changes: a rollout, a scaling, a deletion or a lost node, and the changes that follow from it."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kinformer import KubeObject
from kinformer.conditions import is_deployment_rolled_out
from kinformer.contrib.changes.change import Change
from kinformer.objects import controller_of
from kinformer.objects.accessors import string_at
from kinformer.objects.conditions import condition_of

__all__ = ["Causes", "grouped", "is_over", "outcome_of"]

_LASTS = 600.0  # seconds after a change in which another one may follow from its cause
_SETTLES = 60.0  # seconds in which the rest may follow once an object is as it should be, or a pod may be replaced
_MOST = 10_000  # objects whose cause is known
_HASH = "pod-template-hash"

_Key = tuple[str, str, str]  # kind, namespace and name. The pods of a node have the kind "Node's", and so on


@dataclass(slots=True)
class _Open:
    """A cause from which changes of an object may follow until a time, and at most until a limit.

    Only `until` changes: `Causes.settle` brings it forward.
    """

    number: int
    until: float
    limit: float  # no object's changes follow later
    is_will: bool  # True if somebody has changed what an object is to be


class Causes:
    """Finds the cause of each change when it comes, from those before.

    A changed spec, a creation, a deletion and a node that is no longer ready are causes, unless they follow themselves
    from a cause that is under way: of their controllers, their node, or their namespace while it is deleted. Changes of
    a status follow from the causes of their object too, until it is as wanted. Of several causes a changed spec counts,
    and then the latest. A new Job is always a cause: it is a run of its CronJob.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[_Key, _Open] = OrderedDict()

    def cause_of(self, change: Change, obj: KubeObject) -> int:
        """Return the number of the first change with the same cause, or 0 if it is this one."""
        now = change.time.timestamp()
        own, above = (change.kind, change.namespace, change.name), _controllers(obj)
        if change.type == "created":  # not from its node, which may be about to be ready again
            follows = [own, *above] if change.kind != "Job" else []
        else:
            places = [("Node's", "", string_at(obj, "spec", "nodeName")), ("Namespace's", "", change.namespace)]
            follows = [*above, *places] if _is_will(change) else [own, *above, *places]
        present = [cause for key in follows if (cause := self._present(key, now)) is not None]
        spread = _spreads(change)
        limit = now + spread + _SETTLES if spread else math.inf
        new = _Open(change.number, 0.0, limit, is_will=_is_will(change))
        cause = max(present, key=lambda cause: (cause.is_will, cause.number), default=new)
        self._note(own, cause, now + _LASTS)
        for key in above:  # a controller goes on with a cause of its own, or begins to replace a pod
            if self._present(key, now) is None or self._open[key].number == cause.number:
                self._note(key, cause, now + _SETTLES)
        if spread:
            self._note((f"{change.kind}'s", "", change.name), cause, now + spread)
        self.settle(obj, now)
        return 0 if cause.number == change.number else cause.number

    def settle(self, obj: KubeObject, now: float) -> None:
        """Let the cause of an object end that is as wanted: a Deployment that is rolled out, or what is ready."""
        key = (obj.kind, obj.namespace, obj.name)
        cause = self._open.get(key)
        if cause is None:
            return
        if obj.kind == "Deployment":
            if is_deployment_rolled_out(obj):
                cause.until = min(cause.until, now + _SETTLES)
        elif (condition_of(obj, "Ready") or {}).get("status") == "True" and obj.deletion_timestamp is None:
            del self._open[key]

    def _present(self, key: _Key, now: float) -> _Open | None:
        cause = self._open.get(key)
        return cause if cause is not None and now <= cause.until else None

    def _note(self, key: _Key, cause: _Open, until: float) -> None:
        before = self._open.get(key)
        if before is not None and before.number == cause.number:
            until = max(until, before.until)
        self._open[key] = replace(cause, until=min(until, cause.limit))
        self._open.move_to_end(key)
        while len(self._open) > _MOST:
            self._open.popitem(last=False)


def _controllers(obj: KubeObject) -> list[_Key]:
    """Return the controller of an object, if it has one. Of a pod of a Deployment it is this, not the ReplicaSet."""
    owner = controller_of(obj)
    if owner is None or owner.kind == "Node":
        return []
    suffix = f"-{obj.labels.get(_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        return [("Deployment", obj.namespace, owner.name.removesuffix(suffix))]
    return [(owner.kind, obj.namespace, owner.name)]


def _is_will(change: Change) -> bool:
    """Return True if a change says what an object is to be. Of a pod, controllers say it."""
    paths = [path for path, *_ in change.differences]
    return (
        change.kind != "Pod" and change.type == "changed" and any(path.startswith(("spec.", "data")) for path in paths)
    )


def _spreads(change: Change) -> float:
    """Return the seconds for which changes of all in a node or a namespace may follow from a change."""
    if change.kind not in ("Node", "Namespace"):
        return 0.0
    if change.type == "deleted":
        return _LASTS
    for path, _, new in change.differences:
        if path.startswith(("metadata.deletionTimestamp", "spec.unschedulable", "spec.taints")):
            return _LASTS
        if path.startswith("status.conditions[Ready]"):
            return _SETTLES if _is_true(new) else _LASTS
    return 0.0


# --- groups -----------------------------------------------------------------------------------------------------------


def grouped(changes: Iterable[Change]) -> list[Change]:
    """Return the first change of each cause with the others as its `members`, and with their outcome in its summary."""
    groups: dict[int, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.cause or change.number, []).append(change)
    return [_head(head, members) for head, *members in groups.values()]


def _head(head: Change, members: Sequence[Change]) -> Change:
    if not members:
        return head
    outcome = outcome_of(head, members) if not head.cause else ""  # without the first changes it might not be true
    summary = f"{head.summary}, {outcome}" if outcome else head.summary
    return replace(head, members=tuple(members), summary=summary)


def outcome_of(head: Change, members: Sequence[Change]) -> str:
    """Return what has followed from a change in words, such as "6 of 8 pods replaced", or "" if it is not worth any."""
    pods = _Pods.of(head, members)
    own = [member for member in members if (member.kind, member.key) == (head.kind, head.key)]
    if (counted := pods.counted(head)) is not None:
        done, expected, verb = counted
        words = [f"{done} of {_count(expected, 'pod')} {verb}"]
    else:
        gone, made = (_count(len(keys), "pod") for keys in (pods.gone, pods.made))
        if head.kind == "Job" and head.type == "created":  # its pods go with it when nobody needs them any more
            words = [*_result_of(own), *([f"{made} created"] if pods.made else [])]
        else:
            words = [*([f"{gone} deleted"] if pods.gone else [])]
            words += [f"{made} created, {len(pods.ready)} ready"] if pods.made else []
    if own and not words:
        words = [own[-1].summary]
    return ", ".join(words)


def is_over(head: Change, members: Sequence[Change]) -> bool:
    """Return True if all that is expected has followed: pods are replaced or ready, and a Job has its result."""
    pods = _Pods.of(head, members)
    if head.kind == "Job":
        return head.type == "deleted" or bool(_result_of(members))
    if (counted := pods.counted(head)) is not None and counted[0] < counted[1]:
        return False
    return pods.made <= pods.ready | pods.gone


@dataclass(frozen=True, slots=True)
class _Pods:
    """The keys of the pods that changes have created, deleted, and created and made ready."""

    made: frozenset[str]
    gone: frozenset[str]
    ready: frozenset[str]

    @classmethod
    def of(cls, head: Change, members: Sequence[Change]) -> _Pods:
        """Return those of the changes that follow from another one."""
        pods = [member for member in members if member.kind == "Pod" and (head.kind, head.key) != ("Pod", member.key)]
        made = frozenset(pod.key for pod in pods if pod.type == "created")
        gone = frozenset(pod.key for pod in pods if pod.type == "deleted")
        return cls(made, gone, made & {pod.key for pod in pods if _tells("Ready", pod)})

    def counted(self, head: Change) -> tuple[int, int, str] | None:
        """Return how many pods of how many are replaced, created or deleted, if that is known and some are followed."""
        if not self.made and not self.gone:
            return None
        paths = {path: (old, new) for path, old, new in head.differences}
        if head.replicas and any(path.startswith("spec.template") for path in paths):
            return min(len(self.ready), head.replicas), head.replicas, "replaced"
        old, new = paths.get("spec.replicas", (None, None))
        if not isinstance(old, int) or not isinstance(new, int):
            return None
        done, expected = len(self.ready if new > old else self.gone), abs(new - old)
        return min(done, expected), expected, "created" if new > old else "deleted"


def _result_of(changes: Sequence[Change]) -> list[str]:
    """Return "complete" or "failed" if changes of a Job say so."""
    return [kind.lower() for kind in ("Complete", "Failed") if any(_tells(kind, change) for change in changes)]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _tells(kind: str, change: Change) -> bool:
    """Return True if a condition has become true."""
    for path, _, new in change.differences:
        if path == "status.conditions" and isinstance(new, list):
            if any(_is_true(entry) for entry in new if isinstance(entry, dict) and entry.get("type") == kind):
                return True
        elif path.startswith(f"status.conditions[{kind}]") and _is_true(new):
            return True
    return False


def _is_true(condition: Any) -> bool:
    """Return True if a condition or its status is."""
    return (condition.get("status") if isinstance(condition, dict) else condition) == "True"
