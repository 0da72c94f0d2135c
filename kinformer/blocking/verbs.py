"""The verbs of `Client` for threads: requests that block, and iterators over lists and logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from typing import TypeVar

from kinformer.blocking.loop_thread import Awaited, LoopThread
from kinformer.client.client import Client
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject
from kinformer.objects.selectors import FieldSelector, LabelSelector
from kinformer.objects.types import ModelT
from kinformer.verbs.listing import list_pages
from kinformer.verbs.logs import log_batches

__all__ = ["BlockingVerbs"]

T = TypeVar("T")


class BlockingVerbs:
    """The base class of `Informers` with the verbs, which have the arguments, results and errors of `Client`'s."""

    _client: Client
    _loop_thread: LoopThread

    create = Awaited(Client.create, of="_client")
    """Create an object: `Client.create`."""

    replace = Awaited(Client.replace, of="_client")
    """Replace an object that was read before: `Client.replace`."""

    apply = Awaited(Client.apply, of="_client")
    """Create an object or set its fields, by server-side apply: `Client.apply`."""

    patch = Awaited(Client.patch, of="_client")
    """Change fields of an object: `Client.patch`."""

    delete = Awaited(Client.delete, of="_client")
    """Delete an object: `Client.delete`."""

    def get(
        self,
        resource: str | GroupVersionResource,
        key: str,
        *,
        model: type[ModelT] | None = None,
        subresource: str | None = None,
    ) -> KubeObject[ModelT]:
        """Return an object from the server: `Client.get`."""
        read = partial(self._client.get, resource, key, model=model, subresource=subresource)
        return self._loop_thread.call("get", read)

    def list(
        self,
        resource: str | GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: str | Mapping[str, str] | LabelSelector | None = None,
        field_selector: str | FieldSelector | None = None,
        model: type[ModelT] | None = None,
    ) -> Iterator[KubeObject[ModelT]]:
        """List objects from the server, page by page: `Client.list`, as a plain iterator."""
        pages = list_pages(
            self._client,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            model=model,
        )
        return _iterate(self._loop_thread, "list", pages)

    def logs(
        self,
        key: str,
        *,
        container: str | None = None,
        previous: bool = False,
        follow: bool = False,
        tail: int | None = None,
    ) -> Iterator[str]:
        """Read the log of a container line by line: `Client.logs`, as a plain iterator.

        Leaving the loop closes the connection. Exiting the `Informers` ends the iteration with StoppedError.
        """
        batches = log_batches(self._client, key, container=container, previous=previous, follow=follow, tail=tail)
        return _iterate(self._loop_thread, "logs", batches)


def _iterate(loop_thread: LoopThread, what: str, batches: AsyncGenerator[list[T], None]) -> Iterator[T]:
    """Yield the members of lists that are read on the loop, and stop reading there if the iterator is closed."""

    async def read() -> list[T] | None:
        return await anext(batches, None)

    try:
        while (batch := loop_thread.call(what, read)) is not None:
            yield from batch
    except GeneratorExit:
        # Perhaps by the garbage collector, in the thread of the loop or in the middle of another call of this thread.
        loop_thread.post(batches.aclose)
        raise
