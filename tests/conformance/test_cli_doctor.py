"""`kinformer doctor` on a real API server: with TLS, with RBAC, and with what it advises applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kinformer.testing import ControlPlane
from tests.conformance.conftest import new_namespace
from tests.support.cli import CommandLine, Ended


def steps(ended: Ended) -> dict[str, dict[str, Any]]:
    return {step["step"]: step for step in json.loads(ended.out)["steps"]}


async def test_the_role_that_is_advised_is_the_one_that_was_missing(
    shared_control_plane: ControlPlane, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    namespace = await new_namespace(shared_control_plane)
    path = tmp_path / "config"
    shared_control_plane.kubeconfig(path, user="bob")
    config = yaml.safe_load(path.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    path.write_text(yaml.safe_dump(config))
    kinformer = CommandLine(capsys)
    command = ("doctor", "deploy", "--kubeconfig", str(path), "-o", "json")

    denied = await kinformer(*command, "-n", namespace)
    assert denied.status == 7
    (advice,) = steps(denied)["rights"]["advice"]
    async with shared_control_plane.client() as client:
        for document in yaml.safe_load_all(advice.partition("\n")[2]):
            plural = f"{document['kind'].lower()}s"
            where = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{plural}"
            await client.request("POST", where, body=document)

    allowed = await kinformer(*command, "-n", namespace)
    assert allowed.status == 0, allowed.out
    found = steps(allowed)
    assert "verified by the kubeconfig's authority" in found["server"]["text"]
    assert found["authentication"]["data"]["user"] == "bob"
    assert found["watch list"]["data"]["supported"] is True
    assert found["shards"]["data"]["supported"] is False

    everywhere = await kinformer(*command)
    assert everywhere.status == 7
    assert steps(everywhere)["rights"]["advice"][0].startswith(f"in namespace {namespace} you may")


async def test_what_is_counted_and_measured_is_what_there_is(
    shared_control_plane: ControlPlane, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    namespace = await new_namespace(shared_control_plane)
    path = tmp_path / "config"
    shared_control_plane.kubeconfig(path)
    async with shared_control_plane.client() as client:
        for number in range(510):
            metadata = {"name": f"cm-{number}", "labels": {"app": "web"}}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * 1000}}
            await client.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body=body)
    kinformer = CommandLine(capsys)
    options = ("-n", namespace, "--kubeconfig", str(path), "-o", "json")
    for selector in ((), ("-l", "app=web")):
        found = steps(await kinformer("doctor", "cm", *selector, *options))
        assert found["list"]["data"]["total"] == 510
        stats = await kinformer("stats", "cm", *selector, "--once", "--interval", "0.1", *options)
        (informer,) = json.loads(stats.out)["informers"]
        assert found["informer"]["data"]["memory"] == pytest.approx(informer["memory"], rel=0.05)
