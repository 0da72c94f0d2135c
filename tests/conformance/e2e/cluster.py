"""An API server with the rest of a control plane beside it: controllers, a scheduler, and nodes that kwok plays.

Internals: the child processes and credentials of ControlPlane, for the rest of a control plane.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from kinformer import Client
from kinformer.testing import ControlPlane
from kinformer.testing.clusters.processes import ChildProcess, free_ports
from kinformer.testing.logins import new_private_key, write_secret
from tests.support.waiting import until

__all__ = ["EMBEDDED", "REAL", "running_cluster"]

EMBEDDED, REAL = "embedded", "control-plane"
STAGES = Path(__file__).with_name("stages.yaml")
NODES = 3
START = 60.0  # seconds until a server answers and its nodes are ready; a few on idle cores
STOP = 10.0
_SYNCS = ("--concurrent-gc-syncs=20", "--concurrent-namespace-syncs=10")
_RATE = ("--kube-api-qps=200", "--kube-api-burst=400")


@asynccontextmanager
async def running_cluster(server: str, binaries: Path, folder: Path) -> AsyncIterator[Path]:
    """Run a cluster until the block is left, and give its kubeconfig.

    Args:
        server: `EMBEDDED` or `REAL`.
        binaries: The folder that `build_assets.py --e2e` fills.
        folder: Where logs, certificates and the kubeconfig go.

    Raises:
        ProcessError: A program ended by itself.
        TimeoutError: The nodes are not ready in time.
    """
    kubeconfig = folder / "kubeconfig"
    async with AsyncExitStack() as stack:
        if server == REAL:
            control_plane = await stack.enter_async_context(ControlPlane(binaries, data_dir=folder / "control-plane"))
            control_plane.kubeconfig(kubeconfig)
            key = control_plane.folder / "service-account.key"
        else:
            key = folder / "service-account.key"
            write_secret(key, new_private_key())
            await stack.enter_async_context(_process("embedded", _serve(kubeconfig), folder))
            await _until_written(kubeconfig)
        authority = await asyncio.to_thread(_write_authority, kubeconfig, folder / "ca.crt")
        for name, argv in _programs(binaries, folder, kubeconfig, key, authority).items():
            await stack.enter_async_context(_process(name, argv, folder))
        async with Client.from_kubeconfig(kubeconfig) as client:
            await _make_nodes(client)
        yield kubeconfig


def _serve(kubeconfig: Path) -> list[str]:
    return [sys.executable, "-m", "kinformer.cli", "serve", "--tls", "--port=0", f"--write-kubeconfig={kubeconfig}"]


def _programs(binaries: Path, folder: Path, kubeconfig: Path, key: Path, authority: Path) -> Mapping[str, list[str]]:
    controllers_port, scheduler_port, kwok_port = free_ports(3)
    login = f"--kubeconfig={kubeconfig}"
    return {
        "kube-controller-manager": [
            str(binaries / "kube-controller-manager"),
            login,
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={controllers_port}",
            f"--cert-dir={folder / 'controllers'}",
            f"--root-ca-file={authority}",
            f"--service-account-private-key-file={key}",
            *_SYNCS,
            *_RATE,
        ],
        "kube-scheduler": [
            str(binaries / "kube-scheduler"),
            login,
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={scheduler_port}",
            f"--cert-dir={folder / 'scheduler'}",
        ],
        "kwok": [
            str(binaries / "kwok"),
            login,
            f"--config={STAGES}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{kwok_port}",
        ],
    }


@asynccontextmanager
async def _process(name: str, argv: list[str], folder: Path) -> AsyncIterator[ChildProcess]:
    child = ChildProcess(name, argv, folder / f"{name}.log")
    child.start()
    try:
        yield child
        if not child.running:
            raise child.failure("ended by itself")
    finally:
        await child.stop(STOP)


async def _until_written(kubeconfig: Path) -> None:
    """Wait until the server has written its kubeconfig: it listens by then."""
    await until(lambda: asyncio.to_thread(_is_written, kubeconfig), START)


def _is_written(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def _write_authority(kubeconfig: Path, target: Path) -> Path:
    """Write the certificate of the server's authority to a file of its own."""

    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    target.write_bytes(base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]))
    return target


async def _make_nodes(client: Client) -> None:
    """Create the nodes, and wait until kwok has made them ready."""
    for number in range(NODES):
        await client.request("POST", "/api/v1/nodes", body=_node(f"node-{number}"))
    await until(
        lambda: client.request("GET", "/api/v1/nodes"), START, holds=lambda nodes: all(map(_is_ready, nodes["items"]))
    )


def _node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "type": "kwok",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not node["spec"].get("taints")
