"""A first wait ends with the server's reason once refusals last, and not while a server starts.

Internals: the log of a web page's event stream, which has no public name.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import (
    APIError,
    Client,
    Controller,
    EventStream,
    Fleet,
    ForbiddenError,
    HandlerRegistration,
    LabelSelector,
    LeaderElector,
    Manager,
    NotFoundError,
    NotSyncedError,
    Request,
    SharedInformer,
    SharedInformerFactory,
    UnauthorizedError,
    blocking,
    derive,
    union,
    wait_for,
)
from kinformer.contrib.backends import Backends
from kinformer.contrib.event_log import EventLog
from kinformer.derived import DerivedCollection
from kinformer.exceptions import ServerError
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

FORBIDDEN = ForbiddenError(403, "Forbidden", 'configmaps is forbidden: User "bob" cannot list resource "configmaps"')
UNAVAILABLE = ServerError(503, "ServiceUnavailable", "the server is currently unable to handle the request")


class Answering(MemorySource):
    """A source that answers requests with the errors of a function of the seconds since the first request."""

    def __init__(self, error_at: Callable[[float, int], APIError | None], **options: Any) -> None:
        super().__init__(**options)
        self.error_at = error_at
        self.asked = 0
        self.began: float | None = None

    async def _fault(self) -> None:
        now = asyncio.get_running_loop().time()
        self.began = now if self.began is None else self.began
        self.asked += 1
        if (error := self.error_at(now - self.began, self.asked)) is not None:
            raise error


def source_of(*errors: APIError | None, until_second: float = float("inf")) -> Answering:
    """Return a source that gives these answers in turn, until it has been asked for so many seconds."""
    return Answering(lambda age, asked: errors[(asked - 1) % len(errors)] if age < until_second else None)


async def seconds_of(waiting: Any) -> tuple[float, BaseException | None]:
    """Return how long a wait took, and its error."""
    loop = asyncio.get_running_loop()
    began, error = loop.time(), None
    try:
        await waiting
    except APIError as raised:
        error = raised
    return loop.time() - began, error


@pytest.mark.parametrize("error", [UnauthorizedError(401), FORBIDDEN, NotFoundError(404)], ids=lambda e: str(e.status))
async def test_a_refusal_that_lasts_ends_the_first_wait_with_its_reason(error: APIError) -> None:
    source = source_of(error)
    async with SharedInformer(source) as informer:
        took, raised = await seconds_of(informer.wait_synced(120))
        assert raised is error
        assert 15 <= took < 21
        assert source.asked >= 4
        asked = source.asked
        _, raised = await seconds_of(informer.wait_synced(120))
        assert raised is error
        assert source.asked == asked + 1, "a later wait ends with the next answer"


async def test_a_server_that_refuses_while_it_starts_is_waited_for() -> None:
    for seconds in (5, 14):
        source = source_of(FORBIDDEN, until_second=seconds)
        source.set("a")
        async with SharedInformer(source) as informer:
            took, raised = await seconds_of(informer.wait_synced(120))
            assert raised is None
            assert seconds <= took < seconds + 6


@pytest.mark.slow
async def test_refusals_among_other_failures_do_not_end_the_wait() -> None:
    async with SharedInformer(source_of(FORBIDDEN, FORBIDDEN, FORBIDDEN, UNAVAILABLE)) as informer:
        with pytest.raises(NotSyncedError):
            await informer.wait_synced(300)
        with pytest.raises(NotSyncedError):
            await informer.wait_synced(60, fail_fast=False)


async def test_refusals_after_other_failures_count_from_the_first_of_them() -> None:
    source = Answering(lambda age, _: UNAVAILABLE if age < 100 else FORBIDDEN)
    async with SharedInformer(source) as informer:
        took, raised = await seconds_of(informer.wait_synced(300))
        assert raised is FORBIDDEN
        assert 115 <= took < 190


@pytest.mark.slow
async def test_fail_fast_chooses_the_second_refusal_or_none() -> None:
    async with SharedInformer(source_of(FORBIDDEN)) as informer:
        took, raised = await seconds_of(informer.wait_synced(60, fail_fast=True))
        assert raised is FORBIDDEN
        assert took < 3
        with pytest.raises(NotSyncedError, match="cannot list resource"):
            await informer.wait_synced(600, fail_fast=False)


@pytest.mark.slow
async def test_an_optional_resource_never_ends_the_wait_by_default() -> None:
    async with SharedInformer(source_of(FORBIDDEN), optional=True) as informer:
        with pytest.raises(NotSyncedError):
            await informer.wait_synced(300)
    async with SharedInformer(source_of(NotFoundError(404)), optional=True) as informer:
        for fail_fast in (None, True, False):
            await informer.wait_synced(300, fail_fast=fail_fast)


async def test_a_namespace_that_is_refused_ends_the_wait_although_another_is_slow() -> None:
    slow = MemorySource(namespace="slow")
    slow.hang = True
    async with SharedInformer({"slow": slow, "closed": source_of(FORBIDDEN)}) as informer:
        took, raised = await seconds_of(informer.wait_synced(120))
        assert raised is FORBIDDEN
        assert took < 21


async def test_refusals_after_the_list_do_not_end_a_wait_for_another_namespace() -> None:
    followed, slow = MemorySource(namespace="followed"), MemorySource(namespace="slow")
    slow.hang = True
    async with SharedInformer({"slow": slow, "followed": followed}) as informer:
        await until(lambda: informer.health().watches == 1)
        followed.fail_with = FORBIDDEN
        followed.cut()
        with pytest.raises(NotSyncedError):
            await informer.wait_synced(120)


@asynccontextmanager
async def refused(*resources: str) -> AsyncIterator[tuple[APIServer, Client]]:
    async with APIServer() as server, server.client() as client:
        for resource in resources:
            server.faults.add(faults.status(403, f"{resource}: not for you"), resource=resource)
        yield server, client


async def test_the_error_of_a_factory_lists_all_that_are_refused() -> None:
    async with refused("v1/pods", "v1/secrets") as (_, client), SharedInformerFactory(client) as factory:
        for resource in ("v1/configmaps", "v1/pods", "v1/secrets"):
            factory.for_resource(resource)
        took, raised = await seconds_of(factory.wait_for_cache_sync(120))
        assert 15 <= took < 21
        assert isinstance(raised, ForbiddenError)
        assert "v1/pods: " in str(raised)
        assert "v1/secrets: " in str(raised)
        assert "v1/configmaps" not in str(raised)


async def test_an_optional_resource_beside_a_refused_one_is_listed_but_does_not_end_the_wait() -> None:
    async with refused("v1/pods", "v1/secrets") as (_, client), SharedInformerFactory(client) as factory:
        factory.for_resource("v1/pods", optional=True)
        with pytest.raises(NotSyncedError):
            await factory.wait_for_cache_sync(60)
        factory.for_resource("v1/secrets")
        _, raised = await seconds_of(factory.wait_for_cache_sync(60))
        assert isinstance(raised, ForbiddenError)


async def test_a_derived_collection_and_a_plain_union_end_like_their_informers() -> None:
    source = source_of(FORBIDDEN)
    async with (
        SharedInformer(source) as informer,
        SharedInformer(MemorySource()) as other,
        derive(informer, lambda obj, _: obj.name, name="names") as names,
        derive(names, lambda name, _: name, name="again") as again,
        union(informer, other, name="both") as both,
    ):
        waits = [seconds_of(one.wait_synced(120)) for one in (names, again, both)]
        for took, raised in await asyncio.gather(*waits):
            assert raised is FORBIDDEN
            assert 15 <= took < 21
        for one in (names, again, both):
            with pytest.raises(NotSyncedError):
                await one.wait_synced(60, fail_fast=False)


async def test_a_refused_member_with_a_name_is_away_and_ends_a_wait_only_if_asked() -> None:
    async with (
        SharedInformer(MemorySource()) as east,
        SharedInformer(source_of(FORBIDDEN)) as west,
        union({"east": east, "west": west}) as clusters,
    ):
        _, raised = await seconds_of(clusters.wait_synced(120, fail_fast=True))
        assert raised is FORBIDDEN
        took, raised = await seconds_of(clusters.wait_synced(120))
        assert raised is None
        assert took < 12


async def test_a_derived_collection_of_chosen_namespaces_waits_for_its_namespaces() -> None:
    async with refused("v1/namespaces") as (_, client), SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods", namespaces=LabelSelector.parse("team=a"))
        with pytest.raises(ForbiddenError):
            await pods.wait_synced(120)


async def test_a_fleet_ends_the_wait_if_its_hub_refuses_and_not_if_a_cluster_does() -> None:
    async with (
        refused("v1/secrets") as (_, hub),
        SharedInformerFactory(hub) as factory,
        Fleet.from_secrets(factory.for_resource("v1/secrets")) as fleet,
    ):
        took, raised = await seconds_of(fleet.wait_synced(120))
        assert isinstance(raised, ForbiddenError)
        assert 15 <= took < 21
    async with refused("v1/pods") as (server, _), Fleet({"east": Client.from_url(server.url)}) as fleet:
        fleet.union("v1/pods")
        _, raised = await seconds_of(fleet.wait_synced(120, fail_fast=True))
        assert isinstance(raised, ForbiddenError)
        await fleet.wait_synced(120)


async def test_a_fleet_whose_hub_refuses_for_minutes_finds_its_clusters_later() -> None:
    async with refused() as (server, hub), SharedInformerFactory(hub) as factory:
        fault = server.faults.add(faults.status(403), resource="v1/secrets")
        async with Fleet.from_secrets(factory.for_resource("v1/secrets")) as fleet:
            await asyncio.sleep(120)
            assert fleet.source_error is None, "it still waits"
            fault.remove()
            await fleet.wait_synced(120)


async def test_namespaces_that_are_refused_for_minutes_are_followed_later() -> None:
    async with refused() as (server, client), SharedInformerFactory(client) as factory:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"team": "a"}}})
        server.create(config_map("x", namespace="a"))
        fault = server.faults.add(faults.status(403), resource="v1/namespaces")
        maps = factory.for_resource("v1/configmaps", namespaces=LabelSelector.parse("team=a"))
        await asyncio.sleep(120)
        fault.remove()
        await maps.wait_synced(120)
        assert list(maps.by_key) == ["a/x"]


async def test_waiting_for_an_object_of_a_refused_informer_ends_with_the_reason() -> None:
    async with SharedInformer(source_of(FORBIDDEN)) as informer:
        _, raised = await seconds_of(wait_for(informer, "default/a", lambda obj: obj is not None, 120))
        assert raised is FORBIDDEN


async def waits_for_handlers(informer: SharedInformer, **options: Any) -> None:
    informer.add_event_handler(on_add=lambda obj: None)
    await informer.wait_handlers_synced(**options)


async def waits_for_a_stream(informer: SharedInformer, **options: Any) -> None:
    async with informer.events() as stream:
        await stream.wait_synced(**options)


async def waits_for_a_handler_of_derived(informer: SharedInformer, **options: Any) -> None:
    async with derive(informer, lambda obj, _: obj.name) as names:
        await names.add_event_handler(on_add=lambda value: None).wait_synced(**options)


async def confirms_derived(informer: SharedInformer) -> None:
    async with derive(informer, lambda obj, _: obj.name) as names:
        await names.confirm(timeout=None)


async def never(request: Request) -> None:
    raise AssertionError(request)


WAITS: dict[str, Callable[..., Awaitable[object]]] = {
    "a handler": lambda informer, **options: informer.add_event_handler(on_add=print).wait_synced(**options),
    "all handlers": waits_for_handlers,
    "a stream": waits_for_a_stream,
    "a handler of a derived collection": waits_for_a_handler_of_derived,
}
ENDLESS: dict[str, Callable[[SharedInformer], Awaitable[object]]] = {
    "a controller": lambda informer: Controller(never).for_(informer).run(),
    "a version": lambda informer: informer.wait_for_resource_version("7"),
    "a confirmed read": lambda informer: informer.confirm(timeout=None),
    "some confirmed objects": lambda informer: informer.confirm(label_selector="a=b", timeout=None),
    "confirmed values": confirms_derived,
}


@pytest.mark.parametrize("wait", [*WAITS.values(), *ENDLESS.values()], ids=[*WAITS, *ENDLESS])
async def test_every_wait_for_a_first_sync_ends_by_the_same_rule(wait: Callable[..., Awaitable[object]]) -> None:
    async with SharedInformer(source_of(FORBIDDEN)) as informer:
        took, raised = await seconds_of(wait(informer))
        assert raised is FORBIDDEN
        assert 15 <= took < 21
    source = source_of(FORBIDDEN, until_second=10)
    async with SharedInformer(source) as informer:
        waiting = asyncio.ensure_future(wait(informer))
        await asyncio.sleep(20)
        source.set("a")  # passes the version that one waits for
        await asyncio.sleep(20)
        assert not waiting.done() or waiting.exception() is None
        waiting.cancel()
        await asyncio.wait({waiting})


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
async def test_every_wait_for_a_first_sync_takes_the_same_options(wait: Callable[..., Awaitable[object]]) -> None:
    async with SharedInformer(source_of(FORBIDDEN)) as informer:
        took, raised = await seconds_of(wait(informer, fail_fast=True))
        assert raised is FORBIDDEN
        assert took < 3
        with pytest.raises(NotSyncedError, match="cannot list resource") as caught:
            await wait(informer, timeout=60, fail_fast=False)
        assert caught.value.unsynced == {"v1/configmaps": FORBIDDEN}


async def test_a_pool_of_backends_ends_its_wait_and_finds_its_backends_later() -> None:
    async with refused() as (server, client), SharedInformerFactory(client) as factory:
        fault = server.faults.add(faults.status(403), resource="discovery.k8s.io/v1/endpointslices")
        async with Backends(factory, service="default/web", port="http") as pool:
            took, raised = await seconds_of(pool.wait_synced())
            assert isinstance(raised, ForbiddenError)
            assert 15 <= took < 21
            with pytest.raises(NotSyncedError):
                await pool.wait_synced(60, fail_fast=False)
            fault.remove()
            await pool.wait_synced(60, fail_fast=False)


async def test_an_event_log_waits_for_rights_that_are_given_later() -> None:
    source = source_of(FORBIDDEN, until_second=100)
    source.set("a")
    async with SharedInformer(source) as informer:
        log = EventLog({"maps": informer})
        log.start()
        try:
            await log.wait_synced()
            assert log.last == 1
        finally:
            await log.close()


@pytest.mark.parametrize("missing", ["v1/configmaps", "coordination.k8s.io/v1/leases"])
async def test_a_manager_raises_the_right_that_it_lacks(missing: str) -> None:
    async with refused(missing) as (_, client):
        elector = LeaderElector(client, namespace="default", name="lock")
        async with Manager(client, elector=elector, signals=()) as manager:
            manager.factory.for_resource("v1/configmaps")
            took, raised = await seconds_of(manager.run())
            assert isinstance(raised, ForbiddenError)
            assert missing.rpartition("/")[2] in str(raised) or "not for you" in str(raised)
            assert 15 <= took < 25


async def test_a_manager_waits_for_a_server_that_refuses_while_it_starts() -> None:
    async with refused() as (server, client):
        fault = server.faults.add(faults.status(403))
        elector = LeaderElector(client, namespace="default", name="lock")
        async with Manager(client, elector=elector, signals=()) as manager:
            maps = manager.factory.for_resource("v1/configmaps")
            running = asyncio.ensure_future(manager.run())
            await asyncio.sleep(12)
            fault.remove()
            await maps.wait_synced(30)
            await until(lambda: elector.is_leader, 30)
            server.faults.add(faults.status(403), resource="v1/configmaps")  # later ones end nothing
            await server.restart()
            await asyncio.sleep(60)
            assert not running.done()
            manager.stop()
            await running


async def test_a_candidate_that_is_answered_waits_for_as_long_as_it_takes() -> None:
    async with refused() as (server, client):
        first, second = (LeaderElector(client, namespace="default", name="lock", identity=i) for i in "ab")
        async with first.leading():
            waiting = asyncio.ensure_future(anext(second.leading().gen))
            for _ in range(10):
                fault = server.faults.add(faults.status(403), resource="coordination.k8s.io/v1/leases", verb="get")
                await asyncio.sleep(8)
                fault.remove()
                await asyncio.sleep(8)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait({waiting})


def test_the_waits_of_threads_have_the_same_default() -> None:
    for wait in (
        HandlerRegistration.wait_synced,
        blocking.HandlerRegistration.wait_synced,
        EventStream.wait_synced,
        SharedInformer.wait_handlers_synced,
        Backends.wait_synced,
        blocking.Informers.wait_for_cache_sync,
        SharedInformerFactory.wait_for_cache_sync,
        SharedInformer.wait_synced,
        DerivedCollection.wait_synced,
        Fleet.wait_synced,
    ):
        assert inspect.signature(wait).parameters["fail_fast"].default is None


async def test_a_wait_leaves_no_task_behind() -> None:
    async with SharedInformer(source_of(FORBIDDEN)) as informer:
        before = asyncio.all_tasks()
        for fail_fast in (None, True):
            with pytest.raises(APIError):
                await informer.wait_synced(60, fail_fast=fail_fast)
        waiting = asyncio.ensure_future(informer.wait_synced(fail_fast=False))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert asyncio.all_tasks() - before == set()
