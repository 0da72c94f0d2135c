"""The sidecar in examples/config_sidecar: files as the ConfigMaps are, and a hook after each change."""

from __future__ import annotations

import asyncio
import base64
import sys
import threading
import time
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from kinformer import KubeObject
from kinformer.testing import APIServer
from tests.examples.example_program import ExampleProgram, example_program, imported
from tests.support.kube import config_map, entry
from tests.support.waiting import until

LABELS = {"dashboards": "yes"}


@pytest.fixture
def sidecar(monkeypatch: pytest.MonkeyPatch) -> Any:
    return imported("config_sidecar/sidecar.py", monkeypatch)


def files(folder: Path) -> dict[str, str]:
    """The files below a folder, with what is in them; without one that is being written or removed."""
    found = {}
    for path in folder.rglob("[!.]*"):
        with suppress(FileNotFoundError, IsADirectoryError):
            found[str(path.relative_to(folder))] = path.read_text()
    return found


def calls(folder: Path) -> int:
    """How often the hook has been called."""
    log = folder / "hooks"
    return len(log.read_text().splitlines()) if log.exists() else 0


def running(
    server: APIServer, folder: Path, *, hook: str = "", user: str | None = None
) -> AbstractAsyncContextManager[ExampleProgram]:
    note = folder / "hook.py"
    note.write_text(hook or f"open({str(folder / 'hooks')!r}, 'a').write('called\\n')")
    arguments = ("--selector", "dashboards=yes", "--folder", str(folder / "out"), "--hook", f"{sys.executable} {note}")
    return example_program("config_sidecar/sidecar.py", *arguments, server=server, folder=folder, user=user)


@pytest.mark.process
async def test_the_files_are_as_the_config_maps_are_and_a_burst_calls_the_hook_once(
    server: APIServer, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (out / "default" / "gone").mkdir(parents=True)
    (out / "default" / "gone" / "a.json").write_text("of an earlier run")
    server.create(config_map("web", data={"a.json": "1", "b.json": "2"}, labels=LABELS))
    server.create(config_map("other", data={"a.json": "1"}))
    async with running(server, tmp_path) as program:
        await until(lambda: calls(tmp_path) == 1)
        assert files(out) == {"default/web/a.json": "1", "default/web/b.json": "2"}

        server.update(config_map("web", data={"a.json": "changed"}, labels=LABELS))
        await until(lambda: calls(tmp_path) == 2)
        assert files(out) == {"default/web/a.json": "changed"}

        for number in range(20):
            server.create(config_map(f"more-{number}", data={"c.json": "3"}, labels=LABELS))
            await asyncio.sleep(0.01)
        await until(lambda: len(files(out)) == 21)
        await until(lambda: calls(tmp_path) == 3)

        server.update(config_map("web", data={"a.json": "changed"}, labels=LABELS, annotations={"seen": "yes"}))
        server.update(config_map("more-0", data={"c.json": "3"}))  # it has lost its label
        await until(lambda: calls(tmp_path) == 4)
        assert len(files(out)) == 20

        assert await program.terminate() == 0
        assert "Traceback" not in program.log
        assert calls(tmp_path) == 4


@pytest.mark.process
async def test_a_config_map_that_is_deleted_while_the_server_is_away_leaves_no_file(
    server: APIServer, tmp_path: Path
) -> None:
    server.create(config_map("web", data={"a.json": "1"}, labels=LABELS))
    server.create(config_map("api", data={"a.json": "1"}, labels=LABELS))
    async with running(server, tmp_path) as program:
        await until(lambda: calls(tmp_path) == 1)
        away = asyncio.create_task(server.restart(0.5))
        await asyncio.sleep(0.1)
        server.delete("v1/configmaps", "default", "web")
        server.create(config_map("new", data={"a.json": "1"}, labels=LABELS))
        await server.compact()  # so that no watch can go on from where the last one was
        await away
        await until(lambda: files(tmp_path / "out").keys() == {"default/api/a.json", "default/new/a.json"}, 20)
        assert await program.terminate() == 0


@pytest.mark.process
async def test_a_hook_that_fails_is_called_again(server: APIServer, tmp_path: Path) -> None:
    log = tmp_path / "hooks"
    hook = (
        f"import sys\nlog = open({str(log)!r}, 'a+')\nlog.write('called\\n')\nlog.seek(0)\nsys.exit(len(list(log)) < 2)"
    )
    async with running(server, tmp_path, hook=hook) as program:
        await until(lambda: calls(tmp_path) == 2)
        assert await program.terminate() == 0
        assert "has failed with status 1, again in 1 s" in program.log


@pytest.mark.process
async def test_without_the_right_to_follow_them_it_ends_with_the_servers_words(tmp_path: Path) -> None:
    async with (
        APIServer(users={"t0ken": "reader"}, rules=[]) as server,
        running(server, tmp_path, user="reader") as program,
    ):
        assert await program.ended() != 0
        assert 'User "reader" cannot watch resource "configmaps"' in program.log


def test_binary_data_and_text_are_files_beside_each_other(sidecar: Any, tmp_path: Path) -> None:
    both = KubeObject.from_dict(
        {**config_map("web", data={"a": "ä"}), "binaryData": {"b": base64.b64encode(b"\xff").decode()}}
    )
    assert sidecar.mirror([both], tmp_path) is True
    assert (tmp_path / "default/web/a").read_bytes() == "ä".encode()
    assert (tmp_path / "default/web/b").read_bytes() == b"\xff"
    assert sidecar.mirror([both], tmp_path) is False


def test_two_of_one_name_in_two_namespaces_do_not_meet(sidecar: Any, tmp_path: Path) -> None:
    sidecar.mirror([entry("web", namespace=name, data={"a": name}) for name in ("east", "west")], tmp_path)
    assert files(tmp_path) == {"east/web/a": "east", "west/web/a": "west"}


def test_changes_without_an_end_are_waited_for_only_so_long(sidecar: Any) -> None:
    changes, stop = sidecar.Changes(), threading.Event()

    def change() -> None:
        while not stop.wait(0.01):
            changes.on_delete(entry("web"))

    thread = threading.Thread(target=change)
    thread.start()
    began = time.monotonic()
    changes.wait(quiet=5, longest=0.3)
    stop.set()
    thread.join()
    assert 0.3 <= time.monotonic() - began < 5
