"""Whatever a file, a variable, a header or a Status contains, it is read, or refused by a clear error."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import APIError, Backoff, Client, ConfigError, KubeObject, SharedInformerFactory
from kinformer.conditions import (
    has_condition,
    is_crd_established,
    is_deployment_rolled_out,
    is_job_complete,
    is_loadbalancer_ready,
    is_pod_ready,
    is_pod_running,
    is_pod_serving,
)
from kinformer.objects import Condition, PodState, condition_is, condition_of, with_conditions
from kinformer.testing import APIServer
from tests.support.http_server import HttpServer, json_answer
from tests.support.odd_json import JSON, or_odd

# --- kubeconfigs ------------------------------------------------------------------------------------------------------

CLUSTER = st.fixed_dictionaries(
    {"server": or_odd("https://localhost:6443")},
    optional={
        "tls-server-name": or_odd("a..b", "\0", "kubernetes"),
        "certificate-authority-data": or_odd("8J+YgA==", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"),
        "certificate-authority": or_odd("/nowhere", "\0"),
        "insecure-skip-tls-verify": or_odd(True),
        "proxy-url": or_odd("http://proxy:1"),
        "extensions": or_odd([{"name": "client.authentication.k8s.io/exec", "extension": 1}]),
    },
)
USER = st.fixed_dictionaries(
    {},
    optional={
        "token": or_odd("secret"),
        "tokenFile": or_odd("/nowhere"),
        "username": or_odd("me"),
        "password": JSON,
        "as": or_odd("you"),
        "as-groups": JSON,
        "as-user-extra": JSON,
        "client-certificate-data": or_odd("8J+YgA=="),
        "client-key-data": JSON,
        "exec": or_odd({"command": "/nowhere", "apiVersion": "v1", "provideClusterInfo": True}),
        "auth-provider": or_odd({"name": "oidc"}),
    },
)


def kubeconfig_of(cluster: object, user: object) -> dict[str, object]:
    return {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": user}],
    }


@pytest.mark.process  # of the credential plugins that it finds
@given(
    config=st.builds(kubeconfig_of, CLUSTER | JSON, USER | JSON) | JSON.filter(lambda value: isinstance(value, dict))
)
@pytest.mark.process  # a plugin of an example, although there is no such program
def test_any_kubeconfig_is_entered_or_refused_by_a_config_error(config: Any) -> None:
    async def enter() -> None:
        async with Client.from_kubeconfig(config) as client:
            assert client.server.startswith("http")

    try:
        asyncio.run(enter())
    except ConfigError as error:
        assert "kubeconfig" in str(error) or "http" in str(error)  # noqa: PT017 - most examples raise it


@pytest.mark.process
async def test_a_date_reaches_a_plugin_as_it_is_written(tmp_path: Path) -> None:
    plugin = (
        "import json, os; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']); "
        "print(json.dumps({**info, 'status': {'token': info['spec']['cluster']['config']['since']}}))"
    )
    file = tmp_path / "config"
    file.write_text(f"""
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
clusters:
- name: it
  cluster:
    server: http://127.0.0.1:1
    extensions: [{{name: client.authentication.k8s.io/exec, extension: {{since: 2001-12-14}}}}]
users:
- name: it
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: {sys.executable}
      args: ["-c", {json.dumps(plugin)}]
      provideClusterInfo: true
      interactiveMode: Never
""")
    async with Client.from_kubeconfig(file) as client:
        info = await client.connection_info()
        assert info.credential == "exec-plugin"


async def test_a_comment_in_authorities_may_have_any_characters(tmp_path: Path) -> None:
    async with APIServer(tls=True) as server:
        assert server.ca_file is not None
        authority = "# Zertifikat für Türkçe\n".encode() + await asyncio.to_thread(server.ca_file.read_bytes)
        file = server.kubeconfig(tmp_path / "config")
        config = json.loads(json.dumps(kubeconfig_of({}, {"token": server.token()})))
        config["clusters"][0]["cluster"] = {
            "server": server.url,
            "certificate-authority-data": base64.b64encode(authority).decode(),
        }
        assert file.is_file()
        async with Client.from_kubeconfig(config) as client:
            await client.request("GET", "/version")


# --- answers ----------------------------------------------------------------------------------------------------------

DATES = [
    "Fri, 31 Dec 9999999999",
    "Fri, 31 Dec 9999 23:59:59 -9999",
    "31 Dec 0 0:0:0",
    "",
    "²",
    "1e400",
    "-1",
    "9" * 400,
]


@pytest.mark.parametrize("date", DATES)
@pytest.mark.parametrize("header", ["Retry-After", "Date"])
async def test_an_informer_survives_any_date(date: str, header: str) -> None:
    asked = 0

    async def refuse_twice(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        if asked <= 2:
            headers = {"Retry-After": "0", header: date} if header == "Date" else {header: date}
            return web.Response(status=503, headers=headers, text="{}")
        return json_answer(
            {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
        )

    async with HttpServer(refuse_twice) as server, Client.from_url(server.url) as client:
        with pytest.raises(APIError):
            await client.request("GET", "/api/v1/configmaps", retries=0)
        async with SharedInformerFactory(client, backoff=Backoff(initial=0.01, maximum=0.1)) as factory:
            await factory.for_resource("v1/configmaps", watch_list=False).wait_synced(20)


@given(
    body=JSON
    | st.fixed_dictionaries({"kind": st.just("Status"), "details": JSON, "code": JSON, "message": JSON, "reason": JSON})
)
@settings(max_examples=50)
def test_any_status_is_an_api_error(body: Any) -> None:
    async def ask() -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            return web.Response(status=403, body=json.dumps(body).encode(), headers={"Date": "x"})

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            with pytest.raises(APIError) as caught:
                await client.request("GET", "/api/v1/pods", retries=0)
            assert caught.value.status == 403
            assert isinstance(str(caught.value), str)

    asyncio.run(ask())


# --- the environment --------------------------------------------------------------------------------------------------


@given(no_proxy=st.text(alphabet="0123456789²٣.:*/,[]ab ", max_size=20), port=st.integers(1, 65535))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_variable_of_proxies_is_read(no_proxy: str, port: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HTTP_PROXY", "http://proxy:1")
        patched.setenv("NO_PROXY", no_proxy)
        Client.from_url(f"http://a.b:{port}")


# --- statuses and conditions ------------------------------------------------------------------------------------------

CONDITION = st.fixed_dictionaries(
    {},
    optional={name: or_odd("Ready", "True") for name in ("type", "status", "reason", "message", "observedGeneration")},
)
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "conditions": st.lists(CONDITION | JSON, max_size=3) | JSON,
        "phase": JSON,
        "containerStatuses": st.lists(or_odd({"state": {"terminated": 1}}, {"restartCount": "x"}), max_size=2) | JSON,
        "initContainerStatuses": JSON,
        "loadBalancer": or_odd({"ingress": [1]}),
        "observedGeneration": JSON,
        "replicas": JSON,
    },
)
CHECKS = [
    has_condition("Ready"),
    is_crd_established,
    is_deployment_rolled_out,
    is_job_complete,
    is_loadbalancer_ready,
    is_pod_ready,
    is_pod_running,
    is_pod_serving,
]


@given(status=STATUS | JSON, spec=JSON, kind=st.sampled_from(["Pod", "Service", "Widget"]))
def test_any_status_has_its_conditions(status: Any, spec: Any, kind: str) -> None:
    document: Mapping[str, Any] = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": "default", "resourceVersion": "1", "generation": 2},
        "spec": spec,
        "status": status,
    }
    for obj in (document, KubeObject.from_dict(document)):
        for check in CHECKS:
            assert check(obj) in (True, False)
        assert condition_is(obj, "Ready") in (True, False)
        assert condition_of(obj, "Ready") is None or isinstance(condition_of(obj, "Ready"), dict)
        assert with_conditions(obj, Condition("Ready", True, "Fine"))
        assert isinstance(PodState.of(obj).reason, str)


ODD_CONDITIONS = [
    ["Ready"],
    [None],
    True,
    [{"type": "Ready", "status": "False", "message": 7}],
    [{"type": ["Ready"]}],
    "x",
]


@pytest.mark.parametrize("conditions", ODD_CONDITIONS, ids=str)
async def test_a_wait_goes_on_whatever_the_conditions_are(conditions: Any) -> None:
    async with APIServer() as server, server.client() as client:
        server.register("example.com/v1", "Widget", "widgets", namespaced=True)
        widget: dict[str, Any] = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "status": {"conditions": conditions},
        }
        widget["metadata"] = {"name": "a", "namespace": "default"}
        server.create(widget)
        waiting = asyncio.create_task(
            client.wait_for("example.com/v1/widgets", "default/a", has_condition("Ready"), timeout=20)
        )
        with pytest.raises(TimeoutError, match="default/a: no condition Ready within"):
            await client.wait_for("example.com/v1/widgets", "default/a", has_condition("Ready"), timeout=0.3)
        server.update({**widget, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        assert (await waiting).name == "a"
