"""The operator of examples/operator as a process of its own, with only the rights that its manifests give it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from kinformer import Client, ConfigError, GroupVersionResource, SharedInformerFactory, wait_for
from kinformer.conditions import is_deleted
from kinformer.objects import condition_is
from kinformer.testing import ClusterServer
from tests.support.manifests import EXAMPLES, apply, documents, files
from tests.support.ports import reserved_port
from tests.support.waiting import until

FOLDER = EXAMPLES / "operator"
NAMESPACE = "website-operator"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:website-operator"
WEBSITES, DEPLOYMENTS, CONFIG_MAPS = "example.com/v1/websites", "apps/v1/deployments", "v1/configmaps"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/website-operator"
MANIFESTS = FOLDER / "base" / "manifests"
RIGHTS = "20-rbac.yaml"


async def apply_manifests(server: ClusterServer, rights: Iterable[dict[str, Any]] | None = None) -> None:
    """Apply the manifests in the order of their names, then the sample.

    Args:
        server: The server.
        rights: The documents to apply instead of the example's service account, roles and bindings.
    """
    async with server.client() as client:
        for file in [*files(MANIFESTS), FOLDER / "website.yaml"]:
            own = rights if file.name == RIGHTS else None
            await apply(client, documents(file) if own is None else own)


class OperatorProcess:
    """`async with OperatorProcess(server, folder) as operator`: the process, and its probes."""

    def __init__(self, server: ClusterServer, folder: Path) -> None:
        kubeconfig = folder / "kubeconfig"
        server.kubeconfig(kubeconfig, ACCOUNT)
        config = yaml.safe_load(kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = NAMESPACE  # as the service account's folder says in a pod
        kubeconfig.write_text(yaml.safe_dump(config))
        self._port = ExitStack()
        self._listen = f"127.0.0.1:{self._port.enter_context(reserved_port())}"
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "LISTEN": self._listen,
            "PYTHONPATH": str(FOLDER.parent.parent),
        }
        self._process: asyncio.subprocess.Process | None = None
        self._log = folder / "log"

    async def __aenter__(self) -> OperatorProcess:
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-W", "error", str(FOLDER / "website_operator.py")),
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._port.close()

    @property
    def log(self) -> str:
        return self._log.read_text()

    async def is_ready(self) -> bool:
        try:
            async with aiohttp.ClientSession() as http, http.get(f"http://{self._listen}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    async def terminate(self) -> int:
        """Send a SIGTERM; return the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            return await self._process.wait()


async def watch_a_website_come_and_go(
    server: ClusterServer, folder: Path, rights: Iterable[dict[str, Any]] | None = None
) -> None:
    """All that the operator does in its life, with the rights of its service account and no others."""
    await apply_manifests(server, rights)
    async with (
        server.client() as client,
        SharedInformerFactory(client) as factory,
        OperatorProcess(server, folder) as operator,
    ):
        websites, directory = factory.for_resource(WEBSITES), factory.for_resource(CONFIG_MAPS)
        try:
            await wait_for(websites, "default/bookshop", lambda one: condition_is(one, "Ready", False), 40)
            await _make_available(client)
            await wait_for(websites, "default/bookshop", lambda one: condition_is(one, "Ready"), 20)
            await until(operator.is_ready, 20)
            hosts = await wait_for(directory, f"{NAMESPACE}/websites", lambda one: one is not None, 20)
            assert hosts is not None
            assert hosts["data"] == {"default.bookshop": "books.example.com"}
            await client.request("DELETE", GroupVersionResource.parse(WEBSITES).path("default", "bookshop"))
            await wait_for(websites, "default/bookshop", is_deleted(), 20)
        except TimeoutError as error:
            raise AssertionError(operator.log) from error
        assert await operator.terminate() == 0, operator.log
        assert not re.search("403 Forbidden|is forbidden: User|Traceback|ERROR", operator.log), operator.log
        lease = await client.request("GET", LEASE)
        assert not lease["spec"].get("holderIdentity")


async def _make_available(client: Client) -> None:
    path = GroupVersionResource.parse(DEPLOYMENTS).path("default", "bookshop")
    generation = (await client.request("GET", path))["metadata"]["generation"]
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)
    await client.request("PATCH", f"{path}/status", body={"status": {"observedGeneration": generation, **counts}})


def rules() -> list[tuple[str, str, str]]:
    """Return the rights of rbac.yaml as rules of the embedded server, which have no names and no namespaces."""
    versions = {"": "v1", "apps": "apps/v1", "example.com": "example.com/v1", "events.k8s.io": "events.k8s.io/v1"}
    versions["coordination.k8s.io"] = "coordination.k8s.io/v1"
    roles = [one for one in documents(MANIFESTS / RIGHTS) if one["kind"] in ("Role", "ClusterRole")]
    if not roles:
        raise ConfigError(f"{RIGHTS} gives no rights")
    return [
        (ACCOUNT, verb, f"{versions[group]}/{resource}")
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
