"""The kinds of the built-in resources in all their versions, and their scopes."""

from __future__ import annotations

import re

from kinformer.exceptions import ConfigError, ScopeError
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.spellings import (
    CLUSTER_SCOPED,
    GROUPS,
    KINDS,
    is_core_version,
    meanings,
    parts_of,
    plural_of,
    resource_hint,
)

__all__ = [
    "DefaultNamespace",
    "builtin_kind",
    "builtin_resource",
    "is_custom",
    "is_namespaced",
    "is_namespaced_kind",
    "parse_kind",
    "parse_resource",
    "wrong_scope",
]

_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")

# The groups of Kubernetes without kinds of a kube-apiserver, and those of its parts.
_PARTS = ("authentication", "authorization", "internal.apiserver", "metrics", "storagemigration")
_GROUPS = GROUPS.union(f"{name}.k8s.io" for name in _PARTS)


class DefaultNamespace(str):
    """A namespace that is left out for a resource without namespaces."""

    __slots__ = ()


def is_custom(group: str) -> bool:
    """Return True if an API group is not one of Kubernetes itself, so that its objects are custom resources."""
    return group not in _GROUPS and not group.endswith(".metrics.k8s.io")


def is_namespaced(resource: str | GroupVersionResource) -> bool | None:
    """Return True if the objects of a resource are in namespaces, False if not, or None if it is not built in.

    Of other resources only discovery knows.

    Raises:
        ConfigError: The name is not a resource, such as `"v1/pods"`. The message has the right one.
    """
    kind = builtin_kind(parse_resource(resource))
    return is_namespaced_kind(kind) if kind else None


def parse_kind(text: str, option: str) -> tuple[str | None, str]:
    """Return the API group and the kind of a text.

    It is `"Deployment"`, `"apps/Deployment"`, `"apps/v1/Deployment"` or `"v1/Service"`. The group is "" for the core
    group, whose spelling has its version, and None for a kind alone.

    Raises:
        ConfigError: It has no such form, is the name of a resource, or a built-in group lacks the kind and another has
            it. The message names `option`, and the kind.
    """
    name = text if isinstance(text, str) else ""
    group, version, kind = parts_of(name)
    named = meanings(name)
    is_misplaced = group in GROUPS and bool(named) and (group, kind) not in named
    is_whole = name == "/".join(part for part in (group, version, kind) if part) and bool(_KIND.fullmatch(kind))
    if is_whole and not is_misplaced and (version is None or is_core_version(version)):
        return group, kind
    kinds = sorted({its_kind if group is None else f"{own or 'v1'}/{its_kind}" for own, its_kind in named})
    hint = f"; the kind of {kind} is {' or '.join(kinds)}" if kinds else ""
    raise ConfigError(
        f"invalid {option}={text!r}: expected a kind such as 'Deployment', 'apps/Deployment' or 'v1/Service'{hint}"
    )


def parse_resource(text: str | GroupVersionResource) -> GroupVersionResource:
    """Return the resource of a text that no server will be asked about.

    A server says that it lacks `"v1/pod"`, and what is nearest. Where none is asked, the name would match nothing. A
    GroupVersionResource is returned unchanged.

    Raises:
        ConfigError: It has no form of `GroupVersionResource.parse`, or is another name of a built-in resource, such as
            `"v1/pod"`, `"apps/v1/deploy"` or `"v1/deployments"`. The message has the right one.
    """
    resource = GroupVersionResource.parse(text)
    if isinstance(text, str) and not builtin_kind(resource) and meanings(text):
        raise ConfigError(f"invalid resource {text!r}{resource_hint(text)}")
    return resource


def wrong_scope(resource: GroupVersionResource, value: object, option: str = "namespace") -> ScopeError:
    """Return the error of a namespace that is given for a resource without namespaces."""
    return ScopeError(f"{option}={value!r} is given, but {resource} is cluster-scoped")


def builtin_kind(resource: GroupVersionResource) -> str:
    """Return the kind of a built-in resource, such as `"Pod"`, or "" for any other resource."""
    return KINDS.get((resource.group, resource.resource), "")


def builtin_resource(group: str, version: str, kind: str) -> GroupVersionResource | None:
    """Return the resource of a built-in kind, or None for any other kind."""
    resource = plural_of(kind)
    return GroupVersionResource(group, version, resource) if KINDS.get((group, resource)) == kind else None


def is_namespaced_kind(kind: str) -> bool:
    """True if the objects of a built-in kind are in namespaces."""
    return kind not in CLUSTER_SCOPED
