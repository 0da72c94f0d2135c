"""Authorization by the Roles, ClusterRoles and bindings that a server stores (plugin/pkg/auth/authorizer/rbac)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kinformer.testing.store.ledger import Ledger

__all__ = ["Attempt", "RoleBasedAccess", "Subject"]

Object = dict[str, Any]

_GROUP = "rbac.authorization.k8s.io"
_SERVICE_ACCOUNT = "system:serviceaccount:"


class Subject(NamedTuple):
    """The user whose rights are asked for."""

    name: str
    groups: tuple[str, ...]

    @property
    def all_groups(self) -> set[str]:
        """The groups, with those that a service account is in by its name."""
        if not self.name.startswith(_SERVICE_ACCOUNT):
            return set(self.groups)
        namespace = self.name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        return {*self.groups, "system:serviceaccounts", f"system:serviceaccounts:{namespace}"}


class Attempt(NamedTuple):
    """An action that a user asks for: a verb with a resource, or with a path if there is no resource."""

    verb: str
    group: str = ""
    resource: str = ""  # with its subresource: `pods/log`
    namespace: str = ""
    name: str = ""
    path: str = ""


class RoleBasedAccess:
    """Decides by the roles and bindings of a server. A change of them counts from the next request on."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._read: dict[str, tuple[int, list[Object]]] = {}  # plural -> the revision read, and the objects

    def allows(self, subject: Subject, attempt: Attempt) -> bool:
        """Return True if a role that is bound to the user allows it."""
        return any(_covers(rule, attempt) for rule in self.rules(subject, attempt.namespace))

    def rules(self, subject: Subject, namespace: str) -> list[Object]:
        """Return the rules of all roles that are bound to a user, for one namespace or for the cluster."""
        roles = [role for role, _ in self._bound(subject, namespace) if role is not None]
        return [rule for role in roles for rule in self._rules_of(role)]

    def missing(self, subject: Subject, namespace: str) -> list[str]:
        """Return an error for each role that is bound to the user but does not exist."""
        return [error for role, error in self._bound(subject, namespace) if role is None]

    def _bound(self, subject: Subject, namespace: str) -> Iterator[tuple[Object | None, str]]:
        for plural, where in (("clusterrolebindings", ""), ("rolebindings", namespace)):
            for binding in self._all(plural):
                at = binding["metadata"].get("namespace", "")
                if at == where and any(_is(member, subject, at) for member in binding.get("subjects") or ()):
                    yield self._role(binding["roleRef"], at)

    def _role(self, reference: Mapping[str, Any], namespace: str) -> tuple[Object | None, str]:
        plural, at = ("clusterroles", "") if reference["kind"] == "ClusterRole" else ("roles", namespace)
        for role in self._all(plural):
            if role["metadata"]["name"] == reference["name"] and role["metadata"].get("namespace", "") == at:
                return role, ""
        return None, f'{plural[:-1]}.{_GROUP} "{reference["name"]}" not found'

    def _rules_of(self, role: Object) -> Iterator[Object]:
        yield from role.get("rules") or ()
        # A controller copies the rules of the others into an aggregated role. Here they are looked up.
        for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
            labels = (selector.get("matchLabels") or {}).items()
            for other in self._all("clusterroles"):
                if other is not role and labels and labels <= (other["metadata"].get("labels") or {}).items():
                    yield from self._rules_of(other)

    def _all(self, plural: str) -> list[Object]:
        resource = self._ledger.registry.find(f"{_GROUP}/v1/{plural}")
        collection = self._ledger.collection(resource)
        revision, objects = self._read.get(plural, (-1, []))
        if revision != collection.revision:
            objects = [self._ledger.read(resource, stored) for stored in collection.snapshot().items]
            self._read[plural] = (collection.revision, objects)
        return objects


def _is(subject: Mapping[str, Any], user: Subject, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.all_groups
    return user.name == f"{_SERVICE_ACCOUNT}{subject.get('namespace') or namespace}:{name}"


def _covers(rule: Mapping[str, Any], attempt: Attempt) -> bool:
    if not _has(rule, "verbs", attempt.verb):
        return False
    if attempt.path:
        return any(_matches_path(pattern, attempt.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    if not _has(rule, "apiGroups", attempt.group) or (names and attempt.name not in names):
        return False
    _, slash, subresource = attempt.resource.partition("/")
    return _has(rule, "resources", attempt.resource) or (bool(slash) and f"*/{subresource}" in rule["resources"])


def _has(rule: Mapping[str, Any], field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return value in values or "*" in values


def _matches_path(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == path
