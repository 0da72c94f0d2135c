"""The resources of a server. A page can open any of them; the resource is followed from then on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from kinformer import Client, ConfigError, ConnectError, KinformerError, SharedInformer, SharedInformerFactory
from kinformer.cli.dashboard.secrets import hide
from kinformer.cli.rights import may
from kinformer.client import APIResource, Discovery, discover

__all__ = ["Catalogue"]

_KEPT = 10.0  # seconds for which a list of resources is reused: a new CRD is offered after that time
_VERBS = ("list", "watch")  # the rights that an informer needs


class Catalogue:
    """Lists the resources that can be followed, and makes the informers for them.

    Args:
        client: The connection to the server.
        factory: The factory that gets the informers.
        namespace: The namespace to follow; None is all of them.
    """

    def __init__(self, client: Client, factory: SharedInformerFactory, namespace: str | None = None) -> None:
        self._client = client
        self._factory = factory
        self._namespace = namespace
        self._lock = asyncio.Lock()
        self._found: Discovery | None = None
        self._until = 0.0

    async def resources(self) -> Sequence[APIResource]:
        """Return the resources that can be listed and watched, each in the version that its group prefers.

        Raises:
            APIError, ConnectError, DecodeError: The server does not tell.
        """
        preferred: dict[tuple[str, str], APIResource] = {}
        for resource in await self._discovered():
            if set(_VERBS) <= set(resource.verbs):
                preferred.setdefault((resource.group, resource.name), resource)
        return list(preferred.values())

    async def find(self, name: str) -> APIResource:
        """Return a resource by its name, such as `"v1/pods"`, or as kubectl takes it.

        Raises:
            ConfigError: The server has none of this name, or none that can be listed and watched.
            APIError, ConnectError, DecodeError: The server does not tell.
        """
        found = (await self._discovered()).find(name)
        if not set(_VERBS) <= set(found.verbs):
            raise ConfigError(f"{found} cannot be followed: it has no list and watch")
        return found

    async def of_kind(self, group: str, kind: str) -> str | None:
        """Return the name of the resource with objects of a kind; None if none is known."""
        try:
            resources = await self.resources()
        except KinformerError:  # a reference that cannot be followed is still shown as text
            return None
        return next((str(one) for one in resources if (one.group, one.kind) == (group, kind)), None)

    def inform(self, resource: APIResource) -> SharedInformer:
        """Return an informer for a resource. The values of Secrets never reach its cache."""
        return self._factory.for_resource(
            resource.gvr,
            namespace=self._namespace if resource.namespaced else None,
            transform=hide if str(resource) == "v1/secrets" else None,
        )

    async def release(self, informer: SharedInformer) -> None:
        """Give an informer back that `inform` returned; it ends, unless another part of the program has it too."""
        await self._factory.release(informer)

    async def missing_rights(self, name: str) -> tuple[str, ...]:
        """Return the verbs that the user may not use on a resource, by asking the server; () if it does not tell."""
        try:
            resource = await self.find(name)
            namespace = self._namespace if resource.namespaced else None
            allowed = await asyncio.gather(*(may(self._client, verb, resource, namespace) for verb in _VERBS))
        except KinformerError:  # the error of the informer is shown in any case
            return ()
        return tuple(verb for verb, right in zip(_VERBS, allowed, strict=True) if not right)

    async def _discovered(self) -> Discovery:
        async with self._lock:
            if self._found is None or time.monotonic() >= self._until:
                try:
                    self._found = await discover(self._client)
                except ConnectError:
                    if self._found is None:
                        raise  # an older list is better than none
                self._until = time.monotonic() + _KEPT
            return self._found
