"""Reviews: kinds that are only created, and never stored. They answer who one is and what one may."""

from __future__ import annotations

from typing import Any

from kinformer.testing.auth import ADMIN, ANONYMOUS, AccessControl
from kinformer.testing.ownership import FieldManager, track_update
from kinformer.testing.request import RequestInfo
from kinformer.testing.resources import ResourceType
from kinformer.testing.status import bad_request

__all__ = ["REVIEWS", "review"]

Object = dict[str, Any]

# (api version, plural) -> kind, singular; as discovery lists them.
REVIEWS: dict[tuple[str, str], str] = {
    ("authentication.k8s.io/v1", "selfsubjectreviews"): "SelfSubjectReview",
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    ("authorization.k8s.io/v1", "subjectaccessreviews"): "SubjectAccessReview",
}


def review(
    access: AccessControl, user: str, info: RequestInfo, body: Object, manager: FieldManager, now: str
) -> Object:
    """The answered review."""
    kind = REVIEWS[info.api_version, info.plural]
    head = {"kind": kind, "apiVersion": info.api_version}
    if kind == "SelfSubjectReview":
        groups = ["system:unauthenticated"] if user == ANONYMOUS else ["system:authenticated"]
        if user == ADMIN:
            groups.insert(0, "system:masters")
        who = {"username": user, "groups": groups}
        if user != ANONYMOUS:
            who = {"username": user, "uid": user, "groups": groups}
        return {**head, "metadata": {"creationTimestamp": now}, "status": {"userInfo": who}}
    spec = body.get("spec") or {}
    if kind == "SubjectAccessReview":
        user = spec.get("user", "")
    attributes = spec.get("resourceAttributes")
    if attributes is None and not spec.get("nonResourceAttributes"):
        raise bad_request("spec.resourceAttributes: Required value")
    allowed = True
    if attributes is not None:
        group, version = attributes.get("group", ""), attributes.get("version") or "v1"
        resource = f"{group}/{version}" if group else version
        resource += f"/{attributes.get('resource', '')}"
        if attributes.get("subresource"):
            resource += f"/{attributes['subresource']}"
        allowed = access.may(user, attributes.get("verb", ""), resource)
    answer: Object = {**head, "metadata": {}, "spec": spec}
    group, _, version = info.api_version.partition("/")
    track_update(ResourceType(group, version, info.plural, kind), None, answer, manager, now)
    return {**answer, "status": {"allowed": allowed}}
