"""Lists, reads and watches with every kind of parameter, held to what a real server answered: pages, errors, forms.

The embedded server is asked, and watch caches before it, which leave to it what they do not answer.

Internals: the time in which a cache proves that it is current, since on a busy machine the server would answer instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from kinformer import Client
from kinformer.testing import APIServer, ClusterServer
from tests.conformance.conftest import REAL, Held, new_namespace
from tests.conformance.reading import Reader, TextReader, make_odd_scene, make_scene
from tests.conformance.recorded_differences import CACHE, INDENTED, SERVER
from tests.conformance.recordings import all_answers, read
from tests.conformance.site import Site
from tests.conformance.test_objects import configmap
from tests.watchcache.front import Front, front_of

pytestmark = [pytest.mark.virtual_time, pytest.mark.kubernetes("1.36", "its answers are not recorded")]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinformer.watchcache.cached_resource._PROOF", 60.0)


@pytest.fixture(params=[SERVER, CACHE])
def by(request: pytest.FixtureRequest, server_kind: str) -> str:
    """The name of that which answers."""
    if request.param == CACHE and server_kind == REAL:
        pytest.skip("test_through_the_proxy asks caches before a real server")
    return REAL if server_kind == REAL else str(request.param)


@asynccontextmanager
async def answering(by: str, server: ClusterServer) -> AsyncIterator[Front | None]:
    """Run watch caches before a server, or nothing if the server itself is asked."""
    if by != CACHE:
        yield None
        return
    async with server.client() as client, front_of(cast("APIServer", server), client) as front:
        yield front


async def turn_to(site: Site, front: Front | None) -> None:
    """Let a site ask the caches from now on, if there are some."""
    if front is not None:
        await front.caught_up()
        site.server = front.server


@pytest.mark.parametrize("recording", ["combinations", "parameters", "pages", "gets", "forms"])
async def test_reads_are_answered_as_recorded(server: ClusterServer, held: Held, by: str, recording: str) -> None:
    async with answering(by, server) as front:
        site = Site(server, await new_namespace(server))
        words = await make_scene(site)
        await turn_to(site, front)
        cases = read(recording)
        held(recording, await all_answers(Reader(site, words).answer, cases), by)
        assert front is None or front.answered > len(cases) / 4


async def test_what_is_forgotten_is_told_as_recorded(own_server: ClusterServer, held: Held, by: str) -> None:
    site = Site(own_server, await new_namespace(own_server))
    words = await make_scene(site)
    aged = (await site.get(f"{site.configmaps}?limit=1", kept=False)).json["metadata"]["continue"]
    await site.make(site.configmaps, configmap("f"))
    await own_server.compact()
    await own_server.restart()
    async with answering(by, own_server) as front:
        await turn_to(site, front)
        gone = await site.get(f"{site.configmaps}?limit=1&continue={aged}", kept=False)
        words |= {"AGED": aged, "FRESH": gone.json["metadata"]["continue"]}
        held("forgotten", await all_answers(Reader(site, words).answer, read("forgotten")), by)


async def test_odd_characters_are_written_as_recorded(server: ClusterServer, held: Held, by: str) -> None:
    async with answering(by, server) as front:
        site = Site(server, await new_namespace(server))
        words = await make_odd_scene(site)
        await turn_to(site, front)
        held("characters", await all_answers(TextReader(site, words).answer, read("characters")), by)


async def test_odd_characters_of_an_indented_list_are_written_as_recorded(server: ClusterServer, held: Held) -> None:
    if not isinstance(server, APIServer):
        pytest.skip("the caches are before the embedded server")
    site = Site(server, await new_namespace(server))
    words = await make_odd_scene(site)
    async with (
        Client.from_url(server.url, user_agent="curl/8.0") as client,  # the server indents what it sends to curl
        front_of(server, client, watch_list=False) as front,
    ):
        await turn_to(site, front)
        held("characters", await all_answers(TextReader(site, words).answer, read("characters")), INDENTED)
