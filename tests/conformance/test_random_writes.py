"""The same random writes, one after the other, to both servers: the same answers, owners and versions."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest

from kinformer.testing import APIServer, ControlPlane
from tests.conformance.conftest import new_namespace
from tests.conformance.random_writes import DEFINITION, GROUP, RandomWrites
from tests.conformance.site import Site
from tests.conformance.transcript import differences

pytestmark = pytest.mark.slow

OBJECTS = int(os.environ.get("KINFORMER_RANDOM_OBJECTS", "40"))  # of each kind
WRITES = 8  # of each object
COLLECTIONS = {
    "configmap": ("v1", "configmaps"),
    "deployment": ("apps/v1", "deployments"),
    "custom": (f"{GROUP}/v1", "randoms"),
}


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what is random; the causes of an error have no order, as those of a real server."""
    shown = copy.deepcopy(answer)
    metadata = shown.get("metadata") or {}
    for name in ("uid", "resourceVersion", "creationTimestamp", "namespace"):
        metadata.pop(name, None)
    for entry in metadata.get("managedFields") or []:
        entry.pop("time", None)
    if "details" in shown:
        shown["details"]["causes"] = sorted(shown["details"].get("causes") or [], key=str)
        shown["message"] = sorted(shown["message"])
    return shown


class Pair:
    """One object on both servers."""

    def __init__(self, sites: list[Site], kind: str) -> None:
        api_version, plural = COLLECTIONS[kind]
        self._sites = sites
        self._paths = [site.of(api_version, plural) if "/" in api_version else site.core(plural) for site in sites]
        self._versions = ["", ""]
        self._objects = 0

    async def live_through(self, writes: RandomWrites) -> list[str]:
        """Send writes to both until an answer differs; the texts of the differences, and of what led to them."""
        self._objects += 1
        self._versions = ["", ""]
        trail = []
        for number in range(WRITES):
            write = writes.write(first=number == 0)
            trail.append(f"{write.method} {write.query} {write.body}")
            answers, versions = [], []
            for site, path, version in zip(self._sites, self._paths, self._versions, strict=True):
                body = copy.deepcopy(write.body)
                body["metadata"]["name"] = f"a{self._objects}"
                if write.method == "PUT" and version:
                    body["metadata"]["resourceVersion"] = version
                target = f"{path}/a{self._objects}{write.query}"
                reply = await site.ask(write.method, target, body, content_type=write.content_type, kept=False)
                answers.append({"status code": reply.status, **comparable(reply.json)})
                versions.append(reply.json["metadata"].get("resourceVersion", version))
            found = list(differences(answers[0], answers[1]))
            changed = [new != old for new, old in zip(versions, self._versions, strict=True)]
            self._versions = versions
            if found or changed[0] != changed[1]:
                return [*trail, *map(str, found[:10]), f"a new version on the real one, on the embedded one: {changed}"]
        return []


@pytest.mark.kubernetes("1.36", "the embedded server, beside which it is written to, answers as that one")
@pytest.mark.parametrize("kind", list(COLLECTIONS))
async def test_random_writes_are_answered_alike(shared_control_plane: ControlPlane, kind: str) -> None:
    async with APIServer() as embedded:
        sites = [Site(server, await new_namespace(server)) for server in (shared_control_plane, embedded)]
        for site in sites:
            await site.server.install_crds(DEFINITION)
        pair = Pair(sites, kind)
        for seed in range(OBJECTS):
            found = await pair.live_through(RandomWrites(seed, kind))
            assert not found, f"seed {seed}:\n" + "\n".join(found)
