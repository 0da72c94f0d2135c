"""Informers of other languages follow a proxy: client-go's and kube-rs's, as the benchmarks measure them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from benchmarks.clients import PROGRAMS
from tests.conformance.conftest import StartControlPlane
from tests.conformance.test_objects import configmap
from tests.support.metrics_sink import MemoryMetrics
from tests.watchcache.proxy.conftest import proxying

EVENTS, WARM = 50, 20  # the programs count the first ones as warming up
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[ModuleType, Path | None]:
    folder = tmp_path_factory.mktemp("elsewhere")
    return {module: module.build(folder) for module in PROGRAMS.values()}


@pytest.mark.timeout(1200)  # the first builds take minutes
@pytest.mark.parametrize(
    ("how", "answered_by"), [("client-go json", "cache"), ("client-go protobuf", "server"), ("kube-rs", "cache")]
)
async def test_an_informer_has_every_event(
    built: dict[ModuleType, Path | None],
    start_control_plane: StartControlPlane,
    tmp_path: Path,
    how: str,
    answered_by: str,
) -> None:
    language = PROGRAMS[how.partition(" ")[0]]
    program = built[language]
    if program is None:
        pytest.skip("its compiler is not on the PATH")
    control_plane, metrics = await start_control_plane(), MemoryMetrics()
    async with control_plane.client() as client:
        await client.request("POST", CONFIGMAPS, body=configmap("a"))
        async with proxying(client, "v1/configmaps", metrics=metrics) as proxy:
            kubeconfig = tmp_path / "kubeconfig"
            document = yaml.safe_load(control_plane.kubeconfig(kubeconfig).read_text())
            document["clusters"][0]["cluster"] = {"server": proxy.url}
            kubeconfig.write_text(yaml.safe_dump(document))
            command = [str(program), *language.arguments("follow", how, "configmaps", kubeconfig, EVENTS)]
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            try:
                assert process.stdout is not None
                assert await asyncio.wait_for(process.stdout.readline(), 30) == b"ready\n"
                for number in range(WARM + EVENTS):
                    body = {"data": {"number": str(number)}}
                    await client.request("PATCH", f"{CONFIGMAPS}/a", body=body)
                output, _ = await asyncio.wait_for(process.communicate(), 30)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
    assert process.returncode == 0
    assert json.loads(output)["us"] > 0  # it prints this after its last event
    assert metrics.values(source=answered_by, method="GET")["kinformer_proxy_requests_total"] >= 1
