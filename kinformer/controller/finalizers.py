"""Finalizers: an object is not gone before what belongs to it has been cleaned up."""

from __future__ import annotations

from collections.abc import Callable

from kinformer.client.client import Client
from kinformer.exceptions import ConfigError, ConflictError, NotFoundError
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

__all__ = ["Finalizer"]

_READS = 3  # after a conflict; what still conflicts then is for the controller's backoff


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

    No request is made where the object as it is known already is as it should be. Writes carry the uid and the
    resourceVersion, so a list of finalizers that somebody else has changed meanwhile is never overwritten: it is read
    again, three times at most (kube-rs, runtime/finalizer; controller-runtime, pkg/controller/controllerutil).

    Args:
        client: An entered one.
        resource: Of the objects.
        name: With a domain: `"example.com/cleanup"`.

    Raises:
        ConfigError: The name has no domain, or the resource is none.
    """

    def __init__(self, client: Client, resource: str | GroupVersionResource, name: str) -> None:
        if not all(name.partition("/")):
            raise ConfigError(f"finalizer {name!r}: a domain is needed, as in 'example.com/cleanup'")
        self.name = name
        self._client = client
        self._resource = GroupVersionResource.parse(resource)

    def is_on(self, obj: KubeObject) -> bool:
        """Whether the object has it."""
        return self.name in obj.path("metadata.finalizers", ())

    async def add(self, obj: KubeObject) -> KubeObject:
        """The object with the finalizer; an object that is being deleted is returned as it is, for it takes no more.

        Raises:
            NotFoundError: It is gone, or another one has its name.
            ConflictError: Others keep changing it.
            APIError, ConnectError: As `Client.request`.
        """
        return await self._change(obj, self._with)

    async def remove(self, obj: KubeObject) -> None:
        """Take the finalizer off; an object that is gone is no error.

        Raises:
            ConflictError: Others keep changing it.
            APIError, ConnectError: As `Client.request`.
        """
        try:
            await self._change(obj, self._without)
        except NotFoundError:
            return

    def _with(self, obj: KubeObject) -> list[str] | None:
        if self.is_on(obj) or obj.deletion_timestamp is not None:
            return None
        return [*obj.path("metadata.finalizers", ()), self.name]

    def _without(self, obj: KubeObject) -> list[str] | None:
        if not self.is_on(obj):
            return None
        return [name for name in obj.path("metadata.finalizers", ()) if name != self.name]

    async def _change(self, obj: KubeObject, wanted: Callable[[KubeObject], list[str] | None]) -> KubeObject:
        reads = 0
        while (finalizers := wanted(obj)) is not None:
            try:
                return await self._write(obj, finalizers)
            except ConflictError:
                if reads == _READS:
                    raise
            obj = await self._read(obj)
            reads += 1
        return obj

    async def _write(self, obj: KubeObject, finalizers: list[str]) -> KubeObject:
        metadata = {"uid": obj.uid, "resourceVersion": obj.resource_version, "finalizers": finalizers}
        return self._object(await self._client.request("PATCH", self._path(obj), body={"metadata": metadata}))

    async def _read(self, obj: KubeObject) -> KubeObject:
        fresh = self._object(await self._client.request("GET", self._path(obj)))
        if fresh.uid != obj.uid:
            raise NotFoundError(404, "NotFound", f"{obj!r} is gone: another one has its name")
        return fresh

    def _path(self, obj: KubeObject) -> str:
        return self._resource.path(obj.namespace, obj.name)

    def _object(self, answer: object) -> KubeObject:
        if not isinstance(answer, KubeObject):
            raise TypeError(f"{self._resource}: the server answered with no object: {answer!r}")
        return answer
