"""A watch cache answers as the embedded server behind it: tests of that server, with the URL of the cache."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kinformer import Client
from kinformer.testing import APIServer
from tests.apiserver import test_watch
from tests.watchcache.front import Front, borrowed, front_of

globals().update(
    borrowed(
        test_watch,
        [
            "test_a_watch_from_a_version_gets_each_later_change_once_and_in_order",
            "test_a_selector_turns_changes_into_added_and_deleted_with_the_old_content",
            "test_a_field_selector_follows_a_pod_to_its_node",
            "test_a_streaming_list_comes_in_key_order_and_ends_with_a_bookmark",
            "test_a_version_from_the_future_is_silent_on_a_watch_and_504_on_a_list",
            "test_a_list_waits_for_a_version_that_is_about_to_come",
            "test_pages_show_one_snapshot_though_the_collection_changes",
            "test_a_limit_at_version_zero_is_ignored_and_a_selector_counts_no_rest",
            "test_metadata_and_tables_are_watched_too",
        ],
    )
)


@pytest.fixture
async def front(kube_apiserver: APIServer, kube_client: Client) -> AsyncIterator[Front]:
    async with front_of(kube_apiserver, kube_client) as front:
        yield front


@pytest.fixture
def server(kube_apiserver: APIServer, front: Front) -> APIServer:
    return front.server
