"""Each list and read of the conformance tests, by a watch cache and by the server behind it: the answers are equal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kinformer import Client
from kinformer.testing import APIServer
from tests.conformance import test_lists, test_watches
from tests.conformance.site import Site, Stream
from tests.support.apiserver_http import Reply
from tests.watchcache.front import Front, borrowed, front_of, without_ages

pytestmark = pytest.mark.virtual_time

globals().update(
    borrowed(
        test_lists,
        [
            "test_a_list_is_in_the_order_of_names",
            "test_a_list_is_chosen_by_labels",
            "test_a_bad_label_selector_is_told_of",
            "test_a_list_is_chosen_by_fields",
            "test_a_list_comes_in_pages",
            "test_a_page_with_a_selector_does_not_count_what_remains",
            "test_a_token_that_the_server_did_not_write_is_refused",
            "test_a_list_may_ask_for_a_version",
            "test_one_object_may_be_asked_for_at_a_version",
            "test_a_list_comes_as_metadata_alone",
            "test_the_form_of_an_answer_is_negotiated",
            "test_fields_that_are_not_set_are_selected_by_their_zero_value",
        ],
    )
)
globals().update(
    borrowed(
        test_watches,
        [
            "test_a_watch_from_a_version_tells_what_came_after_it",
            "test_a_watch_from_any_version_tells_what_there_is_first",
            "test_a_watch_ends_at_its_timeout",
            "test_a_selector_turns_changes_into_adds_and_deletes",
            "test_a_field_selector_turns_changes_into_adds_and_deletes",
            "test_a_streamed_list_ends_with_its_bookmark",
            "test_a_streamed_list_of_nothing_is_a_bookmark",
            "test_a_streamed_list_needs_its_parameters_together",
            "test_a_streamed_list_without_bookmarks_has_no_end",
            "test_a_watch_without_initial_events_starts_now",
            "test_a_watch_of_one_object_is_of_that_one",
            "test_a_watch_comes_as_metadata_alone",
            "test_what_a_watch_cannot_be_asked",
            "test_a_watch_from_a_version_that_is_still_to_come_waits_for_it",
            "test_an_object_that_waits_for_its_finalizers_is_modified_and_then_deleted",
            "test_a_deleted_collection_is_a_delete_for_each",
            "test_a_write_that_changes_nothing_is_no_event",
        ],
    )
)


class TwinSite(Site):
    """A site whose reads are also asked of a front. Watches are the front's alone."""

    def __init__(self, server: APIServer, front: Front) -> None:
        super().__init__(server, "default")
        self.front = front
        self._server = server

    async def get(self, path: str, **more: Any) -> Reply:
        expected = await super().get(path, **more)
        await self.front.caught_up()
        self.server = self.front.server
        try:
            answer = await super().get(path, **more)
        finally:
            self.server = self._server
        assert (answer.status, _shown(answer)) == (expected.status, _shown(expected)), path
        return expected

    def watch(self, path: str, **more: Any) -> Any:
        return _Watching(self, super().watch(path, **more))


class _Watching:
    """A watch that is opened at the front."""

    def __init__(self, site: TwinSite, opening: Any) -> None:
        self._site, self._opening = site, opening

    async def __aenter__(self) -> Stream:
        await self._site.front.caught_up()
        self._site.server = self._site.front.server
        try:
            stream: Stream = await self._opening.__aenter__()
        finally:
            self._site.server = self._site._server
        return stream

    async def __aexit__(self, *error: Any) -> None:
        await self._opening.__aexit__(*error)


def _shown(reply: Reply) -> Any:
    """The document without what may differ: the version of a list, the type of its items, and the ages in a Table."""
    try:
        body = json.loads(reply.body)
    except ValueError:
        return reply.body
    if "items" in body:
        for name in ("resourceVersion", "continue"):
            body["metadata"].pop(name, None)
        for item in body["items"] or ():
            item.pop("kind", None)
            item.pop("apiVersion", None)
    elif body.get("kind") == "Table":
        return without_ages(body)
    elif body.get("kind") == "Status":
        body["metadata"].pop("continue", None)
    return body


@pytest.fixture
async def front(server: APIServer, client: Client) -> AsyncIterator[Front]:
    async with front_of(server, client) as front:
        yield front
        assert front.answered


@pytest.fixture
def site(server: APIServer, front: Front) -> Site:
    return TwinSite(server, front)
