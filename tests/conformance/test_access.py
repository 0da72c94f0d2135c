"""Identity, rights, and the server's description of itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.api import read_configmaps
from tests.conformance.conftest import USERS
from tests.conformance.site import Site
from tests.conformance.test_objects import configmap, pod


@pytest.fixture
def embedded_options() -> dict[str, Any]:
    """The users of the real server; what alice gets there by a Role is a rule here."""
    rules = [("alice", verb, "v1/configmaps") for verb in ("get", "list", "watch")]
    return {"users": USERS, "rules": rules}


async def test_a_token_that_nobody_has_is_unauthorized(site: Site) -> None:
    for path in (site.configmaps, "/version", "/api", "/healthz", "/nowhere"):
        await site.get(path, token="made-up")
    await site.get(f"{site.configmaps}?watch=1", token="made-up")
    await site.post(site.configmaps, configmap("a"), token="made-up")


async def test_who_shows_no_token_is_anonymous(site: Site) -> None:
    for path in ("/healthz", "/livez", "/readyz", site.configmaps, "/api", "/apis", "/nowhere", "/metrics"):
        await site.get(path, anonymous=True)


async def test_a_user_who_may_do_nothing_is_told_what_they_may_not(site: Site) -> None:
    await site.get(site.configmaps, user="bob")
    await site.get("/api/v1/configmaps", user="bob")
    await site.get(f"{site.configmaps}/a", user="bob")
    await site.get(f"{site.configmaps}?watch=1", user="bob")
    await site.post(site.configmaps, configmap("a"), user="bob")
    await site.put(f"{site.configmaps}/a", configmap("a"), user="bob")
    await site.patch(f"{site.configmaps}/a", {}, user="bob")
    await site.delete(f"{site.configmaps}/a", user="bob")
    await site.delete(site.configmaps, user="bob")
    await site.get(f"{site.pods}/a/status", user="bob")
    await site.post(f"{site.pods}/a/eviction", {}, user="bob")
    await site.get("/api/v1/nodes", user="bob")
    await site.get("/api/v1/nodes/a", user="bob")
    await site.get("/api/v1/namespaces", user="bob")
    await site.get(f"/api/v1/namespaces/{site.namespace}", user="bob")
    await site.get(site.of("apps/v1", "deployments"), user="bob")
    await site.get("/apis/example.org/v1/nothings", user="bob")
    await site.get("/nowhere", user="bob")
    await site.get("/api", user="bob")
    await site.get("/version", user="bob")


async def test_a_user_may_do_what_was_allowed_and_nothing_else(site: Site) -> None:
    for kind, body in read_configmaps("alice").items():
        await site.make(site.of("rbac.authorization.k8s.io/v1", kind), body)
    await site.until(site.configmaps, 200, user="alice")
    await site.make(site.configmaps, configmap("a"))
    await site.get(f"{site.configmaps}/a", user="alice")
    async with site.watch(f"{site.configmaps}?watch=1&resourceVersion=0", user="alice") as stream:
        await stream.event()
    await site.post(site.configmaps, configmap("b"), user="alice")
    await site.delete(f"{site.configmaps}/a", user="alice")
    await site.post(site.pods, pod("a"), user="alice")


async def test_a_user_can_ask_who_they_are_and_what_they_may(site: Site) -> None:
    review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    await site.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review, user="bob")
    access = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": site.namespace}},
    }
    await site.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", access, user="bob")
    await site.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", access)


async def test_the_server_says_how_it_is(site: Site) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/healthz/ping", "/livez/ping", "/readyz/ping", "/readyz/nothing"):
        await site.get(path)
    await site.post("/healthz", {})


async def test_the_server_says_what_it_serves(site: Site) -> None:
    await site.get("/api")
    for path in ("/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/batch/v1", "/apis/coordination.k8s.io/v1"):
        reply = await site.ask("GET", path, kept=False)
        kept = site.transcript.request("GET", path, {}, None)
        site.transcript.answer(kept, reply.status, reply.headers, _served(reply.json))


SERVED = frozenset(
    [
        "pods",
        "pods/status",
        "pods/binding",
        "pods/eviction",
        "nodes",
        "nodes/status",
        "namespaces",
        "namespaces/status",
        "namespaces/finalize",
        "services",
        "configmaps",
        "secrets",
        "events",
        "serviceaccounts",
        "endpoints",
        "persistentvolumes",
        "persistentvolumeclaims",
        "deployments",
        "deployments/status",
        "deployments/scale",
        "replicasets",
        "statefulsets",
        "daemonsets",
        "jobs",
        "cronjobs",
        "leases",
    ]
)


def _served(document: dict[str, object]) -> object:
    """Of a list of resources what both servers have; of the groups their names and versions."""
    if document["kind"] == "APIResourceList":
        resources = document["resources"]
        assert isinstance(resources, list)
        return {**document, "resources": [one for one in resources if one["name"] in SERVED]}
    if document["kind"] == "APIGroupList":
        groups = document["groups"]
        assert isinstance(groups, list)
        wanted = ("apps", "batch", "coordination.k8s.io", "networking.k8s.io", "policy", "apiextensions.k8s.io")
        return {**document, "groups": [one for one in groups if one["name"] in wanted]}
    return document
