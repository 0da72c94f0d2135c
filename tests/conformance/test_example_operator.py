"""The operator in examples/ on a real kube-apiserver: its own tests, and its life with just the rights of rbac.yaml."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from kinformer.testing import ControlPlane
from tests.support.operator_process import ACCOUNT, FOLDER, watch_a_website_come_and_go
from tests.support.plugin_run import PluginRun

pytest_plugins = ["pytester"]


async def test_its_own_tests_pass_on_a_control_plane(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, assets: Path
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    run = PluginRun(pytester, monkeypatch)
    shutil.copytree(FOLDER, run.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    result = await asyncio.to_thread(run, "-p", "asyncio", "-c", "pytest.ini", "--kube-apiserver=control-plane")
    result.assert_outcomes(passed=12, skipped=2)


async def test_the_rights_in_its_manifests_are_all_that_it_needs(assets: Path, tmp_path: Path) -> None:
    async with ControlPlane(assets, users=[ACCOUNT]) as control_plane:
        await watch_a_website_come_and_go(control_plane, tmp_path)
