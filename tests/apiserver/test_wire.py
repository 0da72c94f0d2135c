"""The embedded server answers what real servers answered: the same requests on the same state, recorded."""

from __future__ import annotations

import pytest

from kinformer.testing import APIServer
from tests.support.wire_replay import CoreReplay, CustomReplay

BUILT_IN_NOT_COMPARED = frozenset({"openapi v3 root"})  # paths with the hashes of documents that are written otherwise
CUSTOM_NOT_COMPARED = frozenset(
    {
        "protobuf",  # a refusal in protobuf; this server refuses in JSON
        # of a server without an aggregator, and so without /apis
        "groups",
        "agg",
    }
)


@pytest.mark.virtual_time
async def test_it_answers_like_kube_apiserver_for_the_built_in_kinds() -> None:
    async with APIServer(users={"user-token": "user"}, rules=[]) as server:
        differences = await CoreReplay(server).run(left_out=BUILT_IN_NOT_COMPARED)
    assert not differences, "\n".join(differences)


@pytest.mark.virtual_time
async def test_it_answers_like_the_generic_server_for_custom_resources() -> None:
    async with APIServer() as server:
        differences = await CustomReplay(server).run(left_out=CUSTOM_NOT_COMPARED)
    assert not differences, "\n".join(differences)
