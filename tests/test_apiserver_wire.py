"""The embedded server answers what real servers answered: the same requests on the same state, recorded."""

from __future__ import annotations

import pytest

from kinformer.testing import APIServer
from tests.wire_replay import CoreReplay, CustomReplay

# Not compared: a protobuf body and the OpenAPI documents, which this server does not have; the core discovery lists
# kinds and subresources that it does not serve.
NOT_COMPARED = frozenset(
    {
        "protobuf",
        "openapi v3 root",
        "core discovery",
        "groups",  # of vectors.jsonl: that server had no aggregator, and so no /apis
        "apps discovery",
        "aggregated groups",
        "agg",
    }
)


@pytest.mark.virtual_time
async def test_it_answers_like_kube_apiserver_for_the_built_in_kinds() -> None:
    async with APIServer(users={"user-token": "user"}, rules=[]) as server:
        differences = await CoreReplay(server).run(left_out=NOT_COMPARED)
    assert not differences, "\n".join(differences)


@pytest.mark.virtual_time
async def test_it_answers_like_the_generic_server_for_custom_resources() -> None:
    async with APIServer() as server:
        differences = await CustomReplay(server).run(left_out=NOT_COMPARED)
    assert not differences, "\n".join(differences)
