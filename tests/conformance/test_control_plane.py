"""The promises of ControlPlane, on real binaries."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from kinformer import KinformerError
from kinformer.testing import ControlPlane
from tests.conformance.api import COLLECTIONS, WIDGETS, manifest, read_configmaps
from tests.conformance.conftest import OpenApi, StartControlPlane

CONFIGMAPS = COLLECTIONS["v1/configmaps"]
REPOSITORY = Path(__file__).parents[2]


def alive(pid: int) -> bool:
    """Whether a process runs: one whose threads have all ended is not alive, also if nobody has reaped it yet."""
    try:
        threads = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):
        return pid in {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    return any(thread.rpartition(")")[2].split()[0] != "Z" for thread in threads)


async def all_gone(pids: list[int], within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not any(map(alive, pids)):
            return True
        await asyncio.sleep(0.01)
    return False


def pids_of(folder: Path) -> list[int]:
    """The processes that have a folder in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if str(folder).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # it ended while we looked
    return [pid for pid in found if pid != os.getpid()]


async def test_it_is_ready_within_seconds_and_kubectl_can_use_its_kubeconfig(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    start = time.monotonic()
    control_plane = await start_control_plane()
    assert time.monotonic() - start < 15  # 3 s on two idle cores
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig")
    assert kubeconfig.stat().st_mode & 0o077 == 0
    kubectl = control_plane.assets.kubectl or shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl beside the binaries or on the PATH")
    process = await asyncio.create_subprocess_exec(
        kubectl, f"--kubeconfig={kubeconfig}", "get", "namespaces", "-o", "name", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert "namespace/default" in output.decode().split()


async def test_its_certificate_is_verified_by_its_own_ca_and_by_nothing_else(
    start_control_plane: StartControlPlane,
) -> None:
    control_plane = await start_control_plane()
    strict = ssl.create_default_context(cafile=control_plane.ca_file)
    strict.verify_flags |= ssl.VERIFY_X509_STRICT  # what Python 3.13 does by default
    async with aiohttp.ClientSession(control_plane.url) as session:
        async with session.get("/version", ssl=strict) as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get("/version")


async def test_a_user_may_do_what_rbac_gives_and_nothing_before(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    control_plane = await start_control_plane(users=["alice", "bob, the builder"])
    administrator = await open_api(control_plane)
    alice, bob = await open_api(control_plane, "alice"), await open_api(control_plane, "bob, the builder")
    status, answer = await alice.call("GET", CONFIGMAPS)
    assert (status, answer["reason"]) == (403, "Forbidden")
    for kind, body in read_configmaps("alice").items():
        await administrator.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/default/{kind}", body)
    async with asyncio.timeout(10):  # the authorizer follows with an informer of its own
        while True:
            status, _ = await alice.call("GET", CONFIGMAPS)
            if status == 200:
                break
            await asyncio.sleep(0.02)
    assert (await bob.call("GET", CONFIGMAPS))[0] == 403


async def test_tokens_can_be_chosen(start_control_plane: StartControlPlane) -> None:
    control_plane = await start_control_plane(users={"open-sesame": "alice"})
    assert control_plane.token("alice") == "open-sesame"
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer open-sesame"}) as session:
        context = ssl.create_default_context(cafile=control_plane.ca_file)
        async with session.get(f"{control_plane.url}{CONFIGMAPS}", ssl=context) as response:
            assert response.status == 403  # known, and allowed nothing; an unknown token is a 401


async def test_url_and_data_survive_a_restart_and_a_kill(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    control_plane = await start_control_plane()
    api = await open_api(control_plane)
    url = control_plane.url
    created = await api.create(CONFIGMAPS, manifest("v1/configmaps", "kept", "1"))
    await control_plane.restart()
    assert await api.list(f"{CONFIGMAPS}/kept") == created
    await control_plane.stop_api_server(kill=True)
    with pytest.raises(aiohttp.ClientConnectorError):
        await api.first_event(CONFIGMAPS, "0")
    await control_plane.stop_api_server()  # once more is nothing
    await control_plane.start_api_server()
    assert await api.list(f"{CONFIGMAPS}/kept") == created
    assert control_plane.url == url
    with pytest.raises(RuntimeError, match="already running"):
        await control_plane.start_api_server()


async def test_an_orderly_stop_ends_open_watches_and_does_not_wait_for_them(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    control_plane = await start_control_plane()
    api = await open_api(control_plane)
    version = (await api.list(CONFIGMAPS))["metadata"]["resourceVersion"]
    watch = asyncio.create_task(api.first_event(f"{CONFIGMAPS}?labelSelector=none", version))
    await asyncio.sleep(0.05)
    start = time.monotonic()
    await control_plane.stop_api_server()
    assert await watch == {"type": "EOF"}
    assert time.monotonic() - start < 8


async def test_a_compacted_revision_is_gone_for_a_watch(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    control_plane = await start_control_plane(api_server_flags=["--watch-cache=false"])
    api = await open_api(control_plane)
    old = (await api.create(CONFIGMAPS, manifest("v1/configmaps", "a", "1")))["metadata"]["resourceVersion"]
    await api.merge(f"{CONFIGMAPS}/a", {"data": {"value": "2"}})
    await api.merge(f"{CONFIGMAPS}/a", {"data": {"value": "3"}})
    assert (await api.first_event(CONFIGMAPS, old))["type"] == "MODIFIED"
    revision = await control_plane.compact()
    assert revision > int(old) + 1  # the revision that was compacted at is itself still there
    answer = await api.first_event(CONFIGMAPS, old)
    assert (answer["type"], answer["object"]["code"], answer["object"]["reason"]) == ("ERROR", 410, "Expired")
    await control_plane.compact()  # with nothing new in between


async def test_a_restart_makes_an_older_revision_gone_for_the_watch_cache(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    control_plane = await start_control_plane()
    api = await open_api(control_plane)
    old = (await api.create(CONFIGMAPS, manifest("v1/configmaps", "a", "1")))["metadata"]["resourceVersion"]
    await api.merge(f"{CONFIGMAPS}/a", {"data": {"value": "2"}})
    await control_plane.compact()
    assert (await api.first_event(CONFIGMAPS, old))["type"] == "MODIFIED"  # the watch cache remembers
    await control_plane.restart()
    assert (await api.first_event(CONFIGMAPS, old))["object"]["code"] == 410


async def test_crds_from_a_folder_are_served_when_install_crds_returns_and_can_be_replaced(
    start_control_plane: StartControlPlane, open_api: OpenApi, tmp_path: Path
) -> None:
    text = yaml.safe_dump(WIDGETS)
    gadgets: dict[str, Any] = yaml.safe_load(text.replace("widget", "gadget").replace("Widget", "Gadget"))
    (tmp_path / "both.yaml").write_text(yaml.safe_dump_all([{"kind": "Kustomization"}, WIDGETS, gadgets]))
    control_plane = await start_control_plane()
    api = await open_api(control_plane)
    await control_plane.install_crds(tmp_path)
    await api.create(COLLECTIONS["example.com/v1/widgets"], manifest("example.com/v1/widgets", "w", "1"))
    assert (await api.list("/apis/example.com/v1/gadgets"))["items"] == []
    gadgets["spec"]["versions"].append({**gadgets["spec"]["versions"][0], "name": "v2", "storage": False})
    await control_plane.install_crds(gadgets)
    assert (await api.list("/apis/example.com/v2/gadgets"))["kind"] == "GadgetList"


async def test_leaving_ends_both_processes_and_removes_the_files(assets: Path) -> None:
    async with ControlPlane(assets) as control_plane:
        folder = control_plane.folder
        pids = pids_of(folder)
        assert len(pids) == 2
    assert not any(map(alive, pids))
    assert not folder.exists()


async def test_an_exception_inside_keeps_the_files_but_no_process(
    assets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control_plane = ControlPlane(assets)

    async def fail_inside() -> None:
        async with control_plane:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()
    folder = control_plane.folder
    try:
        assert (folder / "kube-apiserver.log").stat().st_size > 0
        assert str(folder) in caplog.text
        assert pids_of(folder) == []
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("after", [0.0, 0.3, 1.0])
async def test_a_start_that_is_cancelled_leaves_no_process(assets: Path, tmp_path: Path, after: float) -> None:
    control_plane = ControlPlane(assets, data_dir=tmp_path / "data")
    starting = asyncio.create_task(control_plane.__aenter__())
    await asyncio.sleep(after)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert pids_of(tmp_path / "data") == []


async def test_a_flag_that_the_server_refuses_is_an_error_with_the_end_of_its_log(assets: Path, tmp_path: Path) -> None:
    with pytest.raises(KinformerError, match=r"unknown flag: --no-such-flag"):
        async with ControlPlane(assets, api_server_flags=["--no-such-flag=1"], data_dir=tmp_path / "data"):
            pytest.fail("it started")
    assert pids_of(tmp_path / "data") == []


async def test_a_server_that_died_by_itself_is_reported_on_leaving(assets: Path, tmp_path: Path) -> None:
    control_plane = await ControlPlane(assets, data_dir=tmp_path / "data").__aenter__()
    api_server = max(pids_of(control_plane.folder))
    os.kill(api_server, signal.SIGKILL)
    assert await all_gone([api_server])
    with pytest.raises(KinformerError, match=r"kube-apiserver exited unexpectedly \(exit status -9\)"):
        await control_plane.__aexit__(None, None, None)


async def test_a_data_dir_can_be_started_from_again(
    start_control_plane: StartControlPlane, open_api: OpenApi, assets: Path, tmp_path: Path
) -> None:
    async with ControlPlane(assets, data_dir=tmp_path / "data") as first:
        api = await open_api(first)
        created = await api.create(CONFIGMAPS, manifest("v1/configmaps", "kept", "1"))
    second = await start_control_plane(data_dir=tmp_path / "data")
    assert await (await open_api(second)).list(f"{CONFIGMAPS}/kept") == created


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a child to its parent")
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit()"])
async def test_no_process_outlives_a_program_that_is_killed_or_forgets_to_leave(
    assets: Path, tmp_path: Path, end: str
) -> None:
    program = f"""
import asyncio, os, signal, sys
from kinformer.testing import ControlPlane

async def main():
    await ControlPlane({str(assets)!r}, data_dir={str(tmp_path / "data")!r}).__aenter__()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    {end}

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=REPOSITORY, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    assert process.stdin
    assert await process.stdout.readline() == b"ready\n"
    pids = pids_of(tmp_path / "data")
    assert len([pid for pid in pids if pid != process.pid]) == 2
    process.stdin.write(b"\n")
    await process.stdin.drain()
    process.stdin.close()
    await process.wait()
    assert await all_gone(pids)


async def test_either_part_can_be_killed_and_started_again_with_its_data(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    control_plane = await start_control_plane()
    api = await open_api(control_plane)
    created = await api.create(CONFIGMAPS, manifest("v1/configmaps", "kept", "1"))
    await control_plane.stop_etcd(kill=True)
    await control_plane.start_etcd()
    assert await api.list(f"{CONFIGMAPS}/kept") == created  # the API server finds it again by itself
    await control_plane.stop_api_server(kill=True)
    await control_plane.stop_etcd()
    await control_plane.stop_etcd()  # once more is nothing
    await control_plane.ensure_running()
    await control_plane.ensure_running()  # and so is this
    assert await api.list(f"{CONFIGMAPS}/kept") == created
    with pytest.raises(RuntimeError, match="etcd is already running"):
        await control_plane.start_etcd()
