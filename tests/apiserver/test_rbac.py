"""`APIServer(rbac=True)`: roles and bindings decide, as in a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kinformer import Client, ConfigError
from kinformer.exceptions import ForbiddenError, NotFoundError, UnauthorizedError
from kinformer.testing import APIServer

RBAC = "rbac.authorization.k8s.io"
PODS = "/api/v1/namespaces/shop/pods"


def role(kind: str, name: str, *rules: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": "shop"} if kind == "Role" else {}), **metadata}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}


def rule(*verbs: str, resources: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs), **more}


def binding(kind: str, role_kind: str, role_name: str, *subjects: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": f"{role_name}-{kind.lower()}", **({"namespace": "shop"} if kind == "RoleBinding" else {})}
    reference = {"apiGroup": RBAC, "kind": role_kind, "name": role_name}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": reference,
        "subjects": list(subjects),
    }


ALICE = {"kind": "User", "name": "alice", "apiGroup": RBAC}
APP = {"kind": "ServiceAccount", "name": "app", "namespace": "shop"}


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[APIServer]:
    users = {"t1": "alice", "t2": "bob", "t3": "system:serviceaccount:shop:app"}
    async with APIServer(users=users, rbac=True) as server:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        yield server


async def allowed(client: Client, method: str, path: str, **request: Any) -> bool:
    try:
        await client.request(method, path, **request)
    except ForbiddenError:
        return False
    except NotFoundError:
        return True
    return True


async def test_a_role_counts_in_its_namespace_for_its_verbs_and_from_its_creation_on(cluster: APIServer) -> None:
    async with cluster.client("alice") as alice, cluster.client("bob") as bob:
        assert not await allowed(alice, "GET", PODS)
        cluster.create(role("Role", "reader", rule("get", "list", resources="pods pods/log")))
        cluster.create(binding("RoleBinding", "Role", "reader", ALICE))
        assert await allowed(alice, "GET", PODS)
        assert await allowed(alice, "GET", f"{PODS}/a")
        assert await allowed(alice, "GET", f"{PODS}/a/log")
        assert not await allowed(alice, "GET", f"{PODS}/a/status")
        assert not await allowed(alice, "GET", PODS, params={"watch": "1"})
        assert not await allowed(alice, "DELETE", f"{PODS}/a")
        assert not await allowed(alice, "GET", "/api/v1/namespaces/default/pods")
        assert not await allowed(alice, "GET", "/api/v1/pods")
        assert not await allowed(bob, "GET", PODS)
        cluster.delete(f"{RBAC}/v1/rolebindings", "shop", "reader-rolebinding")
        assert not await allowed(alice, "GET", PODS)


async def test_a_cluster_role_counts_where_it_is_bound(cluster: APIServer) -> None:
    cluster.create(role("ClusterRole", "reader", rule("*", resources="*", group="*")))
    cluster.create(binding("RoleBinding", "ClusterRole", "reader", ALICE))
    cluster.create(binding("ClusterRoleBinding", "ClusterRole", "reader", APP))
    async with cluster.client("alice") as alice, cluster.client("system:serviceaccount:shop:app") as app:
        assert await allowed(alice, "GET", PODS)
        assert not await allowed(alice, "GET", "/api/v1/pods")
        assert await allowed(app, "GET", "/api/v1/pods")
        assert await allowed(app, "GET", "/apis/apps/v1/namespaces/default/deployments")


async def test_names_subresources_and_paths_limit_a_rule(cluster: APIServer) -> None:
    cluster.create(
        role(
            "ClusterRole",
            "some",
            rule("get", "list", resources="pods", resourceNames=["web-1"]),
            rule("get", resources="*/status"),
            {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*"]},
        )
    )
    cluster.create(binding("ClusterRoleBinding", "ClusterRole", "some", ALICE))
    async with cluster.client("alice") as alice, cluster.client("bob") as bob:
        assert await allowed(alice, "GET", f"{PODS}/web-1")
        assert not await allowed(alice, "GET", f"{PODS}/web-2")
        assert await allowed(alice, "GET", PODS, params={"fieldSelector": "metadata.name=web-1"})
        assert not await allowed(alice, "GET", PODS)
        assert await allowed(alice, "GET", f"{PODS}/web-2/status")
        assert await allowed(alice, "GET", "/logs/a")
        assert not await allowed(alice, "GET", "/debug")
        assert not await allowed(bob, "GET", "/logs/a")


async def test_groups_of_service_accounts_and_of_all_users_are_known(cluster: APIServer) -> None:
    group = {"kind": "Group", "apiGroup": RBAC}
    cluster.create(role("Role", "maps", rule("list", resources="configmaps")))
    cluster.create(role("Role", "pods", rule("list", resources="pods")))
    cluster.create(binding("RoleBinding", "Role", "maps", group | {"name": "system:serviceaccounts:shop"}))
    cluster.create(binding("RoleBinding", "Role", "pods", group | {"name": "system:authenticated"}))
    async with cluster.client("alice") as alice, cluster.client("system:serviceaccount:shop:app") as app:
        assert await allowed(app, "GET", "/api/v1/namespaces/shop/configmaps")
        assert not await allowed(alice, "GET", "/api/v1/namespaces/shop/configmaps")
        assert await allowed(alice, "GET", PODS)


async def test_an_aggregated_role_has_the_rules_of_the_roles_that_it_selects(cluster: APIServer) -> None:
    selector = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    cluster.create(role("ClusterRole", "all") | {"aggregationRule": selector})
    cluster.create(role("ClusterRole", "part", rule("list", resources="pods"), labels={"to": "all"}))
    cluster.create(binding("ClusterRoleBinding", "ClusterRole", "all", ALICE))
    async with cluster.client("alice") as alice:
        assert await allowed(alice, "GET", PODS)


async def test_a_refusal_names_a_role_that_does_not_exist(cluster: APIServer) -> None:
    cluster.create(binding("RoleBinding", "Role", "gone", ALICE))
    async with cluster.client("alice") as alice:
        with pytest.raises(ForbiddenError) as refused:
            await alice.request("GET", PODS)
    assert refused.value.message == (
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "shop": '
        f'RBAC: role.{RBAC} "gone" not found'
    )


async def test_reviews_answer_by_the_roles(cluster: APIServer) -> None:
    cluster.create(role("Role", "reader", rule("list", resources="pods")))
    cluster.create(binding("RoleBinding", "Role", "reader", ALICE))
    reviews = "/apis/authorization.k8s.io/v1/selfsubject"
    async with cluster.client("alice") as alice:
        for namespace, expected in (("shop", True), ("default", False), ("", False)):
            attributes = {"verb": "list", "resource": "pods", "namespace": namespace}
            body = {"spec": {"resourceAttributes": attributes}}
            answer: Any = await alice.request("POST", f"{reviews}accessreviews", body=body)
            assert answer["status"]["allowed"] is expected, namespace
        answer = await alice.request("POST", f"{reviews}rulesreviews", body={"spec": {"namespace": "shop"}})
        assert rule("list", resources="pods") in answer["status"]["resourceRules"]


async def test_everyone_may_read_discovery_and_the_server_checks_tokens(cluster: APIServer) -> None:
    async with cluster.client("bob") as bob:
        assert await bob.request("GET", "/apis")
    async with Client.from_url(cluster.url, token="wrong") as nobody:
        with pytest.raises(UnauthorizedError):
            await nobody.request("GET", "/apis")
    async with cluster.client() as administrator:
        assert await administrator.request("GET", PODS)


def test_rules_and_rbac_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="rules and rbac"):
        APIServer(rules=[], rbac=True)
