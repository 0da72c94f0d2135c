"""The manifest in examples/proxy: a proxy works with exactly its rights, and its options are those of the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kinformer import Client
from kinformer.testing import APIServer
from tests.docs.documented_commands import complaint
from tests.support.apiserver_http import Reply, ask
from tests.support.certificates import client_side
from tests.support.kube import pod
from tests.watchcache.proxy.conftest import proxying

MANIFEST = Path(__file__).parents[2] / "examples/proxy/proxy.yaml"
ACCOUNT = "system:serviceaccount:kubernetes-cache:kubernetes-cache"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}


def documents() -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text())}


async def test_a_proxy_with_the_rights_of_the_manifest_serves_callers(certificates: Path) -> None:
    made = documents()
    async with APIServer(users=[ACCOUNT, "ann"], rbac=True, tls=True) as server:
        for kind in ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "Service"):
            server.create(made[kind])
        server.create(pod("web-1"))
        server.create(NODE)
        own_rights(server, "ann")
        kubeconfig = server.kubeconfig(certificates / "proxy-kubeconfig", ACCOUNT)
        files: dict[str, Any] = {"tls_cert": certificates / "local.crt", "tls_key": certificates / "local.key"}
        async with (
            Client.from_kubeconfig(kubeconfig) as client,
            proxying(client, "v1/pods", "v1/nodes", authenticate=True, **files) as proxy,
        ):

            async def asked(path: str) -> Reply:
                headers = {"Authorization": f"Bearer {server.token('ann')}"}
                return await ask(proxy.url, "GET", path, headers=headers, ssl=client_side(certificates))

            assert [one["metadata"]["name"] for one in (await asked("/api/v1/pods")).json["items"]] == ["web-1"]
            assert (await asked("/api/v1/nodes/node-1")).status == 403
            assert (await asked("/api/v1/configmaps")).status == 403
        refused = [one for one in server.requests if one.user == ACCOUNT and one.status == 403]
        assert refused == []


def own_rights(server: APIServer, user: str) -> None:
    """Let a user read pods."""
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
    }
    server.create(role)
    server.create(binding)


def test_the_parts_of_the_manifest_fit_each_other() -> None:
    made = documents()
    spec = made["Deployment"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert complaint([*container["command"], *container["args"]]) == ""
    namespace = made["Namespace"]["metadata"]["name"]
    assert f"system:serviceaccount:{namespace}:{spec['serviceAccountName']}" == ACCOUNT
    labels = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert made["Service"]["spec"]["selector"] == labels
    assert made["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert {f"--listen=:{ports['https']}", f"--health=:{ports['health']}"} <= set(container["args"])
    [mount] = container["volumeMounts"]
    assert {"--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key"} <= set(container["args"])
    assert mount["mountPath"] == "/tls"
    cached = [name.removeprefix("v1/") for name in container["command"][2:]]
    assert made["ClusterRole"]["rules"][0]["resources"] == cached
