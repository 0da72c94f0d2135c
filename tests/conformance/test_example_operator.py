"""The operator in examples/ on a real kube-apiserver: its own tests, and its life with the rights that it is given."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
import yaml

from kinformer.testing import ControlPlane
from tests.support.cli import CommandLine
from tests.support.operator_process import ACCOUNT, FOLDER, MANIFESTS, NAMESPACE, watch_a_website_come_and_go
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


async def test_so_are_the_rights_that_doctor_has_written(
    assets: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = ("--apply", str(MANIFESTS / "10-crd.yaml"), "--apply", str(FOLDER / "website.yaml"))
    ended = await CommandLine(capfd)(
        *("doctor", "-n", NAMESPACE, "--manifest", str(FOLDER / "website_operator.py")), *files
    )
    assert ended.status == 0, ended.err
    async with ControlPlane(assets, users=[ACCOUNT]) as control_plane:
        await watch_a_website_come_and_go(control_plane, tmp_path, yaml.safe_load_all(ended.out))
