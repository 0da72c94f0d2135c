"""All admission plugins of a server, in the real server's order."""

from __future__ import annotations

from kinformer.testing.admission.attributes import Attributes
from kinformer.testing.admission.limits import KIND as LIMITS
from kinformer.testing.admission.limits import admit_limits, check_limits
from kinformer.testing.admission.lookup import Lookup
from kinformer.testing.admission.policies import BINDINGS, Policies
from kinformer.testing.admission.priorities import (
    admit_priority,
    admit_runtime_class,
    check_priority_class,
    check_runtime_class,
)
from kinformer.testing.admission.quotas import KIND as QUOTAS
from kinformer.testing.admission.quotas import check_quotas
from kinformer.testing.admission.resizes import check_resize
from kinformer.testing.rules.builtin.pod_defaults import admit_pod
from kinformer.testing.store.ledger import Ledger

__all__ = ["Plugins"]


class Plugins:
    """The admission plugins: `admit` changes an object before validation, and `check` may refuse it afterwards."""

    def __init__(self, ledger: Ledger) -> None:
        self._lookup = Lookup(ledger)
        self._policies = Policies(self._lookup)

    def admit(self, write: Attributes) -> None:
        """Add fields to an object, in place. Raises a `StatusError`."""
        if write.operation == "CREATE" and write.plain_pod:
            if not self._lookup.is_empty(LIMITS):
                admit_limits(self._lookup, write)
            admit_priority(self._lookup, write)
            if write.subject["spec"].get("runtimeClassName") is not None:
                admit_pod(write.subject)  # its tolerations precede the class's
                admit_runtime_class(self._lookup, write)

    def check(self, write: Attributes) -> None:
        """Raise a `StatusError` if a plugin refuses the write."""
        lookup, resource = self._lookup, write.resource
        if resource.builtin and write.operation != "DELETE":
            if write.plain_pod and write.operation == "CREATE":
                if not lookup.is_empty(LIMITS):
                    check_limits(lookup, write)
                check_runtime_class(lookup, write)
            elif resource.kind == "PersistentVolumeClaim" and not write.subresource and not lookup.is_empty(LIMITS):
                check_limits(lookup, write)
            elif resource.kind == "Pod" and write.subresource == "resize":
                check_resize(lookup, write)
            elif resource.kind == "PriorityClass":
                check_priority_class(lookup, write)
        if not lookup.is_empty(BINDINGS):
            self._policies.check(write)
        if resource.namespaced and write.operation != "DELETE" and not lookup.is_empty(QUOTAS):
            check_quotas(lookup, write)
