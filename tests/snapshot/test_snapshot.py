"""snapshot=path: a restart goes on from what the last life knew, if that is still true; a doubt means a list.

Internals: the check of a snapshot, whose seconds an informer does not show; packed objects; an error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kinformer import Backoff, ConfigError, KubeObject, ListOptions, SharedInformer, Snapshot
from kinformer._runtime.chunks import ChunkedList
from kinformer.exceptions import ConnectError, api_error
from kinformer.objects.packed import PackedObject
from kinformer.reflector.options import Resumption
from kinformer.snapshot.check import SnapshotCheck
from kinformer.snapshot.format import SnapshotRefusedError
from tests.support.held import label_set
from tests.support.log_records import Said, message_of, said
from tests.support.memory_source import MemorySource
from tests.support.resumable_source import ResumableSource, filled, read_file
from tests.support.waiting import until


class Replica:
    """What a handler knows, and the calls that it got."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.calls: list[tuple[str, str]] = []

    async def on_add(self, obj: Any, *, is_in_initial_list: bool) -> None:
        assert obj.key not in self.versions
        self.versions[obj.key] = obj.resource_version
        self.calls.append(("initial" if is_in_initial_list else "add", obj.name))

    async def on_update(self, old: Any, new: Any) -> None:
        assert self.versions[new.key] == old.resource_version
        self.versions[new.key] = new.resource_version
        self.calls.append(("update", new.name))

    async def on_delete(self, obj: Any) -> None:
        del self.versions[obj.key]
        self.calls.append(("delete", obj.name))


def on_server(source: MemorySource) -> dict[str, str]:
    return {key: obj.resource_version for key, obj in source.objects.items()}


async def one_life(source: ResumableSource, snapshot: Any, **options: Any) -> Any:
    """Start, sync, catch up with the server, leave; the informer, and what its handler heard."""
    replica = Replica()
    async with SharedInformer(source, snapshot=snapshot, **options) as informer:
        registration = informer.add_event_handler(replica)
        await informer.wait_synced(10)
        await registration.wait_synced(10)
        if source.version > 1:
            await informer.wait_for_resource_version(str(source.version), timeout=10)
    assert {obj.key: obj.resource_version for obj in informer.lister} == on_server(source)
    assert replica.versions == on_server(source)
    return informer, replica


def outcomes(informer: SharedInformer) -> dict[str, int]:
    return dict(informer.statistics().snapshots)


def names(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


def damage(path: Path, how: Callable[[bytes], bytes]) -> None:
    path.write_bytes(how(path.read_bytes()))


def contents(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def open_to_all(path: Path) -> None:
    path.chmod(0o666)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "configmaps.snapshot"


# --- going on -------------------------------------------------------------------------------------------------


async def test_a_restart_makes_no_list_and_handlers_see_the_initial_adds_and_then_the_difference(path: Path) -> None:
    source = filled(40)
    informer, _ = await one_life(source, path)
    assert outcomes(informer) == {"missing": 1, "saved": 1}

    source.set("c0001", data={"v": "new"})
    source.set("new")
    source.delete("c0002")
    again = source.restarted()
    informer, replica = await one_life(again, path)
    assert not again.lists
    assert [options.send_initial_events for options in again.watches] == [None, None], "the check, and the watch"
    assert {options.resource_version for options in again.watches} == {"41"}
    assert outcomes(informer) == {"loaded": 1, "saved": 1}
    assert informer.statistics().relists == {}
    assert sorted(replica.calls[:40]) == [("initial", f"c{number:04d}") for number in range(40)]
    assert replica.calls[40:] == [("update", "c0001"), ("add", "new"), ("delete", "c0002")]


async def test_where_nothing_has_happened_since_the_snapshot_is_offered_all_the_same(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    again = source.restarted()
    informer, _ = await one_life(again, path)
    assert not again.lists
    assert outcomes(informer) == {"loaded": 1}, "and is not written again, for the file has it already"


async def test_the_32_newest_objects_are_read_back(path: Path) -> None:
    source = filled(50)
    source.set("c0003")
    await one_life(source, path)
    again = source.restarted()
    await one_life(again, path)
    assert sorted(again.asked) == sorted(["default/c0003"] + [f"default/c{number:04d}" for number in range(19, 50)])


async def test_objects_that_were_changed_deleted_or_made_anew_since_raise_no_doubt(path: Path) -> None:
    """All of the 32 that are read back: the watch explains each of them."""
    source = filled(32)
    await one_life(source, path)
    for number in range(10):
        source.set(f"c{number:04d}")
    for number in range(10, 20):
        source.delete(f"c{number:04d}")
    for number in range(20, 30):
        source.delete(f"c{number:04d}")
        source.set(f"c{number:04d}", uid=f"another-{number}")
    again = source.restarted()
    informer, replica = await one_life(again, path)
    assert not again.lists
    assert outcomes(informer) == {"loaded": 1, "saved": 1}
    assert len([call for call in replica.calls if call[0] == "delete"]) == 20


async def test_label_sets_indexes_and_selectors_are_as_after_a_list(path: Path) -> None:
    source = filled(30)
    await one_life(source, path)
    async with SharedInformer(source.restarted(), snapshot=path, indexers={"v": "data.v"}) as informer:
        await informer.wait_synced(10)
        assert len(informer.lister.list("app=a1")) == 10
        assert [obj.name for obj in informer.lister.by_index("v", "5")] == ["c0003"]
        assert len({id(label_set(obj)) for obj in informer.lister}) == 3


async def test_an_index_function_that_fails_on_an_object_of_the_snapshot_hides_no_other(path: Path) -> None:
    source = filled(5)
    await one_life(source, path)

    def poisoned(obj: Any) -> list[str]:
        if obj.name == "c0002":
            raise RuntimeError("cannot take it")
        return [obj.name]

    async with SharedInformer(source.restarted(), snapshot=path, indexers={"poisoned": poisoned}) as informer:
        await informer.wait_synced(10)
        assert len(informer.lister) == 5
        assert informer.statistics().index_errors == 1
        assert sorted(informer.lister.index_values("poisoned")) == ["c0000", "c0001", "c0003", "c0004"]
        assert outcomes(informer) == {"loaded": 1}


async def test_a_compact_cache_goes_on_compact_and_a_plain_one_may_go_on_from_it(path: Path) -> None:
    source = ResumableSource()
    for number in range(20):
        source.set(f"c{number}", data={f"key-{key}": "value" for key in range(50)})
    await one_life(source, path, compact=True)
    async with SharedInformer(source.restarted(), snapshot=path, compact=True) as informer:
        await informer.wait_synced(10)
        assert all(type(obj) is PackedObject for obj in informer.lister)
        assert outcomes(informer) == {"loaded": 1}
    informer, _ = await one_life(source.restarted(), path)
    assert outcomes(informer) == {"loaded": 1}


async def test_each_of_several_namespaces_goes_on_from_its_own_version(path: Path) -> None:
    def sources() -> dict[str, ResumableSource]:
        return {name: ResumableSource(namespace=name) for name in ("one", "two")}

    first = sources()
    first["one"].set("a", namespace="one")
    for _ in range(5):
        first["two"].set("b", namespace="two")
    async with SharedInformer(first, snapshot=path) as informer:
        await informer.wait_synced(10)
    assert dict(read_file(path)[0].resource_versions) == {"one": "2", "two": "6"}
    second = {name: source.restarted() for name, source in first.items()}
    second["two"].restored(1)
    second["two"].set("c", namespace="two")
    async with SharedInformer(second, snapshot=path) as informer:
        await informer.wait_synced(10)
        assert sorted(informer.lister.keys()) == ["one/a", "two/c"]
        assert outcomes(informer) == {"loaded": 1, "rewind": 1}
    assert not second["one"].lists


# --- doubts: each is a normal list, and says why ---------------------------------------------------------------


async def doubted(source: ResumableSource, path: Path, reason: str, **options: Any) -> None:
    """A life that starts with a snapshot that is not true makes a list, and has what the server has."""
    informer, replica = await one_life(source, path, **options)
    assert outcomes(informer)[reason] == 1
    assert "loaded" not in outcomes(informer)
    assert {what for what, _ in replica.calls} <= {"initial"}, "nobody has seen an object of the snapshot"
    assert any(options.send_initial_events for options in source.watches) or source.lists


async def test_the_first_start_has_none(path: Path) -> None:
    await doubted(filled(3), path, "missing")


async def test_a_version_that_the_server_has_forgotten(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    source.set("d")
    source.expire()
    await doubted(source.restarted(), path, "expired")


async def test_a_server_that_went_back(path: Path) -> None:
    source = filled(10)
    await one_life(source, path)
    again = source.restarted()
    again.restored(5)
    await doubted(again, path, "rewind")


async def test_a_server_that_went_back_and_has_grown_past_the_version_since(path: Path) -> None:
    """The watch would be accepted, and deliver nothing of what was lost: only the objects themselves tell."""
    source = filled(10)
    await one_life(source, path)
    again = source.restarted()
    again.restored(5)
    for number in range(20):
        again.set(f"d{number:04d}")
    again.busy = True
    await doubted(again, path, "changed")


async def test_an_object_that_is_older_than_it_was(path: Path) -> None:
    source = filled(3)
    source.set("c0000")
    await one_life(source, path)
    again = source.restarted()
    again.restored(4)
    again.set("other")
    again.set("another")
    await doubted(again, path, "changed")


async def test_an_object_that_was_made_anew_at_the_very_versions_of_the_old(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    again = source.restarted()
    again.restored(1)
    for number in range(3):
        again.set(f"c{number:04d}", uid=f"another-{number}")
    await doubted(again, path, "changed")


async def test_another_cluster_under_the_same_name(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    again = source.restarted()
    again.cluster_ = "cluster-2"
    await doubted(again, path, "other_cluster")


async def test_another_cluster_that_does_not_say_who_it_is_has_other_objects(path: Path) -> None:
    await one_life(filled(3), path)
    other = filled(0)
    other.cluster_ = None
    other.version = 100
    for number in range(3):
        other.set(f"c{number:04d}", uid=f"another-{number}")
    other.floor = 0
    other.history = [(at, event) for at, event in other.history if at > 101]
    other.busy = True
    await doubted(other, path, "changed")


async def test_another_selector(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    again = source.restarted()
    again.contents_ = {**again.contents_, "query": "labelSelector=a"}
    await doubted(again, path, "other_contents")


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda data: data[:-1],
    "cut off in the middle": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "flipped": lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
    "appended to": lambda data: data + b"x",
    "zeroed, as a disk does that lost power": lambda data: data[:100] + bytes(len(data) - 100),
}


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_damaged_file(path: Path, how: str) -> None:
    source = filled(3)
    await one_life(source, path)
    damage(path, DAMAGES[how])
    await doubted(source.restarted(), path, "torn")
    assert len(read_file(path)[1]) == 3, "and it is good again at the end"


async def test_a_file_that_is_no_snapshot(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    damage(path, lambda _: b"dear diary")
    await doubted(source.restarted(), path, "format")


async def test_a_file_that_anybody_may_write_to(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    open_to_all(path)
    await doubted(source.restarted(), path, "unreadable")


async def test_a_folder_in_the_place_of_the_file_and_a_pipe_hold_nothing_up(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    await doubted(filled(3), pipe, "unreadable")


async def test_the_log_says_why(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = filled(3)
    await one_life(source, path)
    again = source.restarted()
    again.cluster_ = "cluster-2"
    with caplog.at_level(logging.INFO, "kinformer.snapshot"):
        await one_life(again, path)
    assert said(caplog, "other_cluster") == [Said("WARNING", "kinformer.snapshot", "v1/configmaps")]
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    for word in (str(path), "cluster-1", "cluster-2"):
        assert word in message_of(caplog, "other_cluster")


async def test_a_410_that_comes_later_is_a_relist_and_handlers_hear_of_what_went(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    again = source.restarted()
    replica = Replica()
    async with SharedInformer(again, snapshot=path, backoff=Backoff(initial=0.01)) as informer:
        informer.add_event_handler(replica)
        await informer.wait_synced(10)
        del again.objects["default/c0001"]
        again.expire()
        await informer.wait_for_resource_version(str(again.version), timeout=10)
        assert informer.statistics().relists == {"expired": 1}
    assert replica.versions == on_server(again)
    assert replica.calls[-1] == ("delete", "c0001")


async def test_a_question_that_fails_is_asked_again_and_proves_nothing(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    again = source.restarted()
    again.failures = [ConnectError("no route")]
    failures: list[BaseException] = []
    informer, _ = await one_life(
        again, path, on_error=lambda _, error: failures.append(error), backoff=Backoff(initial=0.01, jitter=0)
    )
    assert [type(error) for error in failures] == [ConnectError]
    assert outcomes(informer) == {"loaded": 1}
    assert not again.lists


@pytest.mark.parametrize("status", [400, 403, 404, 405, 406, 415, 422, 501])
async def test_a_question_that_would_be_refused_again_is_a_list(path: Path, status: int) -> None:
    source = filled(3)
    await one_life(source, path)
    again = source.restarted()
    again.failures = [api_error(status, "", "metadata.name is no field to select by")] * 99
    await doubted(again, path, "unanswered")


async def test_a_watch_that_is_refused_is_a_list(path: Path) -> None:
    class Guarded(ResumableSource):
        refusals = 0

        @asynccontextmanager
        async def watch(self, options: ListOptions) -> AsyncIterator[Any]:
            if not options.send_initial_events and self.refusals:
                self.refusals -= 1
                raise api_error(403)
            async with super().watch(options) as stream:
                yield stream

    source = Guarded()
    source.set("a")
    await one_life(source, path)
    again = source.restarted()
    again.refusals = 1  # type: ignore[attr-defined]
    await doubted(again, path, "unanswered")


async def test_a_stop_while_the_server_is_being_asked_leaves_nothing_behind(path: Path) -> None:
    source = filled(3)
    await one_life(source, path)
    before = contents(path)
    again = source.restarted()
    again.hang = True
    async with SharedInformer(again, snapshot=path, shutdown_timeout=1) as informer:
        await asyncio.sleep(0.05)
        assert not informer.has_synced
    assert contents(path) == before


@pytest.mark.virtual_time
@pytest.mark.parametrize("deleted_after", [None, 1.0])
async def test_a_watch_has_two_seconds_to_delete_what_is_missing(deleted_after: float | None) -> None:
    source = filled(3)
    snapshot = Resumption(ChunkedList(), str(source.version), "cluster-1", list(source.objects.values()))
    lost = source.objects.pop("default/c0001")
    source.version += 1

    def delete() -> None:
        source.record("DELETED", lost)

    loop = asyncio.get_running_loop()
    began = loop.time()
    if deleted_after is not None:
        loop.call_later(deleted_after, delete)
        assert await SnapshotCheck(source, name="x").verify(snapshot) == "cluster-1"
        assert loop.time() - began == pytest.approx(1.0)
        return
    with pytest.raises(SnapshotRefusedError, match="c0001") as refused:
        await SnapshotCheck(source, name="x").verify(snapshot)
    assert refused.value.reason == "changed"
    assert loop.time() - began == pytest.approx(2.0)


# --- the transform ----------------------------------------------------------------------------------------------


def keep_all(document: dict[str, Any]) -> dict[str, Any]:
    return document


async def test_what_a_transform_made_is_not_transformed_again_and_goes_when_the_transform_changes(path: Path) -> None:
    source = filled(3)

    def add_with(text: str = "x") -> Callable[[dict[str, Any]], dict[str, Any]]:
        def add(document: dict[str, Any]) -> dict[str, Any]:
            document["data"]["added"] = text + document["data"].get("added", "")
            return document

        return add

    await one_life(source, path, transform=add_with("x"))
    async with SharedInformer(source.restarted(), snapshot=path, transform=add_with("x")) as informer:
        await informer.wait_synced(10)
        assert outcomes(informer) == {"loaded": 1}
        assert {obj["data"]["added"] for obj in informer.lister} == {"x"}
    await doubted(source.restarted(), path, "other_contents", transform=add_with("y"))
    await doubted(source.restarted(), path, "other_contents", transform=keep_all)
    await doubted(source.restarted(), path, "other_contents")


def test_a_transform_that_cannot_be_recognised_is_refused(path: Path) -> None:
    with pytest.raises(ConfigError, match="plain function"):
        SharedInformer(ResumableSource(), snapshot=path, transform=partial(keep_all))
    made: list[object] = [object()]

    def remembering(document: dict[str, Any]) -> dict[str, Any]:
        made.append(object())
        return document

    with pytest.raises(ConfigError, match="plain values"):
        SharedInformer(ResumableSource(), snapshot=path, transform=remembering)


# --- writing ----------------------------------------------------------------------------------------------------


async def test_the_file_is_its_owners_alone_and_missing_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.snapshot"
    await one_life(filled(3), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert names(path.parent) == ["c.snapshot"]


async def test_a_folder_gets_a_file_for_each_informer(tmp_path: Path) -> None:
    source = filled(3)
    await one_life(source, tmp_path)
    other = source.restarted()
    other.contents_ = {**other.contents_, "query": "x"}
    await one_life(other, tmp_path)
    assert len(names(tmp_path)) == 2
    assert all(name.startswith("v1.configmaps-") for name in names(tmp_path))
    informer, _ = await one_life(source.restarted(), tmp_path)
    assert outcomes(informer) == {"loaded": 1}


async def test_it_is_written_now_and_then_and_each_time_is_one_cut_at_one_version(path: Path) -> None:
    """While the server changes all the time: what a file holds is what the server had at the version that it says."""
    source = filled(600)
    states = {source.version: on_server(source)}
    seen: dict[int, int] = {}
    async with SharedInformer(source, snapshot=Snapshot(path, interval=0.001)) as informer:
        await informer.wait_synced(10)
        async with asyncio.timeout(30):
            while len(seen) < 5:
                for _ in range(7):
                    if source.version % 3:
                        source.set(f"c{source.version % 600:04d}")
                    else:
                        source.delete(next(iter(source.objects)).partition("/")[2])
                    states[source.version] = on_server(source)
                await asyncio.sleep(0.001)
                if contents(path):
                    header, objects = read_file(path)
                    version = int(header.resource_versions[""])
                    seen[version] = len(objects)
                    assert {obj.key: obj.resource_version for obj in objects} == states[version]
    assert outcomes(informer)["saved"] >= 5
    await until(lambda: names(path.parent) == [path.name], what="a thread cleans up behind itself")


async def test_a_cache_that_never_synced_is_not_written(path: Path) -> None:
    source = filled(3)
    source.hang = True
    async with SharedInformer(source, snapshot=Snapshot(path, interval=0.001), shutdown_timeout=1):
        await asyncio.sleep(0.02)
    assert not contents(path)


async def test_a_disk_that_refuses_is_counted_and_harms_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    informer, _ = await one_life(filled(3), tmp_path / "file" / "x.snapshot")
    assert outcomes(informer) == {"unreadable": 1, "failed": 1}


async def test_a_disk_that_is_full_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = filled(3)
    await one_life(source, path)
    before = contents(path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    source.set("new")
    monkeypatch.setattr(os, "fsync", full)
    informer, _ = await one_life(source.restarted(), path)
    assert outcomes(informer) == {"loaded": 1, "failed": 1}
    assert contents(path) == before
    assert names(path.parent) == [path.name]


async def test_a_slow_disk_holds_up_nobodys_leaving_and_the_old_file_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = filled(3)
    await one_life(source, path)
    before = contents(path)
    source.set("new")
    at_it, go_on, done = threading.Event(), threading.Event(), threading.Event()
    real = os.fsync

    def slow(descriptor: int) -> None:
        at_it.set()
        go_on.wait(10)
        real(descriptor)
        done.set()

    monkeypatch.setattr(os, "fsync", slow)
    async with asyncio.timeout(8):  # the disk holds for ten seconds
        await one_life(source.restarted(), path, shutdown_timeout=1.5)
    assert at_it.is_set()
    go_on.set()
    await asyncio.to_thread(done.wait, 10)
    await until(lambda: len(names(path.parent)) == 1, what="a thread cleans up behind itself")
    assert contents(path) == before


async def test_a_slow_handler_leaves_the_time_for_it(path: Path) -> None:
    """What drains and what is written share the time that leaving has."""
    source = filled(3)

    async def slow(obj: Any) -> None:
        await asyncio.sleep(30)

    async with SharedInformer(source, snapshot=path, shutdown_timeout=1.5) as informer:
        informer.add_event_handler(on_add=slow)
        await informer.wait_synced(10)
    assert outcomes(informer) == {"missing": 1, "saved": 1}


async def test_what_a_killed_process_left_behind_goes_after_an_hour(path: Path) -> None:
    old, young = path.with_name(f".{path.name}.7-1.tmp"), path.with_name(f".{path.name}.8-1.tmp")
    old.write_text("half")
    young.write_text("half")
    os.utime(old, (time.time() - 4000, time.time() - 4000))
    await one_life(filled(3), path)
    assert names(path.parent) == sorted([path.name, young.name])


async def test_a_file_of_another_writer_that_goes_away_meanwhile_is_in_nobodys_way(path: Path) -> None:
    """A link to nothing is what such a file looks like: its name is listed, and then there is nothing there."""
    path.with_name(f".{path.name}.7-1.tmp").symlink_to(path.with_name("nothing"))
    informer, _ = await one_life(filled(3), path)
    assert outcomes(informer) == {"missing": 1, "saved": 1}


# --- what may be asked for ----------------------------------------------------------------------------------------


def secret_source() -> ResumableSource:
    source = filled(3)
    source.contents_ = {"resource": "v1/secrets", "namespace": ""}
    return source


async def test_secrets_are_written_only_when_asked(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Snapshot\(.*secrets=True\)"):
        SharedInformer(secret_source(), snapshot=path)
    informer, _ = await one_life(secret_source(), Snapshot(path, secrets=True))
    assert outcomes(informer)["saved"] == 1


async def test_a_secret_among_other_things_keeps_all_of_them_from_the_disk(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = filled(3)
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "uid": "u", "resourceVersion": "9"}}
    source.objects["s"] = KubeObject.from_dict({**document, "data": {"password": "c2VjcmV0"}})
    async with SharedInformer(source, snapshot=path) as informer:
        await informer.wait_synced(10)
    assert outcomes(informer) == {"missing": 1, "refused": 1}
    assert not names(path.parent)
    assert said(caplog, "refused") == [Said("ERROR", "kinformer.snapshot", "v1/configmaps")]
    assert "<Secret s " in message_of(caplog, "refused")
    assert "c2VjcmV0" not in caplog.text


async def test_a_source_that_cannot_be_asked_is_refused(path: Path) -> None:
    with pytest.raises(ConfigError, match="read_back"):
        SharedInformer(MemorySource(), snapshot=path)


@pytest.mark.parametrize("wrong", [True, 3, "", b""])
def test_what_is_no_path_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="snapshot"):
        SharedInformer(ResumableSource(), snapshot=wrong)


def test_an_interval_has_to_be_positive(path: Path) -> None:
    with pytest.raises(ConfigError, match="interval"):
        Snapshot(path, interval=0)
