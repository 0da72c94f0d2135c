"""Reviews: kinds that can be created but are never stored. They return a user's identity and rights."""

from __future__ import annotations

from typing import Any

from kinformer.apiserver.status import bad_request, cause, invalid
from kinformer.testing.api.rbac import Attempt
from kinformer.testing.http.auth import AccessControl, User
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.rules.metadata_rules import invalid_value, json_text
from kinformer.testing.store.ownership import FieldManager, track_update

__all__ = ["is_review", "review"]

Object = dict[str, Any]

_GROUPS = ("authentication.k8s.io", "authorization.k8s.io")


def is_review(resource: ResourceType) -> bool:
    """Return True for a review, which is answered but not stored."""
    return resource.builtin and resource.group in _GROUPS


def review(
    access: AccessControl,
    user: User,
    resource: ResourceType,
    namespace: str,
    body: Object,
    manager: FieldManager,
    now: str,
) -> Object:
    """Return the answered review. Raises a 422 `StatusError` for a review without a question."""
    kind = resource.kind
    head = {"kind": kind, "apiVersion": resource.api_version}
    if kind == "SelfSubjectReview":
        return {**head, "metadata": {"creationTimestamp": now}, "status": {"userInfo": user.info()}}
    spec = body.get("spec") or {}
    answer: Object = {**head, "metadata": {"namespace": namespace} if namespace else {}, "spec": spec}
    if kind == "SelfSubjectRulesReview":
        return {**answer, "spec": {}, "status": _rules(access, user, spec.get("namespace", ""))}
    track_update(resource, None, answer, manager, now)
    if kind == "TokenReview":
        return {**answer, "status": _token(access, spec.get("token", ""), spec.get("audiences") or [])}
    if kind != "SelfSubjectAccessReview":
        user = User(spec.get("user", ""), tuple(spec.get("groups") or ()))
        if not user.name and not user.groups:
            causes = [
                cause("FieldValueRequired", "Required value: at least one of user or group must be specified", "")
            ]
            causes = [{**causes[0], "field": "spec.user"}]
            raise invalid(resource.group, kind, "", causes)
    return {**answer, "status": _access(access, user, resource, spec)}


def _access(access: AccessControl, user: User, resource: ResourceType, spec: Object) -> Object:
    attributes, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (attributes is None) == (other is None):
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        value = None if attributes is None else attributes
        raise invalid(resource.group, resource.kind, "", [invalid_value("spec.resourceAttributes", value, message)])
    if attributes is None:
        return {"allowed": True}
    plural = attributes.get("resource", "")
    if attributes.get("subresource"):
        plural += f"/{attributes['subresource']}"
    verb, group, *place = (attributes.get(field, "") for field in ("verb", "group", "namespace", "name"))
    attempt = Attempt(verb, group, plural, *place)
    return {"allowed": access.is_allowed(user, attempt, attributes.get("version") or "v1")}


def _token(access: AccessControl, token: str, audiences: list[str]) -> Object:
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    user = access.user_of(token)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    shared = [audience for audience in user.audiences if audience in audiences] if audiences else list(user.audiences)
    if not shared:
        of = f"[{' '.join(map(json_text, user.audiences))}]"
        for_ = f"[{' '.join(map(json_text, audiences))}]"
        error = f"[invalid bearer token, token audiences {of} is invalid for the target audiences {for_}]"
        return {"user": {}, "error": error}
    return {"authenticated": True, "user": user.info(), "audiences": shared}


def _rules(access: AccessControl, user: User, namespace: str) -> Object:
    """Return the rights of a user as RBAC rules."""
    granted = access.rules_of(user, namespace)
    resources = [rule for rule in granted if rule.get("resources")]
    paths = [rule for rule in granted if rule.get("nonResourceURLs")]
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
