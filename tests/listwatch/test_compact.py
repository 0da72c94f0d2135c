"""compact=True: the objects of a cache are kept compressed, and read as always.

Internals: the compaction and its codecs, since an object does not show how it is packed.
"""

from __future__ import annotations

import asyncio
import base64
import builtins
import copy
import gc
import json
import pickle
import random
import sys
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import ConfigError, KubeObject, ListOptions, ListPage, SharedInformer, WatchEvent
from kinformer.listwatch.compact import SAMPLES, Compaction, _ZstdCodec
from kinformer.objects.packed import PackedObject, packed
from tests.support.held import held_bytes
from tests.support.memory_source import MemorySource

if sys.version_info >= (3, 14):
    from compression import zstd

    WITHOUT_ZSTD = "this Python was built without it"
else:
    from backports import zstd

    WITHOUT_ZSTD = r"pip install 'kinformer\[compact\]'"

WORDS = [f"{word}-{number}" for word in ("payments", "search", "ledger", "media") for number in range(40)]


def alike(number: int) -> dict[str, str]:
    """Data as the objects of one resource have it: the same words in another order."""
    chance = random.Random(number)
    return {word: chance.choice(WORDS) for word in WORDS[:20]}


def filled(source: MemorySource, count: int) -> MemorySource:
    for number in range(count):
        source.set(f"c{number:05d}", data=alike(number), labels={"app": f"a{number % 7}"})
    return source


def kept(objects: Iterable[KubeObject]) -> int:
    """Bytes that are kept of the JSON."""
    return sum(sys.getsizeof(held_bytes(obj)) for obj in objects)


@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_compact_cache_has_the_objects_of_a_plain_one_in_a_fraction_of_its_memory(watch_list: bool) -> None:
    source = filled(MemorySource(watch_list=watch_list), SAMPLES + 500)
    async with SharedInformer(source) as plain, SharedInformer(source, compact=True) as compact:
        await plain.wait_synced(30)
        await compact.wait_synced(30)
        assert {obj.key: obj.raw for obj in compact.lister} == {obj.key: obj.raw for obj in plain.lister}
        objects = list(compact.lister)
        assert all(type(obj) is PackedObject for obj in objects)
        first = source_order(objects)[0]
        trained = [obj for obj in objects if obj._packing is not first._packing]  # the bytes do not tell
        assert len(trained) == 500, "the first thousand are compressed by themselves, the others with a dictionary"
        assert kept(trained) < 0.5 * sum(sys.getsizeof(obj.raw) for obj in trained)
        assert kept(compact.lister) < 0.6 * kept(plain.lister)


def source_order(objects: list[Any]) -> list[Any]:
    return sorted(objects, key=lambda obj: int(obj.resource_version))


async def test_handlers_selectors_indexes_and_streams_see_what_they_see_in_a_plain_cache() -> None:
    source = filled(MemorySource(), 20)
    seen: list[tuple[str, str, dict[str, Any]]] = []
    deleted = asyncio.Event()

    async def on_add(obj: Any) -> None:
        seen.append(("add", obj.name, obj.to_dict()))

    async def on_update(old: Any, new: Any) -> None:
        seen.append(("update", new.name, new["data"]))
        assert old["data"] is old["data"], "what a handler gets remembers what it decoded"
        new["data"]["more"] = "mine"
        assert new["data"]["more"] == "mine"

    async def on_delete(obj: Any) -> None:
        seen.append(("delete", obj.name, obj.path("data.x")))
        deleted.set()

    async with SharedInformer(source, compact=True, indexers={"x": "data.x"}) as informer:
        registration = informer.add_event_handler(on_add=on_add, on_update=on_update, on_delete=on_delete)
        await informer.wait_synced(10)
        await registration.wait_synced(10)
        assert {name for what, name, _ in seen if what == "add"} == {f"c{number:05d}" for number in range(20)}
        assert len(informer.lister.list("app=a3")) == 3
        async with informer.events() as stream:
            source.set("c00000", data={"x": "1"} | alike(0))
            async for event in stream:
                if event.type == "UPDATED":
                    assert event.object["data"]["x"] == "1"
                    break
        assert [obj.name for obj in informer.lister.by_index("x", "1")] == ["c00000"]
        cached = informer.lister.get("c00000", namespace="default")
        assert cached is not None
        assert "more" not in cached["data"], "and what the handler did to it reaches nobody else"
        source.delete("c00000")
        await informer.wait_for_resource_version(str(source.version), timeout=10)
        await asyncio.wait_for(deleted.wait(), 10)
        assert seen[-1] == ("delete", "c00000", "1")
        assert seen[-2][:2] == ("update", "c00000")


async def test_a_transform_comes_first_and_a_relist_compresses_nothing_again() -> None:
    source = filled(MemorySource(), 50)

    def transform(document: dict[str, Any]) -> dict[str, Any]:
        document["data"] = document["data"] | {"seen": "yes"}
        return document

    async with SharedInformer(source, compact=True, transform=transform) as informer:
        await informer.wait_synced(10)
        before = {obj.key: obj for obj in informer.lister}
        assert all(obj["data"]["seen"] == "yes" for obj in before.values())
        source.set("c00007", data=alike(99))
        source.expire()
        await informer.wait_for_resource_version(str(source.version), timeout=10)
        assert informer.statistics().relists == {"expired": 1}
        after = {obj.key: obj for obj in informer.lister}
        changed = [key for key in before if before[key] is not after[key]]
        assert changed == ["default/c00007"]


def entries() -> tuple[KubeObject, PackedObject]:
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "3", "annotations": {"n": "1"}},
        "data": alike(1),
    }
    plain = KubeObject.from_dict(document)
    compact = Compaction().compact(plain)
    assert isinstance(compact, PackedObject)
    return plain, compact


def test_it_is_equal_to_hashed_as_and_reads_as_the_plain_object() -> None:
    plain, compact = entries()
    assert compact == plain
    assert hash(compact) == hash(plain)
    assert compact.raw == plain.raw
    assert compact.to_dict() == plain.to_dict()
    assert dict(compact.items()) == dict(plain.items())
    assert compact.annotations == plain.annotations
    assert (compact.name, repr(compact), len(compact), list(compact)) == (
        plain.name,
        repr(plain),
        len(plain),
        list(plain),
    )
    assert compact.decode(dict[str, Any]) == plain.to_dict()


def test_objects_without_a_version_are_compared_by_their_json() -> None:
    documents = [{"metadata": {"name": "a"}, "data": alike(number)} for number in (1, 1, 2)]
    one, same, other = (Compaction().compact(KubeObject.from_dict(document)) for document in documents)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other


def test_a_copy_is_itself_and_a_pickle_is_a_plain_object() -> None:
    plain, compact = entries()
    assert copy.copy(compact) is compact
    assert copy.deepcopy(compact) is compact
    back = pickle.loads(pickle.dumps(compact))
    assert type(back) is KubeObject
    assert (back, back.raw) == (plain, plain.raw)


def test_it_is_invisible_to_the_garbage_collector() -> None:
    _, compact = entries()
    assert not gc.is_tracked(compact)


def test_many_threads_may_read_at_once() -> None:
    compaction = Compaction()
    plain = [KubeObject.from_dict({"metadata": {"name": f"n{n}"}, "data": alike(n)}) for n in range(50)]
    compact = [compaction.compact(obj) for obj in plain]
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(lambda: [obj.raw for obj in compact]) for _ in range(64)]
    assert all(future.result() == [obj.raw for obj in plain] for future in futures)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(
    st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=30)
)
def test_any_object_comes_back_byte_for_byte(data: Any) -> None:
    obj = KubeObject.from_dict({"metadata": {"name": "a"}, "data": data})
    small = Compaction().compact(obj)
    assert small.raw == obj.raw
    assert len(held_bytes(small)) <= len(held_bytes(obj))


def test_an_object_that_does_not_shrink_is_kept_as_it_is() -> None:
    obj = KubeObject.from_json(b'{"metadata":{"name":"a"}}')
    assert Compaction().compact(obj) is obj


async def test_a_dictionary_that_does_not_help_is_not_used() -> None:
    compaction = Compaction()
    for number in range(SAMPLES):
        noise = random.Random(number).randbytes(1500).hex()
        compaction.compact(
            KubeObject.from_json(json.dumps({"metadata": {"name": f"n{number}"}, "data": noise}).encode())
        )
    assert compaction.due
    await compaction.train()
    assert compaction.dictionary is False
    assert not compaction.due


async def test_what_training_cannot_learn_from_is_no_failure() -> None:
    compaction = Compaction()
    compaction.compact(KubeObject.from_json(b'{"metadata":{"name":"a"}}'))
    assert compaction.dictionary is None
    await compaction.train()
    assert compaction.dictionary is False


async def test_training_that_is_cancelled_can_be_begun_again() -> None:
    compaction = Compaction()
    for number in range(SAMPLES):
        compaction.compact(KubeObject.from_dict({"metadata": {"name": f"n{number}"}, "data": alike(number)}))
    training = asyncio.ensure_future(compaction.train())
    await asyncio.sleep(0)
    assert not compaction.due, "somebody is at it"
    training.cancel()
    with pytest.raises(asyncio.CancelledError):
        await training
    assert compaction.due
    await compaction.train()
    assert compaction.dictionary is True


async def test_one_object_that_changes_a_thousand_times_is_one_sample() -> None:
    compaction = Compaction()
    for number in range(2 * SAMPLES):
        compaction.compact(KubeObject.from_dict({"metadata": {"name": "one"}, "data": alike(number)}))
    assert not compaction.due


def test_without_zstd_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, zstd.__name__, None)
    with pytest.raises(ConfigError, match=WITHOUT_ZSTD):
        SharedInformer(MemorySource(), compact=True)


FRAMES = json.loads((Path(__file__).parent / "compact_frames.json").read_text())
"""Objects that were compressed with the same dictionary by each library, on several Pythons: see `record_frames`."""


def record_frames() -> dict[str, Any]:
    """What this Python makes of 40 objects, for `compact_frames.json`."""
    decode = base64.b64decode
    dictionary = zstd.ZstdDict(decode(FRAMES["dictionary"]))
    made = {}
    for name, codec in (("plain", _ZstdCodec(zstd, None)), ("trained", _ZstdCodec(zstd, dictionary))):
        made[name] = [base64.b64encode(codec.compress(recorded(number).raw)).decode() for number in range(40)]
    return made


def recorded(number: int) -> KubeObject:
    return KubeObject.from_dict({"metadata": {"name": f"n{number}"}, "data": alike(number)})


@pytest.mark.parametrize("library", FRAMES["by"])
@pytest.mark.parametrize("name", ["plain", "trained"])
def test_what_another_python_or_library_has_compressed_is_read(library: str, name: str) -> None:
    dictionary = zstd.ZstdDict(base64.b64decode(FRAMES["dictionary"])) if name == "trained" else None
    codec = _ZstdCodec(zstd, dictionary)
    frames = [base64.b64decode(frame) for frame in FRAMES["by"][library][name]]
    assert len(frames) == 40
    for number, frame in enumerate(frames):
        plain = recorded(number)
        assert packed(plain, frame, codec).raw == plain.raw


@pytest.mark.parametrize("library", FRAMES["by"])
def test_what_is_compressed_here_takes_no_more_than_elsewhere(library: str) -> None:
    for name, frames in record_frames().items():
        size = sum(len(base64.b64decode(frame)) for frame in FRAMES["by"][library][name])
        assert sum(len(base64.b64decode(frame)) for frame in frames) <= 1.05 * size


class DictSource:
    """A source of the user's own, which gives dicts."""

    async def list(self, options: ListOptions) -> ListPage:
        return ListPage([{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "data": alike(1)}], "1")

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        async def stream() -> AsyncIterator[builtins.list[WatchEvent]]:
            yield [
                WatchEvent("ADDED", {"metadata": {"name": "b", "uid": "v", "resourceVersion": "2"}, "data": alike(2)})
            ]
            await asyncio.Event().wait()

        yield stream()


async def test_a_source_may_give_dicts() -> None:
    async with SharedInformer(DictSource(), compact=True, watch_list=False) as informer:
        await informer.wait_synced(10)
        await informer.wait_for_resource_version("2", timeout=10)
        assert sorted(informer.lister.keys()) == ["a", "b"]
        assert all(type(obj) is PackedObject for obj in informer.lister)
