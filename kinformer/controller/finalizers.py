"""Finalizers: keep an object until everything that belongs to it is cleaned up."""

from __future__ import annotations

from collections.abc import Callable

from kinformer.client.client import Client
from kinformer.exceptions import ConfigError, ConflictError, NotFoundError
from kinformer.kinds.builtin import parse_resource
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.models.typed import read_like
from kinformer.objects.object import KubeObject
from kinformer.objects.types import M

__all__ = ["Finalizer"]

_READS = 3  # reads after a conflict, before it is left to the controller's backoff


class Finalizer:
    """One finalizer on the objects of one resource.

    ::

        finalizer = Finalizer(client, "example.com/v1/foos", "example.com/cleanup")

        async def reconcile(request):
            foo = foos.lister.get(request.name, namespace=request.namespace)
            if foo is None:
                return None                       # gone, and cleaned up
            if foo.deletion_timestamp is not None:
                await clean_up(foo)               # may be called again: must not mind
                await finalizer.remove(foo)
                return None
            foo = await finalizer.add(foo)        # before anything is made that needs the cleaning
            ...

    If the given object already has the wanted finalizers, no request is made. Writes carry the uid and resourceVersion,
    so finalizers that another client has changed in the meantime are never overwritten. The object is then read again,
    at most three times (kube-rs, runtime/finalizer, and controller-runtime, pkg/controller/controllerutil).

    Args:
        client: An entered client.
        resource: The resource of the objects.
        name: The name, with a domain, such as `"example.com/cleanup"`.

    Raises:
        ConfigError: The name has no domain, or `resource` is invalid.
    """

    def __init__(self, client: Client, resource: str | GroupVersionResource, name: str) -> None:
        if not all(name.partition("/")):
            raise ConfigError(
                f"invalid finalizer {name!r}: expected a domain and a name, such as 'example.com/cleanup'"
            )
        self.name = name
        self._client = client
        self._resource = parse_resource(resource)

    def is_on(self, obj: KubeObject) -> bool:
        """Return True if the object has the finalizer."""
        return self.name in obj.path("metadata.finalizers", ())

    async def add(self, obj: KubeObject[M]) -> KubeObject[M]:
        """Add the finalizer, and return the object with it, and with the model of the given one.

        An object that is being deleted is returned unchanged, because the server adds no finalizer to it.

        Raises:
            NotFoundError: The object is gone, or another object has its name.
            ConflictError: Other clients keep changing it.
            APIError, ConnectError: As in `Client.request`.
        """
        return await self._change_finalizers(obj, self._finalizers_with)

    async def remove(self, obj: KubeObject) -> None:
        """Remove the finalizer. Does nothing if the object is gone.

        Raises:
            ConflictError: Other clients keep changing the object.
            APIError, ConnectError: As in `Client.request`.
        """
        try:
            await self._change_finalizers(obj, self._finalizers_without)
        except NotFoundError:
            return

    def _finalizers_with(self, obj: KubeObject) -> list[str] | None:
        if self.is_on(obj) or obj.deletion_timestamp is not None:
            return None
        return [*obj.path("metadata.finalizers", ()), self.name]

    def _finalizers_without(self, obj: KubeObject) -> list[str] | None:
        if not self.is_on(obj):
            return None
        return [name for name in obj.path("metadata.finalizers", ()) if name != self.name]

    async def _change_finalizers(self, obj: KubeObject, wanted: Callable[[KubeObject], list[str] | None]) -> KubeObject:
        """Write the finalizers that `wanted` returns for the object, unless it returns None for no change."""
        given, reads = obj, 0
        while (finalizers := wanted(obj)) is not None:
            try:
                return read_like(given, await self._patch_finalizers(obj, finalizers))
            except ConflictError:
                if reads == _READS:
                    raise
            obj = await self._read_again(obj)
            reads += 1
        return read_like(given, obj)

    async def _patch_finalizers(self, obj: KubeObject, finalizers: list[str]) -> KubeObject:
        metadata = {"uid": obj.uid, "resourceVersion": obj.resource_version, "finalizers": finalizers}
        return self._checked(await self._client.request("PATCH", self._path(obj), body={"metadata": metadata}))

    async def _read_again(self, obj: KubeObject) -> KubeObject:
        fresh = self._checked(await self._client.request("GET", self._path(obj)))
        if fresh.uid != obj.uid:
            raise NotFoundError(404, "NotFound", f"{obj!r} was deleted, and another object has its name")
        return fresh

    def _path(self, obj: KubeObject) -> str:
        return self._resource.path(obj.namespace, obj.name)

    def _checked(self, answer: object) -> KubeObject:
        if not isinstance(answer, KubeObject):
            raise TypeError(f"{self._resource}: expected an object in the server's response, not {answer!r}")
        return answer
