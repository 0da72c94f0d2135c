"""Backends of a real Service, whose EndpointSlices the controller of Kubernetes writes while pods come and go."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from kinformer import Client, KubeObject, NotFoundError, SharedInformerFactory
from kinformer.contrib.backends import Backends
from tests.conformance.e2e.cluster import REAL, running_cluster
from tests.contrib.test_backends_under_churn import Watcher, in_background, ready_in_slices, ready_pods
from tests.support.forwarder import Forwarder
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.process]

LABELS = {"app": "web"}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": LABELS, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 20,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {
                "containers": [{"name": "web", "image": "web", "ports": [{"name": "http", "containerPort": 8080}]}],
                "terminationGracePeriodSeconds": 1,
            },
        },
    },
}


class Addresses:
    """Gives each running pod an address, which kwok's stages of the project do not."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._numbers = itertools.count(1)

    async def on_add(self, pod: KubeObject) -> None:
        if pod.path("status.phase") != "Running" or pod.path("status.podIP"):
            return
        number = next(self._numbers)
        address = f"10.1.{number // 250}.{number % 250 + 1}"
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        with suppress(NotFoundError):
            await self._client.patch("v1/pods", pod.key, {"status": status}, subresource="status")

    async def on_update(self, old: KubeObject, new: KubeObject) -> None:
        await self.on_add(new)


async def churn(client: Client, chance: random.Random, seconds: float) -> None:
    """Scale the Deployment, delete pods, and take the readiness of others away."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(chance.uniform(0, 0.3))
        pods = [pod async for pod in client.list("v1/pods", namespace="default", label_selector=LABELS)]
        what = chance.randrange(4)
        with suppress(NotFoundError):
            if what == 0:
                replicas = {"spec": {"replicas": chance.randint(5, 40)}}
                await client.patch("apps/v1/deployments", "default/web", replicas)
            elif what == 1 and pods:
                await client.delete("v1/pods", chance.choice(pods).key)
            elif pods:
                ready = {"type": "Ready", "status": chance.choice(["True", "False"])}
                status = {"status": {"conditions": [ready]}}
                await client.patch("v1/pods", chance.choice(pods).key, status, type="strategic", subresource="status")


async def cut_now_and_then(network: Forwarder, chance: random.Random) -> None:
    while True:
        await asyncio.sleep(chance.uniform(1, 3))
        await network.cut()
        await asyncio.sleep(chance.uniform(0, 0.5))
        await network.restore()


def behind(network: Forwarder, kubeconfig: Path) -> Path:
    """Write a kubeconfig that reaches the server through a forwarder."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"]["server"] = network.url
    target = kubeconfig.with_name("behind")
    target.write_text(yaml.safe_dump(config), encoding="utf-8")
    return target


async def test_no_snapshot_is_behind_the_cache_of_a_real_service(assets: Path, tmp_path: Path) -> None:
    for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
        if not (assets / name).exists():
            pytest.skip(f"{name} is not built: python tests/conformance/build_assets.py --e2e")
    chance = random.Random(1)
    async with running_cluster(REAL, assets, tmp_path) as kubeconfig, Client.from_kubeconfig(kubeconfig) as client:
        url = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        async with (
            Forwarder(url) as network,
            Client.from_kubeconfig(await asyncio.to_thread(behind, network, kubeconfig)) as cut_off,
            SharedInformerFactory(client) as kubelet,
            SharedInformerFactory(cut_off) as factory,
        ):
            kubelet.for_resource("v1/pods", namespace="default").add_event_handler(Addresses(client))
            await client.create(SERVICE)
            await client.create(DEPLOYMENT)
            async with (
                Backends(factory, service="default/web", port="http") as of_service,
                Backends(factory, selector=LABELS, namespace="default", port="http") as of_pods,
            ):
                await until(lambda: len(of_service.snapshot()) == len(of_pods.snapshot()) == 20, 60)
                slices, pods = factory.informers
                watchers = [Watcher(of_service, slices, ready_in_slices), Watcher(of_pods, pods, ready_pods)]
                async with in_background(watchers[0].run()), in_background(watchers[1].run()):
                    async with in_background(cut_now_and_then(network, chance)):
                        await churn(client, chance, 15)
                    await network.restore()

                    def differs() -> Any:
                        found = [{backend.key for backend in pool.snapshot()} for pool in (of_service, of_pods)]
                        return not (of_service.health().live and of_pods.health().live) or found[0] ^ found[1]

                    await until(differs, 60, holds=lambda answer: not answer)
                assert [watcher.wrong for watcher in watchers] == [[], []]
                assert all(watcher.not_live for watcher in watchers)
