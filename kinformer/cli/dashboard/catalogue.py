"""The resources of a server. A page can open any of them, which is then followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from kinformer import Client, ConfigError, ConnectError, KinformerError, SharedInformer, SharedInformerFactory
from kinformer.cli.coverage import followable
from kinformer.cli.dashboard.secrets import hide
from kinformer.cli.rights import may
from kinformer.client import APIResource, Discovery, discover

__all__ = ["Catalogue"]

_KEPT = 10.0  # seconds for which a list of resources is cached. A new CRD is offered after that time
_VERBS = ("list", "watch")  # the rights that an informer needs


class Catalogue:
    """Lists the resources that can be followed, and creates informers for them.

    Args:
        client: The connection to the server.
        factory: The factory of the informers.
        namespace: The namespace to follow, or None for all namespaces.

    Attributes:
        client: The connection.
    """

    def __init__(self, client: Client, factory: SharedInformerFactory, namespace: str | None = None) -> None:
        self.client = client
        self._factory = factory
        self._namespace = namespace
        self._lock = asyncio.Lock()
        self._served: Discovery | None = None
        self._until = 0.0

    async def resources(self) -> Sequence[APIResource]:
        """Return the resources that can be listed and watched, each in the preferred version of its group.

        Raises:
            APIError, ConnectError, DecodeError: Discovery failed.
        """
        return followable(await self._discovered())

    async def find(self, name: str) -> APIResource:
        """Return a resource by its name, such as `"v1/pods"`, or by a name that kubectl accepts.

        Raises:
            ConfigError: The server has no such resource, or it cannot be listed and watched.
            APIError, ConnectError, DecodeError: Discovery failed.
        """
        resource = (await self._discovered()).find(name)
        if not set(_VERBS) <= set(resource.verbs):
            raise ConfigError(f"{resource} cannot be followed: it has no list and watch")
        return resource

    async def of_kind(self, group: str, kind: str) -> str | None:
        """Return the name of the resource of a kind, or None if it is not known."""
        try:
            resources = await self.resources()
        except KinformerError:  # a reference without a link is still shown as text
            return None
        return next((str(resource) for resource in resources if (resource.group, resource.kind) == (group, kind)), None)

    def inform(self, resource: APIResource) -> SharedInformer:
        """Return an informer for a resource. Its cache never contains the values of Secrets."""
        return self._factory.for_resource(
            resource.gvr,
            namespace=self._namespace if resource.namespaced else None,
            transform=hide if str(resource) == "v1/secrets" else None,
        )

    async def release(self, informer: SharedInformer) -> None:
        """Release an informer returned by `inform`. It ends unless another part of the program also uses it."""
        await self._factory.release(informer)

    async def missing_rights(self, name: str) -> tuple[str, ...]:
        """Ask the server which verbs the user may not use on a resource. Returns () if that fails."""
        try:
            resource = await self.find(name)
            namespace = self._namespace if resource.namespaced else None
            allowed = await asyncio.gather(*(may(self.client, verb, resource, namespace) for verb in _VERBS))
        except KinformerError:  # the error of the informer is shown anyway
            return ()
        return tuple(verb for verb, right in zip(_VERBS, allowed, strict=True) if not right)

    async def _discovered(self) -> Discovery:
        async with self._lock:
            if self._served is None or time.monotonic() >= self._until:
                try:
                    self._served = await discover(self.client)
                except ConnectError:
                    if self._served is None:  # otherwise an outdated list is better than none
                        raise
                self._until = time.monotonic() + _KEPT
            return self._served
