"""The plugin ResourceQuota: checks a write against the quotas of its namespace, and updates their usage."""

from __future__ import annotations

from typing import Any

from kinformer.testing.admission.attributes import Attributes
from kinformer.testing.admission.lookup import Lookup
from kinformer.testing.admission.pod_resources import Amounts, as_amounts, shown
from kinformer.testing.admission.usage import counted_resources, matches_scopes, missing_requests, usage_of
from kinformer.testing.store.forms import copied
from kinformer.testing.store.ownership import FieldManager, track_update

__all__ = ["check_quotas"]

Object = dict[str, Any]

KIND = "v1/resourcequotas"
_MANAGER = FieldManager("kube-apiserver", subresource="status")


def check_quotas(lookup: Lookup, write: Attributes) -> None:
    """Raise a 403 `StatusError` if a quota would be exceeded, and otherwise write the new usage to the quotas.

    A quota applies once the controller manager has written `hard` and `used` to its status.
    """
    if not _is_counted(write):
        return
    taken: list[tuple[Object, Amounts]] = []
    for quota in lookup.list(KIND, write.namespace):
        counted = _counted(quota, write)
        if counted is None:
            continue
        added = _added(quota, write)
        requested = {name: added[name] for name in counted if name in added}
        if requested:
            _check(quota, requested, write)
            taken.append((quota, requested))
    if not write.dry_run:
        for quota, requested in taken:
            _save(lookup, quota, requested)


def _is_counted(write: Attributes) -> bool:
    if write.subresource or write.obj is None:
        return False
    if write.operation == "CREATE":
        return True
    resource = write.resource
    if resource.plural == "pods" and resource.builtin:
        # A pod with a deadline is in the scope Terminating, and one without in NotTerminating.
        deadlines = [("activeDeadlineSeconds" in (state or {}).get("spec", {})) for state in (write.obj, write.old)]
        return deadlines[0] != deadlines[1]
    return resource.builtin and resource.plural in ("persistentvolumeclaims", "resourceclaims", "services")


def _counted(quota: Object, write: Attributes) -> list[str] | None:
    """Return the resources of a quota that the write may use, or None if the quota does not apply."""
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    counted = counted_resources(write.resource, hard)
    name = quota["metadata"]["name"]
    if not counted or write.obj is None or not matches_scopes(write.resource, write.obj, quota.get("spec") or {}):
        return None
    if write.plain_pod:
        missing = missing_requests(write.obj, counted)
        if missing:
            raise write.refused(f"failed quota: {name}: {missing}")
    if any(resource not in used for resource in counted):
        raise write.refused(f"status unknown for quota: {name}, resources: {','.join(counted)}")
    return counted


def _added(quota: Object, write: Attributes) -> Amounts:
    """Return the increase in usage, for the resources that the write uses."""
    usage = usage_of(write.resource, write.obj or {})
    old, spec = write.old, quota.get("spec") or {}
    if write.operation == "UPDATE" and old is not None and matches_scopes(write.resource, old, spec):
        before = usage_of(write.resource, old)
        usage = {name: amount.plus(before[name], -1) if name in before else amount for name, amount in usage.items()}
    return {name: amount for name, amount in usage.items() if amount.value > 0}


def _check(quota: Object, requested: Amounts, write: Attributes) -> None:
    hard, used = as_amounts(quota["status"]["hard"]), as_amounts(quota["status"]["used"])
    over = [name for name, amount in requested.items() if used[name].plus(amount).value > hard[name].value]
    if over:
        parts = (
            f"{what}: {shown({name: amounts[name] for name in over})}"
            for what, amounts in (("requested", requested), ("used", used), ("limited", hard))
        )
        raise write.refused(f"exceeded quota: {quota['metadata']['name']}, {', '.join(parts)}")


def _save(lookup: Lookup, quota: Object, requested: Amounts) -> None:
    old = copied(quota)
    used = as_amounts(quota["status"]["used"])
    for name, amount in requested.items():
        quota["status"]["used"][name] = str(used[name].plus(amount))
    resource = lookup.type_of(KIND)
    track_update(resource, old, quota, _MANAGER, lookup.ledger.timestamp())
    lookup.ledger.save(resource, old, quota)
