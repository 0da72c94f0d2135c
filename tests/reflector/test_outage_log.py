"""After an outage, one line says that a resource is followed again. Routine has no such line."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kinformer import SharedInformer, SharedInformerFactory
from kinformer.exceptions import ForbiddenError, ServerError
from kinformer.testing import APIServer, faults
from tests.support.log_records import Said, message_of, records, said
from tests.support.memory_source import MemorySource
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

AGAIN = [Said("INFO", "kinformer.reflector", "v1/configmaps")]


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kinformer")


async def test_one_line_ends_an_outage_and_says_how_long_it_was(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        began = asyncio.get_running_loop().time()
        source.fail_with = ServerError(503, "ServiceUnavailable", "not now")
        source.cut()
        await asyncio.sleep(20)
        source.fail_with = ConnectionResetError("reset")
        await asyncio.sleep(20)
        source.fail_with = None
        await until(lambda: informer.health().live, 60)
        seconds = asyncio.get_running_loop().time() - began
        assert said(caplog, "following") == AGAIN
        found = message_of(caplog, "following").removeprefix("v1/configmaps: following again after ").removesuffix(" s")
        assert abs(float(found) - seconds) < 5
        await asyncio.sleep(3600)
    assert said(caplog, "following") == AGAIN


async def test_renewed_watches_expired_versions_and_full_servers_are_no_outage(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.client() as client, SharedInformerFactory(client) as factory:
        maps = factory.for_resource("v1/configmaps", watch_timeout=10)
        await maps.wait_synced(10)
        await asyncio.sleep(120)
        assert maps.health().watches > 5
        for fault in (faults.expired(), faults.status(429, retry_after=1)):
            handle = server.faults.add(fault, verb="watch", resource="v1/configmaps", times=1)
            await until(lambda handle=handle: handle.hits == 1 and maps.health().live, 60)
    assert records(caplog, "following") == []


async def test_a_start_that_was_refused_ends_with_a_line_too(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    source.fail_with = ForbiddenError(403, "Forbidden", "no")
    async with SharedInformer(source) as informer:
        await asyncio.sleep(5)
        source.fail_with = None
        await informer.wait_synced(60)
        await until(lambda: informer.health().live)
    assert said(caplog, "following") == AGAIN
    assert "again" not in message_of(caplog, "following")


async def test_a_quiet_start_has_no_line(caplog: pytest.LogCaptureFixture) -> None:
    async with SharedInformer(MemorySource(watch_list=False)) as informer:
        await informer.wait_synced(60)
        await until(lambda: informer.health().live)
    assert records(caplog, "following") == []


async def test_a_server_that_is_not_there_does_not_answer_and_one_that_breaks_off_has_failed(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.client() as client, SharedInformerFactory(client) as factory:
        maps = factory.for_resource("v1/configmaps")
        await maps.wait_synced(10)
        await server.restart(downtime=5)
        await until(lambda: bool(records(caplog, "connect")), 60)
        assert "v1/configmaps: the server does not answer (" in message_of(caplog, "connect")
        assert "connection refused" in message_of(caplog, "connect")
        await until(lambda: maps.health().live, 60)
        caplog.clear()
        server.faults.add(faults.close_mid_line(), verb="list", resource="v1/secrets", times=1)
        factory.for_resource("v1/secrets", watch_list=False)
        await until(lambda: bool(records(caplog, "connect")), 60)
        assert "does not answer" not in message_of(caplog, "connect")
