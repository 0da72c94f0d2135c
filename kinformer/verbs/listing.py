"""Lists from the server, page by page, so that only one page of objects is in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from kinformer.connection.connection import Connection
from kinformer.connection.retries import RETRIES, Exchange
from kinformer.exceptions import APIError, ConnectError
from kinformer.list_watcher import ListOptions
from kinformer.listwatch.head_limit import HEAD_TIMEOUT, LONG_HEAD_TIMEOUT
from kinformer.listwatch.http_source import ListWatch
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.models.typed import Model
from kinformer.objects.object import KubeObject
from kinformer.objects.selectors import FieldSelector, LabelSelector
from kinformer.verbs.targets import check_scope

__all__ = ["list_pages", "one_by_one"]

T = TypeVar("T")

_LIMIT = 500  # objects of a page, as in client-go's pager
# Seconds for a page after its head, and for other attempts. An API server aborts a request after 60, which is this and
# the usual limit of a head.
_PAGE_TIMEOUT = 30.0


def list_pages(
    client: Connection,
    resource: str | GroupVersionResource,
    *,
    namespace: str | None,
    label_selector: str | Mapping[str, str] | LabelSelector | None,
    field_selector: str | FieldSelector | None,
    model: type | None,
) -> AsyncGenerator[list[KubeObject], None]:
    """Return the pages of a list. See `Client.list`.

    Raises:
        ConfigError, SelectorError: The resource, the namespace, the model or a selector is invalid.
    """
    reads_as = None if model is None else Model(model, str(resource))
    source = ListWatch(
        client,
        resource,
        namespace=namespace,
        label_selector=str(LabelSelector.parse(label_selector)),
        field_selector=str(FieldSelector.parse(field_selector)),
    )
    return _pages(source, reads_as)


async def one_by_one(batches: AsyncGenerator[list[T], None]) -> AsyncGenerator[T, None]:
    """Yield the members of lists."""
    async with aclosing(batches):
        async for batch in batches:
            for member in batch:
                yield member


async def _pages(source: ListWatch, model: Model[object] | None) -> AsyncGenerator[list[KubeObject], None]:
    await check_scope(source.client, "list", source.resource, source.namespace)
    token = ""
    while True:
        objects, token = await _page(source, token)
        yield objects if model is None else [model.read(obj) for obj in objects]
        if not token:
            return


async def _page(source: ListWatch, token: str) -> tuple[list[KubeObject], str]:
    """Read a page, and again after a failure by the rules of `Client.request`. Return it with the next one's token."""
    options = ListOptions(limit=_LIMIT, continue_token=token)
    exchange = Exchange("GET", source.name, RETRIES)
    ask = partial(source.list, options)

    def late(error: TimeoutError) -> float:
        exchange.attempts, exchange.error = exchange.attempts + 1, error
        limit.reschedule(asyncio.get_running_loop().time() + LONG_HEAD_TIMEOUT + _PAGE_TIMEOUT)
        return 0.0

    async with exchange.within(source.head_limit.seconds() + _PAGE_TIMEOUT) as limit:
        while True:
            exchange.attempts += 1
            try:
                page = await source.head_limit.listed(ask, first=HEAD_TIMEOUT, failed=late)
                assert isinstance(page.items, AsyncIterable), "a ListWatch streams its items"
                objects = [obj async for objects in page.items for obj in objects]
                return objects, page.continue_token
            except (APIError, ConnectError) as error:
                delay = exchange.delay_after(error, limit.when())
                if delay is None:
                    raise
                exchange.error = error
            except TimeoutError:
                raise exchange.timed_out(LONG_HEAD_TIMEOUT) from None
            await asyncio.sleep(delay)
