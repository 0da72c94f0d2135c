"""The operator in examples/: its own tests, as its author runs them, and what its manifests say."""

from __future__ import annotations

import asyncio
import re
import shutil
from inspect import signature
from pathlib import Path

import pytest

from kinformer import Manager
from kinformer.testing import APIServer
from tests.support.manifests import documents
from tests.support.operator_process import (
    ACCOUNT,
    FOLDER,
    MANIFESTS,
    RIGHTS,
    OperatorProcess,
    apply_manifests,
    rules,
    watch_a_website_come_and_go,
)
from tests.support.plugin_run import PluginRun
from tests.support.waiting import until

pytestmark = pytest.mark.process

pytest_plugins = ["pytester"]


async def test_its_own_tests_pass_on_the_embedded_server(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = PluginRun(pytester, monkeypatch)
    shutil.copytree(FOLDER, run.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    result = await asyncio.to_thread(run, "-p", "asyncio", "-c", "pytest.ini")
    result.assert_outcomes(passed=14)


async def test_the_rights_in_its_manifests_are_all_that_it_needs_and_sigterm_ends_it_in_order(tmp_path: Path) -> None:
    async with APIServer(users={"t0ken": ACCOUNT}, rules=rules()) as server:
        await watch_a_website_come_and_go(server, tmp_path)
        refused = [one for one in server.requests if one.user == ACCOUNT and one.status == 403]
        assert refused == []
        # Every right that it has to write with, it has used; a series of events takes longer than this.
        used = {
            (one.method, re.sub(r"/namespaces/[^/]+", "", one.path)) for one in server.requests if one.user == ACCOUNT
        }
        for method, path in (
            ("PATCH", "/apis/example.com/v1/websites/bookshop"),
            ("PATCH", "/apis/example.com/v1/websites/bookshop/status"),
            ("PATCH", "/apis/apps/v1/deployments/bookshop"),
            ("POST", "/api/v1/configmaps"),
            ("POST", "/apis/events.k8s.io/v1/events"),
            ("POST", "/apis/coordination.k8s.io/v1/leases"),
            ("PUT", "/apis/coordination.k8s.io/v1/leases/website-operator"),
        ):
            assert (method, path) in used


async def test_without_one_of_these_rights_the_operator_says_which_one_it_lacks(tmp_path: Path) -> None:
    missing = (ACCOUNT, "patch", "example.com/v1/websites/status")
    assert missing in rules()
    async with APIServer(users={"t0ken": ACCOUNT}, rules=[one for one in rules() if one != missing]) as server:
        await apply_manifests(server)
        async with OperatorProcess(server, tmp_path) as operator:
            await until(lambda: re.search('cannot patch resource "websites/status"', operator.log), 40)


def test_its_deployment_waits_for_it_to_end_and_runs_it_as_who_the_rights_are_for() -> None:
    deployment, _ = documents(MANIFESTS / "30-deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > signature(Manager).parameters["shutdown_timeout"].default
    namespace = deployment["metadata"]["namespace"]
    assert f"system:serviceaccount:{namespace}:{pod['serviceAccountName']}" == ACCOUNT
    bindings = [one for one in documents(MANIFESTS / RIGHTS) if one["kind"].endswith("Binding")]
    assert len(bindings) == 2
    for binding in bindings:
        [subject] = binding["subjects"]
        assert f"system:serviceaccount:{subject['namespace']}:{subject['name']}" == ACCOUNT
    [container] = pod["containers"]
    assert container["image"] in (FOLDER / "Containerfile").read_text()
    [port] = container["ports"]
    assert f'"LISTEN", ":{port["containerPort"]}"' in (FOLDER / "website_operator.py").read_text()
