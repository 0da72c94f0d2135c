"""A restarted program has the server's objects, whatever happened to server and file in between."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import Backoff, SharedInformer, Snapshot
from tests.support.resumable_source import ResumableSource, read_file

pytestmark = pytest.mark.slow

NAMES = st.sampled_from("abcdefgh")
CHANGES = st.lists(
    st.tuples(st.sampled_from(["set", "set", "delete", "recreate"]), NAMES) | st.just(("expire", "")),
    max_size=12,
)
DAMAGE = st.none() | st.tuples(st.sampled_from(["cut", "flip", "append", "zero"]), st.integers(0, 10**6))


def change(source: ResumableSource, what: str, name: str) -> None:
    there = f"default/{name}" in source.objects
    if what == "expire":
        source.expire()
    elif what == "set":
        source.set(name)
    elif there:
        source.delete(name)
        if what == "recreate":
            source.set(name, uid=f"again-{source.version}")


def damage(path: Path, what: str, where: int) -> None:
    data = bytearray(path.read_bytes())
    where %= len(data)
    if what == "cut":
        del data[where:]
    elif what == "flip":
        data[where] ^= 1 << where % 8
    elif what == "append":
        data += bytes([where % 256])
    else:
        data[where:] = bytes(len(data) - where)
    path.write_bytes(data)


async def one_life(source: ResumableSource, path: Path, during: list[tuple[str, str]], interval: float) -> Any:
    replica: dict[str, Any] = {}
    heard: list[str] = []

    def on_add(obj: Any, *, is_in_initial_list: bool) -> None:
        assert obj.key not in replica
        heard.append("initial" if is_in_initial_list else "add")
        replica[obj.key] = obj

    def on_update(old: Any, new: Any) -> None:
        assert (replica[new.key].uid, replica[new.key].resource_version) == (new.uid, old.resource_version)
        replica[new.key] = new

    snapshot = Snapshot(path, interval=interval)
    async with SharedInformer(source, snapshot=snapshot, backoff=Backoff(initial=0.001, jitter=0)) as informer:
        informer.add_event_handler(on_add=on_add, on_update=on_update, on_delete=lambda obj: replica.pop(obj.key))
        await informer.wait_synced(10)
        for what, name in during:
            change(source, what, name)
            await asyncio.sleep(0)
        change(source, "set", "last")
        await informer.wait_for_resource_version(str(source.version), timeout=10)
    truth = {key: (obj.uid, obj.resource_version) for key, obj in source.objects.items()}
    assert {obj.key: (obj.uid, obj.resource_version) for obj in informer.lister} == truth
    assert {key: (obj.uid, obj.resource_version) for key, obj in replica.items()} == truth
    header, objects = read_file(path)
    assert dict(header.resource_versions) == {"": str(source.version)}
    assert {obj.key: (obj.uid, obj.resource_version) for obj in objects} == truth
    return informer


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHANGES, CHANGES, CHANGES, DAMAGE, st.sampled_from([300.0, 0.0005]))
def test_a_restart_has_what_the_server_has(
    first: list[tuple[str, str]],
    away: list[tuple[str, str]],
    second: list[tuple[str, str]],
    harm: tuple[str, int] | None,
    interval: float,
) -> None:
    async def lives(path: Path) -> None:
        source = ResumableSource()
        await one_life(source, path, first, interval)
        for what, name in away:
            change(source, what, name)
        if harm is not None:
            damage(path, *harm)
        again = source.restarted()
        informer = await one_life(again, path, second, interval)
        outcomes = informer.statistics().snapshots
        if harm is None and ("expire", "") not in away:
            assert outcomes.get("loaded") == 1, outcomes
            assert not any(options.send_initial_events for options in again.watches[:2])
        elif harm is not None and harm[0] != "zero":
            assert "loaded" not in outcomes

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(lives(Path(folder) / "s"))
