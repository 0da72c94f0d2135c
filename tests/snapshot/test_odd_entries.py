"""Snapshot files with an odd entry: a cache without one object would be wrong, so the file is not used.

Internals: the format of the file, since a keeper writes no odd entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinformer import KubeObject, SharedInformerFactory
from kinformer.snapshot.format import OBJECTS, ObjectWriter, Seal
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.resumable_source import read_file


def entry(key: str, namespace: str, raw: bytes, version: str = "1") -> KubeObject:
    return KubeObject(key, namespace, "u", version, "v1", "ConfigMap", {}, (), raw)


WHOLE = b'{"metadata":{"name":"x","namespace":"default"}}'
ODD: dict[str, KubeObject] = {
    "an object that is no JSON": entry("default/x", "default", b"{"),
    "an object that is no object": entry("default/x", "default", b"[]"),
    "a namespace that leads elsewhere": entry("../x", "..", WHOLE, "999999"),
    "no name": entry("", "", WHOLE, "999999"),
    "a name of two parts": entry("default/x/y", "default", WHOLE, "999999"),
    "a version that is no number": entry("default/x", "default", WHOLE, "newest of all versions"),
}


def with_entry(path: Path, odd: KubeObject) -> bytes:
    header, objects = read_file(path)
    objects = [*objects, odd]
    whole = type(header)(
        contents=header.contents,
        resource_versions=header.resource_versions,
        cluster=header.cluster,
        objects=len(objects),
        taken_at=header.taken_at,
    )
    seal = Seal()
    return b"".join([*seal.header(whole), *seal.block(OBJECTS, *ObjectWriter().block(objects)), *seal.end()])


@pytest.mark.parametrize("fields", [None, ["data.v"]], ids=["whole", "fields"])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_an_odd_entry_is_refused_or_harms_nothing(
    server: APIServer, tmp_path: Path, odd: KubeObject, fields: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kinformer.snapshot.check._DELETED", 0.05)
    server.create(config_map("a"))
    path = tmp_path / "maps"
    options: dict[str, Any] = {"fields": fields, "snapshot": path}
    async with server.client() as client:
        async with SharedInformerFactory(client) as factory:
            maps = factory.for_resource("v1/configmaps", **options)
            await maps.wait_synced(10)
            before = set(maps.by_key)
        path.write_bytes(with_entry(path, odd))
        async with SharedInformerFactory(client) as factory:
            maps = factory.for_resource("v1/configmaps", **options)
            await maps.wait_synced(10)
            (outcome,) = maps.statistics().snapshots
            assert outcome in ("torn", "changed", "loaded")
            assert set(maps.by_key) == before | ({odd.key} if outcome == "loaded" else set())
            assert maps.health().live
